// File lease.go lets one master at a time lead a task: the reconciler, or the alerts.
//
// Call [Lead] with a function. It runs whenever this master holds the lease of its task.
//
// Guarantees: a holder stops before another can begin, also after the machine was suspended or the bus was away. If the
// answer to a write is lost, the holder recognises its own write by a random text of its session.
//
// Known gap: a write that was sent before the lease was lost may arrive after it. Compare-and-set has to refuse it.

package bus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// The bucket lets a key live for 15 s. A holder renews every 5 s, again each second where that fails, and gives up when
// it could not for 10 s, so it has stopped before another can begin.
const (
	renewEvery  = 5 * time.Second
	renewLimit  = renewEvery / 2
	renewAgain  = time.Second
	giveUpAfter = 10 * time.Second
)

var errTaken = errors.New("another master holds the lease")

// A Lease is the right to be the one master that leads a task.
type Lease struct {
	kv      jetstream.KeyValue
	task    string // the key
	owner   string
	session string // value of the key in this session: the owner and a random text
	log     *slog.Logger

	mu      sync.Mutex
	renewed time.Time // when the last write of the key that succeeded was sent
}

// A Task is what one master at a time does.
type Task struct {
	Name  string // the key in the bucket of leases
	Owner string // this run of the master; no other run has the same
	Log   *slog.Logger
	// Pause returns how long this master does not ask for the lease after a term has ended with an error; nil: a
	// second.
	Pause func(err error) time.Duration
}

const leadAgain = time.Second

