package scheduler

import "time"

// Clocks notice that the wall clock was set. Make them with [NewClocks].
type Clocks struct {
	Base     Instant       // converts elapsed times to the wall clock
	SetAt    time.Time     // what the wall clock showed when it was set last; zero: it was not
	Step     time.Duration // by which it is being set: what is due by the old clock starts by the new one
	compared Instant
}

// NewClocks returns clocks that were compared at now.
func NewClocks(now Instant) Clocks { return Clocks{Base: now, compared: now} }

// Compare reports whether the wall clock was set by a second or more, and by how much. Slow corrections do not count,
// nor does the short time between the two readings.
func (c *Clocks) Compare(now Instant) (step time.Duration, set bool) {
	step = now.Wall.Sub(c.compared.Wall) - (now.Up - c.compared.Up)
	drift := now.Wall.Sub(c.Base.Wall) - (now.Up - c.Base.Up)
	c.compared = now
	if step.Abs() < time.Second {
		if drift.Abs() >= time.Second {
			c.Base = now // the sum of slow corrections
		}
		return 0, false
	}
	c.Base = now
	return step, true
}
