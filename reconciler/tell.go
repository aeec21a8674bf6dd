package reconciler

import (
	"context"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/notify"
)

// maxFailing bounds the failing peels that places are told of at once.
const maxFailing = 200

// tell has places told what happens until ctx ends.
func (t *term) tell(ctx context.Context) error {
	return notify.Run(ctx, notify.Options{Places: t.r.o.Notify, Look: t.observe, Store: t.rollout, Log: t.r.log})
}

// observe returns the state that places are told of.
func (t *term) observe() notify.Observation {
	o := notify.Observation{Sync: t.board.read(), Attempts: t.board.attempts()}
	if by := t.ordered.Load(); by != nil {
		o.Order = *by
	}
	counts, reached, ok := t.progress.CountsOf(o.Sync.LastGood.Commit)
	if !ok {
		return o
	}
	o.Fleet = notify.Fleet{Commit: o.Sync.LastGood.Commit, Counts: counts, Reached: reached}
	if counts.Failed+counts.Pending > 0 {
		o.Fleet.Failing, o.Fleet.Late = t.progress.Troubled(maxFailing)
	}
	return o
}

// noteOrder remembers who asked for something last.
func (t *term) noteOrder(verb, by string) {
	t.ordered.Store(&notify.Order{Verb: verb, By: by, Time: time.Now()})
}