// Lead runs a function whenever this master holds the lease of a task, until ctx ends, and returns ctx's error. The
// function has to end with its context, and to call check before each write: its error says that the lease may be lost.
func Lead(
	ctx context.Context, js jetstream.JetStream, t Task, run func(ctx context.Context, check func() error) error,
) error {
	for {
		err := t.term(ctx, js, run)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		pause := leadAgain
		if t.Pause != nil {
			pause = t.Pause(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// term waits for the lease and runs a function until the lease is lost or the function returns.
func (t Task) term(ctx context.Context, js jetstream.JetStream, run func(context.Context, func() error) error) error {
	leases, err := js.KeyValue(ctx, wire.BucketLeases)
	if err != nil {
		err = fmt.Errorf("cannot open the bucket %s: %w", wire.BucketLeases, err)
		t.Log.Warn("cannot ask for the lease", "task", t.Name, "err", err)
		return err
	}
	l := NewLease(leases, t.Name, t.Owner, t.Log)
	revision, err := l.Acquire(ctx)
	if err != nil {
		return err
	}
	t.Log.Info("lease acquired", "leads", t.Name, "owner", t.Owner)
	err = l.Serve(ctx, revision, func(ctx context.Context) error { return run(ctx, l.Check) })
	if ctx.Err() == nil {
		t.Log.Warn("lease given up", "led", t.Name, "err", err)
	}
	return err
}

// NewLease returns the lease of a task, in a bucket whose keys live for 15 s. Owner names this master.
func NewLease(kv jetstream.KeyValue, task, owner string, log *slog.Logger) *Lease {
	return &Lease{kv: kv, task: task, owner: owner, log: log}
}

// Check returns an error unless the lease was renewed in the last 10 s. It sends no request, so call it before each
// write.
func (l *Lease) Check() error {
	if age := l.age(); age >= giveUpAfter {
		return fmt.Errorf("the lease of %s was not renewed in %s, %s is the most", l.task, age.Round(time.Second),
			giveUpAfter)
	}
	return nil
}

// age returns how long ago the key was last written: the larger value of two clocks, as the monotonic clock stops while
// the machine is suspended.
func (l *Lease) age() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	return max(now.Sub(l.renewed), now.Round(0).Sub(l.renewed.Round(0)))
}

// write calls store, which writes the key and returns its revision, and records when the write was sent.
func (l *Lease) write(store func() (uint64, error)) (uint64, error) {
	sent := time.Now()
	revision, err := store()
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.renewed = sent
	}
	return revision, err
}

// update writes the key if it is at a revision.
func (l *Lease) update(ctx context.Context, revision uint64) (uint64, error) {
	return l.write(func() (uint64, error) { return l.kv.Update(ctx, l.task, []byte(l.session), revision) })
}

// Acquire waits until the key is free and takes it. It returns early only when ctx ends.
func (l *Lease) Acquire(ctx context.Context) (revision uint64, err error) {
	l.session = l.owner + " " + rand.Text()
	for {
		revision, err = l.write(func() (uint64, error) { return l.kv.Create(ctx, l.task, []byte(l.session)) })
		if err == nil {
			return revision, nil
		}
		if held, ok := l.ours(ctx); ok {
			if revision, err = l.update(ctx, held); err == nil {
				return revision, nil
			}
		}
		if !errors.Is(err, jetstream.ErrKeyExists) && ctx.Err() == nil {
			l.log.Warn("cannot ask for the lease", "task", l.task, "err", err)
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(renewEvery/2 + mathrand.N(renewEvery/2)):
		}
	}
}

// hold renews the lease until ctx ends or the lease is lost, and returns why. The result is the revision of the last
// confirmed write of the key.
func (l *Lease) hold(ctx context.Context, revision uint64) (uint64, error) {
	wait := renewEvery
	for {
		select {
		case <-ctx.Done():
			return revision, ctx.Err()
		case <-time.After(wait):
		}
		next, err := l.renew(ctx, revision)
		switch {
		case err == nil:
			revision, wait = next, renewEvery
		case errors.Is(err, jetstream.ErrKeyExists):
			return revision, errTaken
		case l.age()+renewAgain+renewLimit > giveUpAfter:
			return revision, fmt.Errorf("cannot renew the lease: %w", err)
		default:
			wait = renewAgain
		}
	}
}

// renew writes the key again. If the answer to an earlier write was lost, the key may be at the revision of that write.
func (l *Lease) renew(ctx context.Context, revision uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, renewLimit)
	defer cancel()
	next, err := l.update(ctx, revision)
	if !errors.Is(err, jetstream.ErrKeyExists) {
		return next, err
	}
	if held, ok := l.ours(ctx); ok {
		return l.update(ctx, held)
	}
	return 0, err
}

// ours reports whether this session wrote the key, also by a write whose answer was lost. The owner alone does not
// prove it, as another process may have the same name.
func (l *Lease) ours(ctx context.Context) (revision uint64, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, renewLimit)
	defer cancel()
	entry, err := l.kv.Get(ctx, l.task)
	if err != nil || string(entry.Value()) != l.session {
		return 0, false
	}
	return entry.Revision(), true
}

// release removes the key if this session wrote it last, so that another master can begin at once. An interrupted
// renewal may have written it after revision.
func (l *Lease) release(ctx context.Context, revision uint64) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := l.kv.Purge(ctx, l.task, jetstream.LastRevision(revision))
	if err != nil {
		if held, ok := l.ours(ctx); ok {
			err = l.kv.Purge(ctx, l.task, jetstream.LastRevision(held))
		}
	}
	if err != nil {
		l.log.Warn("lease not released, it ends by itself", "task", l.task, "err", err)
	}
}

// Serve runs a function while the lease is held, and releases the lease after the function has returned.
func (l *Lease) Serve(ctx context.Context, revision uint64, run func(context.Context) error) error {
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	running, stop := context.WithCancelCause(ctx)
	lost := make(chan error, 1)
	go func() {
		var err error
		revision, err = l.hold(renewing, revision)
		stop(err)
		lost <- err
	}()
	err := run(running)
	stop(nil)
	stopRenewing()
	cause := <-lost
	if errors.Is(cause, errTaken) {
		return cause
	}
	l.release(context.WithoutCancel(ctx), revision)
	if !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}
