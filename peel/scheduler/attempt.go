// File attempt.go carries out one run of an entry: within its timeout, and again after a failure. Fill in a [Work] and
// call [Work.Do].

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// Work is one run of an entry.
type Work struct {
	Entry   *schedule.Entry
	Exec    func(ctx context.Context, attempt int) wire.Result // attempts count from 1
	NoRetry <-chan struct{}                                    // closed when another attempt is not allowed
	Log     *slog.Logger
}

// Do calls Exec until it succeeds, at most as often as the entry's retry allows. A canceled run is not tried again, nor
// is one after NoRetry. Do returns the result of the last attempt, and whether that was ended by the entry's timeout.
func (w Work) Do(ctx context.Context) (out wire.Result, timedOut bool) {
	retry := w.Entry.Failures.Retry
	for n := 1; ; n++ {
		out, timedOut = w.exec(ctx, n)
		if out.Success || n > retry.Attempts || !w.backOff(ctx, retry.Backoff) {
			return out, timedOut
		}
		w.Log.Info("run is tried again", "entry", w.Entry.Name, "attempt", n+1, "err", out.Error)
	}
}

// backOff waits for d. It returns false if the wait was ended early.
func (w Work) backOff(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.NoRetry:
	case <-ctx.Done():
	}
	select { // several may have happened at once
	case <-w.NoRetry:
		return false
	default:
		return ctx.Err() == nil
	}
}

// exec calls Exec within the entry's timeout, and reports whether that has ended the run. A panic is a failure.
func (w Work) exec(ctx context.Context, n int) (out wire.Result, timedOut bool) {
	late := fmt.Errorf("timed out after %s", w.Entry.Timeout)
	if limit := w.Entry.Timeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, late)
		defer cancel()
	}
	defer func() {
		if p := recover(); p != nil {
			out = wire.Result{Error: fmt.Sprintf("panic: %v", p)}
			w.Log.Error("run panicked", "entry", w.Entry.Name, "err", p, "stack", string(debug.Stack()))
		}
	}()
	out = w.Exec(ctx, n)
	if ctx.Err() == nil || out.Success {
		return out, false
	}
	if cause := context.Cause(ctx).Error(); out.Error == "" {
		out.Error = cause
	} else if !strings.Contains(out.Error, cause) {
		out.Error = cause + ": " + out.Error
	}
	return out, errors.Is(context.Cause(ctx), late)
}
