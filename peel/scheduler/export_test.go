package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
)

// AlterClock has f change every reading of the two clocks. It must be called before Run.
func (s *Scheduler) AlterClock(f func(wall time.Time, up time.Duration) (time.Time, time.Duration)) {
	now := s.now
	s.now = func() Instant {
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

// Stored writes what has changed, and returns the histories that the file has then, without their lists. It is nil if the disk refuses or
// the scheduler has ended.
func (s *Scheduler) Stored(ctx context.Context) (stored map[string]History) {
	first, second := make(chan error, 1), make(chan error, 1)
	if s.do(ctx, func(o *owner) { o.Waiting, o.Dirty = append(o.Waiting, first), true }) != nil || <-first != nil {
		return nil
	}
	err := s.do(ctx, func(o *owner) {
		o.Waiting, o.Dirty = append(o.Waiting, second), true
		o.Save(s.now().Up, o.change)
		stored = map[string]History{}
		for name, e := range o.entries {
			if !e.Seen.IsZero() || e.Paused != nil || len(e.Last) > 0 {
				h := o.stored(e)
				stored[name] = h.Clone()
			}
		}
	})
	if err != nil || <-second != nil {
		return nil
	}
	return stored
}

// Shorten has the lists have at most limit fires.
func (s *Scheduler) Shorten(ctx context.Context, limit int) {
	_ = s.do(ctx, func(o *owner) { o.shorten(limit, s.now().Wall) })
}
