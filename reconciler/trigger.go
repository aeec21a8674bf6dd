package reconciler

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
)

const (
	debounce     = 50 * time.Millisecond // quiet after a change before it is acted on
	debounceMost = time.Second           // but never longer than this
	backoffFirst = time.Second
	backoffMost  = 5 * time.Minute
)

// wait returns when the branch is to be asked again: at the next poll or retry, when the local repo or the fleet has
// changed, or when somebody asks for it. Those who ask are returned, to be answered.
func (t *term) wait(ctx context.Context, due <-chan time.Time) (asked []chan<- struct{}, err error) {
	var ask chan<- struct{}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-due:
		return nil, nil
	case ask = <-t.asks:
		return t.gather(append(asked, ask)), nil
	case <-t.moved:
	case <-t.changed:
		t.tried = gitrepo.Hash{} // what a revision gives depends on the fleet
	}
	return t.settle(ctx)
}

// settle waits until changes pause, so that a burst costs one reconcile.
func (t *term) settle(ctx context.Context) (asked []chan<- struct{}, err error) {
	most := time.After(debounceMost)
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-most:
			return t.gather(nil), nil
		case <-time.After(debounce):
			return t.gather(nil), nil
		case <-t.moved:
		case <-t.changed:
			t.tried = gitrepo.Hash{}
		}
	}
}

// gather collects whoever else is asking.
func (t *term) gather(asked []chan<- struct{}) []chan<- struct{} {
	for {
		select {
		case ask := <-t.asks:
			asked = append(asked, ask)
		default:
			return asked
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
			return remote.RetryAfter
		}
	}
	limit := min(backoffFirst<<min(t.failures, 10), backoffMost)
	return backoffFirst + rand.N(limit)
}
