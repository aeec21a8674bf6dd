package scheduler

import (
	"context"
	"time"
)

// AlterClock has f change every reading of the two clocks. It must be called before Run.
func (s *Scheduler) AlterClock(f func(wall time.Time, up time.Duration) (time.Time, time.Duration)) {
	now := s.now
	s.now = func() instant {
		i := now()
		i.wall, i.up = f(i.wall, i.up)
		return i
	}
}

// Settle returns when the scheduler has noticed what its clocks show, and all runs that ended before.
func (s *Scheduler) Settle(ctx context.Context) {
	_ = s.do(ctx, func(o *owner) { o.finishEnded() })
}
