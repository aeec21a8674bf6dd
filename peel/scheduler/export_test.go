package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler/rules"
)

// AlterClock has f change every reading of the two clocks. It must be called before Run.
func (s *Scheduler) AlterClock(f func(wall time.Time, up time.Duration) (time.Time, time.Duration)) {
	now := s.now
	s.now = func() rules.Instant {
		i := now()
		i.Wall, i.Up = f(i.Wall, i.Up)
		return i
	}
}

// Marks returns the marks of the peel.
func (s *Scheduler) Marks(ctx context.Context) (marks ledger.Marks) {
	_ = s.do(ctx, func(o *owner) { marks = slices.Clone(o.marks) })
	return marks
}

// Settle returns when the scheduler has noticed what its clocks show, and all runs that ended before.
func (s *Scheduler) Settle(ctx context.Context) {
	_ = s.do(ctx, func(o *owner) { o.finishEnded() })
}
