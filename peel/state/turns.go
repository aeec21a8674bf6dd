//go:build linux

package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

const (
	allTurns = 1 << 20 // more than a peel's functions that run at once
	// replyMargin is how long before its deadline a call that waits for another run replies, so that the reply arrives
	// in time.
	replyMargin = time.Second
)

// errDeadline is the cause of the end of a wait.
var errDeadline = errors.New("the job's deadline passes before the run can begin")

// turns order the runs of states. Those in test mode share the host.
type turns struct {
	places *semaphore.Weighted
	mu     sync.Mutex // guards the following
	runs   []*turn    // that have begun, oldest first
}

// A turn is a run that has begun.
type turn struct {
	jid   wire.JID
	state string // the state under way
	since time.Time
}

// take waits until a run can begin, at most until shortly before the deadline of its call. The error names the run that
// it waits for.
func (t *turns) take(ctx context.Context, call module.Call, test bool) (mine *turn, release func(), err error) {
	places := int64(allTurns)
	if test {
		places = 1
	}
	wait, cancel := ctx, func() {}
	if !call.StartBefore.IsZero() {
		wait, cancel = context.WithDeadlineCause(ctx, call.StartBefore.Add(-replyMargin), errDeadline)
	}
	defer cancel()
	if !t.places.TryAcquire(places) && t.places.Acquire(wait, places) != nil {
		return nil, nil, fmt.Errorf("another run of states did not end: %s: %w", t.underWay(), context.Cause(wait))
	}
	mine = &turn{jid: call.JID, since: time.Now()}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.runs = append(t.runs, mine)
	return mine, func() {
		t.mu.Lock()
		t.runs = slices.DeleteFunc(t.runs, func(r *turn) bool { return r == mine })
		t.mu.Unlock()
		t.places.Release(places)
	}, nil
}

// begin notes the state that a run is in.
func (t *turns) begin(mine *turn, state string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine.state, mine.since = state, time.Now()
}

// underWay describes the oldest run.
func (t *turns) underWay() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.runs) == 0 {
		return "it has just begun"
	}
	r := t.runs[0]
	text := "the run " + string(r.jid)
	if r.state != "" {
		text += " is in the state " + r.state
	}
	return fmt.Sprintf("%s since %s", text, r.since.Format(time.DateTime))
}
