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

// refusals counts the permission violations on the bus. A run has none.
type refusals struct {
	mu    sync.Mutex
	n     int
	first string
}

func (r *refusals) add(what string) {
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

// onError handles the errors of connections without a log.
func (r *refusals) onError(_ *nats.Conn, _ *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrPermissionViolation) {
		r.add(err.Error())
	}
}

// watched is a log handler that counts refusals: those that a server of this process logs, of all connections, and those
// that masters and peels of this process log of their own.
type watched struct {
	slog.Handler
	refused *refusals
}

// Enabled reports whether a level is logged or can be that of a refusal.
func (w watched) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || w.Handler.Enabled(ctx, level)
}

// Handle counts refusals and logs the record.
func (w watched) Handle(ctx context.Context, r slog.Record) error {
	if natsd.Refused(r) {
		w.refused.add(r.Message)
	}
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			w.refused.onError(nil, nil, err)
		}
		return true
	})
	if !w.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return w.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler that counts too.
func (w watched) WithAttrs(attrs []slog.Attr) slog.Handler {
	return watched{w.Handler.WithAttrs(attrs), w.refused}
}

// WithGroup returns a handler that counts too.
func (w watched) WithGroup(name string) slog.Handler {
	return watched{w.Handler.WithGroup(name), w.refused}
}
