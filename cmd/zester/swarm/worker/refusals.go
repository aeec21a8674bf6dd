// File refusals.go counts what a bus refuses. Wrap the log of bus, masters and peels with [WatchRefusals], and pass
// [RefusalCounter.OnError] to connections without a log.

package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/natsd"
)

// A RefusalCounter counts the permission violations on the bus. It is safe for concurrent use.
type RefusalCounter struct {
	mu    sync.Mutex
	n     int
	first string
}

func (r *RefusalCounter) add(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n++; r.n == 1 {
		r.first = what
	}
}

// Count returns how many were counted.
func (r *RefusalCounter) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// Err returns an error that names the first, nil if there was none.
func (r *RefusalCounter) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == 0 {
		return nil
	}
	return fmt.Errorf("the bus refused what is not permitted %d times, the first: %s", r.n, r.first)
}

// OnError handles the errors of connections without a log.
func (r *RefusalCounter) OnError(_ *nats.Conn, _ *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrPermissionViolation) {
		r.add(err.Error())
	}
}

// WatchRefusals returns a log handler that counts refusals: those that a server of this process logs, of all
// connections, and those that masters and peels of this process log of their own.
func WatchRefusals(h slog.Handler, c *RefusalCounter) slog.Handler { return watched{h, c} }

type watched struct {
	slog.Handler
	counter *RefusalCounter
}

// Enabled reports whether a level is logged, or is a level at which the bus logs refusals.
func (w watched) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || w.Handler.Enabled(ctx, level)
}

// Handle counts refusals and logs the record.
func (w watched) Handle(ctx context.Context, r slog.Record) error {
	if natsd.Refused(r) {
		w.counter.add(r.Message)
	}
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			w.counter.OnError(nil, nil, err)
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
	return watched{w.Handler.WithAttrs(attrs), w.counter}
}

// WithGroup returns a handler that counts too.
func (w watched) WithGroup(name string) slog.Handler {
	return watched{w.Handler.WithGroup(name), w.counter}
}
