package scheduler

import (
	"math/rand/v2"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// draw gives the splay of the fire with the given nominal time. It stays below the time to the next one, for entries
// whose nominal times do not wait for it.
func (o *owner) draw(e *entry, nominal time.Time) time.Duration {
	s := e.spec.Splay
	if s.Max <= 0 {
		return 0
	}
	high := e.timing.SplayBound(nominal, s.Max)
	if fromStart(e) && !e.rhythm.onWall() {
		if next, ok := e.timing.Next(nominal); ok {
			high = min(high, next.Sub(nominal))
		}
	}
	if s.Mode == schedule.SplayHost {
		return s.Offset(o.s.o.Peel, e.name, high)
	}
	low := min(s.Min, high-1)
	return low + rand.N(high-low)
}
