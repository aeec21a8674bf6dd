package reconciler

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The bucket lets a key live for 15 s. A holder renews every 5 s, again each second where that fails, and gives up when
// it could not for 10 s, so it has stopped before another can begin.
const (
	leaseKey    = "reconciler"
	renewEvery  = 5 * time.Second
	renewLimit  = renewEvery / 2
	renewAgain  = time.Second
	giveUpAfter = 10 * time.Second
)

var errTaken = errors.New("another master holds the lease")

// A lease is the right to be the one reconciler of the fleet.
type lease struct {
	kv    jetstream.KeyValue
	owner string
	term  string // what the key holds during one time of holding it: the owner and a number of its own
	log   *slog.Logger
}

// acquire waits until the key is free and takes it. It returns early only when ctx ends.
func (l *lease) acquire(ctx context.Context) (revision uint64, err error) {
	l.term = l.owner + " " + rand.Text()
	for {
		revision, err = l.kv.Create(ctx, leaseKey, []byte(l.term))
		if err == nil {
			return revision, nil
		}
		if revision, ok := l.ours(ctx); ok {
			return revision, nil
		}
		if !errors.Is(err, jetstream.ErrKeyExists) && ctx.Err() == nil {
			l.log.Warn("cannot ask for the lease of the reconciler", "err", err)
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(renewEvery/2 + mathrand.N(renewEvery/2)):
		}
	}
}

// hold renews the lease until ctx ends or the lease is lost, and returns why it is lost. The revision is that of its
// last write that is known.
func (l *lease) hold(ctx context.Context, revision uint64) (uint64, error) {
	last, wait := time.Now(), renewEvery
	for {
		select {
		case <-ctx.Done():
			return revision, ctx.Err()
		case <-time.After(wait):
		}
		next, err := l.renew(ctx, revision)
		switch {
		case err == nil:
			revision, last, wait = next, time.Now(), renewEvery
		case errors.Is(err, jetstream.ErrKeyExists):
			return revision, errTaken
		case time.Since(last)+renewAgain+renewLimit > giveUpAfter:
			return revision, fmt.Errorf("cannot renew the lease: %w", err)
		default:
			wait = renewAgain
		}
	}
}

// renew writes the key again. After an error whose outcome is unknown the key may hold our own write.
func (l *lease) renew(ctx context.Context, revision uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, renewLimit)
	defer cancel()
	next, err := l.kv.Update(ctx, leaseKey, []byte(l.term), revision)
	if !errors.Is(err, jetstream.ErrKeyExists) {
		return next, err
	}
	if held, ok := l.ours(ctx); ok {
		return l.kv.Update(ctx, leaseKey, []byte(l.term), held)
	}
	return 0, err
}

// ours reports whether the key holds what this term wrote: a write whose outcome was not heard may have been made. The
// name of the master alone would not tell, as another process may bear it.
func (l *lease) ours(ctx context.Context) (revision uint64, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, renewLimit)
	defer cancel()
	entry, err := l.kv.Get(ctx, leaseKey)
	if err != nil || string(entry.Value()) != l.term {
		return 0, false
	}
	return entry.Revision(), true
}

// release removes the key as this term wrote it last, so that another begins at once.
func (l *lease) release(ctx context.Context, revision uint64) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := l.kv.Purge(ctx, leaseKey, jetstream.LastRevision(revision)); err != nil {
		l.log.Warn("lease not released, it ends by itself", "err", err)
	}
}
