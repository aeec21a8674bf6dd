package swarm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/natsd"
)

// refusals are what the bus has refused to anybody. In a run of what everybody is meant to do there are none.
type refusals struct {
	mu    sync.Mutex
	n     int
	first string
}

func (r *refusals) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n++; r.n == 1 {
		r.first = what
	}
}

func (r *refusals) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

func (r *refusals) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == 0 {
		return nil
	}
	return fmt.Errorf("the bus refused what is not permitted %d times, the first: %s", r.n, r.first)
}

// heard is for connections that have no log.
func (r *refusals) heard(_ *nats.Conn, _ *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrPermissionViolation) {
		r.note(err.Error())
	}
}

// watched is a log in which refusals are noticed: those that a server of this process tells, of all connections, and those
// that the daemons of this process tell of their own.
type watched struct {
	slog.Handler
	refused *refusals
}

// Enabled lets through what is as bad as a refusal.
func (w watched) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || w.Handler.Enabled(ctx, level)
}

// Handle notes refusals.
func (w watched) Handle(ctx context.Context, r slog.Record) error {
	if natsd.Refused(r) {
		w.refused.note(r.Message)
	}
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			w.refused.heard(nil, nil, err)
		}
		return true
	})
	if !w.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return w.Handler.Handle(ctx, r)
}

// WithAttrs watches the log with attributes.
func (w watched) WithAttrs(attrs []slog.Attr) slog.Handler {
	return watched{w.Handler.WithAttrs(attrs), w.refused}
}

// WithGroup watches the log of a group.
func (w watched) WithGroup(name string) slog.Handler {
	return watched{w.Handler.WithGroup(name), w.refused}
}
