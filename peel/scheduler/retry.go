package scheduler

import (
	"context"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// attempts calls Exec until it succeeds, as often as the entry wants. The run keeps its slot in between. A run that
// was canceled, and one of an entry that was changed, removed or paused meanwhile, is not tried again.
func (s *Scheduler) attempts(ctx context.Context, r *run) wire.Result {
	f := r.fire
	retry := f.Entry.Failures.Retry
	for f.Attempt = 1; ; f.Attempt++ {
		out := s.exec(ctx, f)
		if out.Success || f.Attempt > retry.Attempts || !backOff(ctx, r.over, retry.Backoff) {
			return out
		}
		s.log.Info("run is tried again", "entry", f.Name, "attempt", f.Attempt+1, "err", out.Error)
	}
}

// backOff waits; false if something ended the wait.
func backOff(ctx context.Context, over <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-over:
	case <-ctx.Done():
	}
	select { // several may have happened at once
	case <-over:
		return false
	default:
		return ctx.Err() == nil
	}
}

// stopRetries ends the retries of the entry's runs in flight.
func (e *entry) stopRetries() {
	for _, r := range e.runs {
		select {
		case <-r.over:
		default:
			close(r.over)
		}
	}
}
