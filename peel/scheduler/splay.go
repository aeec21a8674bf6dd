package scheduler

import (
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// Draw returns the splay of the fire with the given nominal time. It stays below the time to the next one, for entries
// whose nominal times do not wait for it. random returns a duration below n.
func (e *Entry) Draw(peel string, random func(n time.Duration) time.Duration, nominal time.Time) time.Duration {
	s := e.Spec.Splay
	if s.Max <= 0 {
		return 0
	}
	high := e.Timing.SplayBound(nominal, s.Max)
	if fromStart(e) && !e.Rhythm.OnWall() {
		if next, ok := e.Timing.Next(nominal); ok {
			high = min(high, next.Sub(nominal))
		}
	}
	if s.Mode == schedule.SplayHost {
		return s.Offset(peel, e.Name, high)
	}
	low := min(s.Min, high-1)
	return low + random(high-low)
}
