package reconciler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
)

const (
	branchQuiet  = 20 * time.Millisecond // after the branch moved, before that is acted on
	fleetQuiet   = 50 * time.Millisecond // after the fleet changed alone
	settleMost   = time.Second           // but never longer than this
	backoffFirst = time.Second
	backoffMost  = 5 * time.Minute
	publishAgain = 5 * time.Second // least pause after documents could not be published; twice it at most
)

// An ask is what somebody wants of the loop, which alone may change a term.
type ask struct {
	branch bool                        // the branch is to be read
	do     func(context.Context) error // nil: nothing more
	done   chan error                  // takes one answer without blocking
}

// A wake is why an attempt is made.
type wake struct {
	branch bool // the branch is to be asked, not the fleet alone to be looked at
	asked  []*ask
	failed []error // of asked
}

// obey does what is asked for. Its error is one that ends the term.
func (w *wake) obey(ctx context.Context) error {
	for _, a := range w.asked {
		var err error
		if a.do != nil {
			err = a.do(ctx)
		}
		w.failed = append(w.failed, err)
		if isConflict(err) {
			return err
		}
	}
	return nil
}

// answer tells all who asked that what they wanted is done.
func (w *wake) answer() {
	for i, a := range w.asked {
		a.done <- w.failed[i]
	}
}

func (w *wake) add(a *ask) {
	w.asked = append(w.asked, a)
	w.branch = w.branch || a.branch
}

// wait returns when there may be something to do: at the next poll or retry, when the local repo or the fleet has
// changed, or when somebody asks for it.
func (t *term) wait(ctx context.Context, due, again <-chan time.Time) (w *wake, err error) {
	w = &wake{}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-due:
		w.branch = true
		return w, nil
	case <-again:
		return w, nil
	case <-t.minute:
		for _, id := range t.published.RepublishStale(t.progress.Pending()) {
			t.stale = true
			t.r.log.Warn("peel does not run its settings, which are published again", "peel", id, "commit", t.published.Heads().Of(id).Commit)
		}
		return w, nil
	case a := <-t.asks:
		w.add(a)
		t.gather(w)
		return w, nil
	case <-t.moved:
		w.branch = true
	case <-t.hints:
		w.branch = true
	case <-t.changed:
		t.otherFleet()
	case <-t.reports():
	}
	return w, t.settle(ctx, w)
}

// hear takes hints that masters pass on. Any number of them between two attempts are one.
func (t *term) hear() (*nats.Subscription, error) {
	sub, err := t.nc.Subscribe(wire.BranchMoved, func(*nats.Msg) {
		select {
		case t.hints <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return nil, fmt.Errorf("cannot hear that the branch moved: %w", err)
	}
	return sub, nil
}

// reports tells of what peels report, as long as that decides something.
func (t *term) reports() <-chan struct{} {
	if t.last.Rollout == nil {
		return nil
	}
	return t.news
}

// otherFleet has a revision that was refused judged again, as what a revision gives depends on the fleet.
func (t *term) otherFleet() {
	t.stale = true
	t.fleetMoves++
	if t.good == nil || t.tried != t.good.Commit.Hash {
		t.tried = gitrepo.Hash{}
	}
}

// settle waits until changes pause, so that a burst costs one reconcile.
func (t *term) settle(ctx context.Context, w *wake) error {
	defer t.gather(w)
	most := time.After(settleMost)
	for {
		quiet := fleetQuiet
		if w.branch {
			quiet = branchQuiet
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-most:
			return nil
		case <-time.After(quiet):
			return nil
		case <-t.moved:
			w.branch = true
		case <-t.hints:
			w.branch = true
		case <-t.changed:
			t.otherFleet()
		}
	}
}

// gather collects whoever else is asking.
func (t *term) gather(w *wake) {
	for {
		select {
		case a := <-t.asks:
			w.add(a)
		default:
			return
		}
	}
}

// next is how long to wait after an attempt: the poll interval ± 10 % after success, a growing random time after an
// error that trying again may mend, as long as the remote asked for if it did.
func (t *term) next(err error) time.Duration {
	poll := t.r.o.Poll*9/10 + rand.N(t.r.o.Poll/5)
	if err == nil {
		t.failures = 0
		return poll
	}
	t.failures++
	if remote, ok := errors.AsType[*gitrepo.Error](err); ok {
		if remote.Reason.Stalled() {
			return poll
		}
		if remote.RetryAfter > 0 {
			t.notBefore = time.Now().Add(remote.RetryAfter)
			return remote.RetryAfter
		}
	}
	limit := min(backoffFirst<<min(t.failures, 10), backoffMost)
	return backoffFirst + rand.N(limit)
}
