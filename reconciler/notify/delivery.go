package notify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed-c01c3da5/zester/reconciler/notify/outbound"
	"github.com/seed-c01c3da5/zester/reconciler/notify/place"
)

const (
	toldPrefix   = "told." // of the keys in the bucket
	maxQueue     = 50      // events that wait for one place
	maxAge       = time.Hour
	burst        = 20
	refill       = 30 * time.Second
	catchUp      = 5 // revisions that a chat, mailbox or webhook is told of after it was away; a forge is told of all
	backoffFirst = time.Second
	backoffMost  = 5 * time.Minute
)

// A delivery tells one place.
type delivery struct {
	s         *session
	place     *place.Place
	limit     *rate.Limiter // nil for a forge, which is told each state of a commit once
	wake      chan struct{}
	known     told // nil until it was read
	failures  int  // in a row
	notBefore time.Time

	mu      sync.Mutex
	queue   []place.Event
	dropped int
}

func newDelivery(s *session, p *place.Place) *delivery {
	d := &delivery{s: s, place: p, wake: make(chan struct{}, 1)}
	if p.Forge() == nil {
		d.limit = rate.NewLimiter(rate.Every(refill), burst)
	}
	return d
}

// offer puts the events that the place wants into its queue, and wakes it.
func (d *delivery) offer(events []place.Event, now time.Time) {
	d.mu.Lock()
	for _, e := range events {
		if d.place.Wants(e.Kind) {
			d.queue = append(d.queue, e)
		}
	}
	before := len(d.queue)
	d.queue = slices.DeleteFunc(d.queue, func(e place.Event) bool { return now.Sub(e.Time) > maxAge })
	d.queue = d.queue[max(0, len(d.queue)-maxQueue):]
	d.dropped += before - len(d.queue)
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// take removes the oldest event of the queue.
func (d *delivery) take() (e place.Event, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) == 0 {
		return e, false
	}
	e, d.queue = d.queue[0], d.queue[1:]
	if d.dropped > 0 {
		e.Details = append(slices.Clone(e.Details), fmt.Sprintf("%d notifications before this one were left out: this place could not be told in time", d.dropped))
		d.dropped = 0
	}
	return e, true
}

// putBack has an event that was not delivered tried again.
func (d *delivery) putBack(e place.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue = append([]place.Event{e}, d.queue...)
}

// run tells the place until ctx ends.
func (d *delivery) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.wake:
		}
		if d.known == nil && len(d.s.newest()) > 0 && !d.recall(ctx) { // without a history nobody can say what is new
			continue
		}
		for d.mayWrite() && d.tellOutcome(ctx) {
		}
		for d.mayWrite() && d.tellEvent(ctx) {
		}
	}
}

func (d *delivery) recall(ctx context.Context) bool {
	known, err := d.s.recall(ctx, d.place)
	if err != nil {
		if ctx.Err() == nil {
			d.s.Log.Warn("place not told", "place", d.place.Name(), "err", err)
		}
		return false
	}
	d.known = known
	if d.limit != nil {
		d.skipOld()
	}
	return true
}

// skipOld marks all but the newest outcomes as told.
func (d *delivery) skipOld() {
	due := slices.DeleteFunc(slices.Clone(d.s.newest()), func(o outcome) bool { return !o.isDue(d.known) || !d.place.Wants(o.Kind) })
	for _, o := range due[:max(0, len(due)-catchUp)] {
		d.known[o.Revision.Commit] = o.mark
	}
}

// mayWrite reports whether the place may be told something now.
func (d *delivery) mayWrite() bool {
	return !time.Now().Before(d.notBefore) && (d.limit == nil || d.limit.Tokens() >= 1)
}

// tellOutcome tells the place the oldest outcome of a revision that it lacks, and reports whether to go on. What the place
// does not want counts as told.
func (d *delivery) tellOutcome(ctx context.Context) bool {
	if d.known == nil {
		return false
	}
	all := d.s.newest()
	i := slices.IndexFunc(all, func(o outcome) bool { return o.isDue(d.known) })
	if i < 0 {
		return false
	}
	if d.limit != nil && d.failures > 0 {
		d.skipOld()
	}
	next := all[i]
	if !next.isDue(d.known) {
		return true
	}
	if d.place.Wants(next.Kind) {
		err := d.send(ctx, next.Event)
		if e, ok := errors.AsType[*outbound.Error](err); err != nil && (ctx.Err() != nil || !ok || !e.Final) {
			return false
		}
	}
	d.known[next.Revision.Commit] = next.mark
	if err := d.s.remember(ctx, d.place, d.known); err != nil && ctx.Err() == nil {
		d.s.Log.Warn("what a place was told is not stored", "place", d.place.Name(), "err", err)
	}
	return true
}

// tellEvent tells the place the oldest event of its queue, and reports whether to go on.
func (d *delivery) tellEvent(ctx context.Context) bool {
	e, ok := d.take()
	if !ok {
		return false
	}
	err := d.send(ctx, e)
	if err == nil {
		return true
	}
	if known, ok := errors.AsType[*outbound.Error](err); !ok || !known.Final {
		d.putBack(e)
		return false
	}
	return true
}

// send tells the place and notes when it may be told again.
func (d *delivery) send(ctx context.Context, e place.Event) error {
	if d.limit != nil {
		d.limit.Allow()
	}
	err := d.place.Send(ctx, e)
	if err == nil {
		d.failures = 0
		return nil
	}
	if ctx.Err() != nil {
		return err
	}
	d.s.Log.Warn("place not told", "place", d.place.Name(), "event", e.Kind, "commit", e.Revision.Commit, "err", err)
	if known, ok := errors.AsType[*outbound.Error](err); ok && known.Final {
		d.failures = 0
		return err
	}
	d.failures++
	d.notBefore = time.Now().Add(pause(d.failures, err))
	return err
}

// pause is how long to wait after so many failures in a row.
func pause(failures int, err error) time.Duration {
	if e, ok := errors.AsType[*outbound.Error](err); ok && e.After > 0 {
		return e.After
	}
	return backoffFirst + rand.N(min(backoffFirst<<min(failures, 10), backoffMost))
}
