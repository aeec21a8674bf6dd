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

	"github.com/seed-c01c3da5/zester/master/outbound"
)

const (
	keyPrefix    = "told." // of the keys in the bucket
	maxQueue     = 50      // events that wait for one place
	maxAge       = time.Hour
	burst        = 20
	refill       = 30 * time.Second
	catchUp      = 5 // revisions that a chat, mailbox or webhook gets after an outage; a forge gets all
	backoffFirst = time.Second
	backoffMost  = 5 * time.Minute
)

// A delivery sends events to one place.
type delivery struct {
	s         *session
	place     *Place
	limit     *rate.Limiter // nil for a forge, which gets each state of a commit once
	wake      chan struct{}
	known     delivered // nil until it was read
	failures  int       // in a row
	notBefore time.Time

	mu      sync.Mutex
	queue   []Event
	dropped int
}

func newDelivery(s *session, p *Place) *delivery {
	d := &delivery{s: s, place: p, wake: make(chan struct{}, 1)}
	if p.Forge() == nil {
		d.limit = rate.NewLimiter(rate.Every(refill), burst)
	}
	return d
}

// offer adds the events that the place wants to its queue, and wakes run.
func (d *delivery) offer(events []Event, now time.Time) {
	d.mu.Lock()
	for _, e := range events {
		if d.place.Wants(e.Kind) {
			d.queue = append(d.queue, e)
		}
	}
	before := len(d.queue)
	d.queue = slices.DeleteFunc(d.queue, func(e Event) bool { return now.Sub(e.Time) > maxAge })
	d.queue = d.queue[max(0, len(d.queue)-maxQueue):]
	d.dropped += before - len(d.queue)
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// take removes the oldest event of the queue.
func (d *delivery) take() (e Event, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) == 0 {
		return e, false
	}
	e, d.queue = d.queue[0], d.queue[1:]
	if d.dropped > 0 {
		e.Details = append(slices.Clone(e.Details),
			fmt.Sprintf("%d earlier notifications were dropped, as they could not be delivered in time", d.dropped))
		d.dropped = 0
	}
	return e, true
}

// putBack returns an event that was not delivered to the queue.
func (d *delivery) putBack(e Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue = append([]Event{e}, d.queue...)
}

// run delivers events until ctx ends.
func (d *delivery) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.wake:
		}
		// for a new place, outcomes are needed to find the newest
		if d.known == nil && len(d.s.newest()) > 0 && !d.loadKnown(ctx) {
			continue
		}
		for d.maySend() && d.sendOutcome(ctx) {
		}
		for d.maySend() && d.sendEvent(ctx) {
		}
	}
}

func (d *delivery) loadKnown(ctx context.Context) bool {
	known, err := d.s.loadDelivered(ctx, d.place)
	if err != nil {
		if ctx.Err() == nil {
			d.s.Log.Warn("place not notified", "place", d.place.Name(), "err", err)
		}
		return false
	}
	d.known = known
	if d.limit != nil {
		d.skipOld()
	}
	return true
}

// skipOld marks all outcomes but the newest ones as delivered.
func (d *delivery) skipOld() {
	due := slices.DeleteFunc(slices.Clone(d.s.newest()), func(o outcome) bool {
		return !o.isDue(d.known) || !d.place.Wants(o.Kind)
	})
	for _, o := range due[:max(0, len(due)-catchUp)] {
		d.known[o.Revision.Commit] = o.mark
	}
}

// maySend reports whether the place may get a message now.
func (d *delivery) maySend() bool {
	return !time.Now().Before(d.notBefore) && (d.limit == nil || d.limit.Tokens() >= 1)
}

// sendOutcome sends the oldest outcome that the place lacks, and reports whether to call it again. An outcome that the
// place does not want counts as delivered.
func (d *delivery) sendOutcome(ctx context.Context) bool {
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
	if err := d.s.storeDelivered(ctx, d.place, d.known); err != nil && ctx.Err() == nil {
		d.s.Log.Warn("delivered notifications not recorded", "place", d.place.Name(), "err", err)
	}
	return true
}

// sendEvent sends the oldest event of the queue, and reports whether to call it again.
func (d *delivery) sendEvent(ctx context.Context) bool {
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

// send sends an event to the place, and after an error sets when the next may be sent.
func (d *delivery) send(ctx context.Context, e Event) error {
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
	d.s.Log.Warn("place not notified", "place", d.place.Name(), "event", e.Kind, "commit", e.Revision.Commit,
		"err", err)
	if known, ok := errors.AsType[*outbound.Error](err); ok && known.Final {
		d.failures = 0
		return err
	}
	d.failures++
	d.notBefore = time.Now().Add(pause(d.failures, err))
	return err
}

// pause returns the pause after a number of failures in a row.
func pause(failures int, err error) time.Duration {
	if e, ok := errors.AsType[*outbound.Error](err); ok && e.After > 0 {
		return e.After
	}
	return backoffFirst + rand.N(min(backoffFirst<<min(failures, 10), backoffMost))
}
