package rules

import (
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
)

// Clocks notice that the wall clock was set. Make them with [NewClocks].
type Clocks struct {
	Base Instant // converts elapsed times to the wall clock
	// Jump are the times over which the wall clock was set forward last; empty if it was set back since. No host has lived them, so
	// nothing was missed there.
	Jump     history.Span
	compared Instant
}

// NewClocks returns clocks that were compared at now.
func NewClocks(now Instant) Clocks { return Clocks{Base: now, compared: now} }

// Compare reports whether the wall clock was set by a second or more, and by how much. Slow corrections do not count, nor does the
// short time between the two readings. The clock may have been set at any time since the last comparison, but at most atMost ago:
// after a suspend it is set at the end.
func (c *Clocks) Compare(now Instant, atMost time.Duration) (step time.Duration, set bool) {
	step = now.Wall.Sub(c.compared.Wall) - (now.Up - c.compared.Up)
	drift := now.Wall.Sub(c.Base.Wall) - (now.Up - c.Base.Up)
	elapsed := now.Up - c.compared.Up
	c.compared = now
	if step.Abs() < time.Second {
		if drift.Abs() >= time.Second {
			c.Base = now // the sum of slow corrections
		}
		return 0, false
	}
	c.Base, c.Jump = now, history.Span{}
	if step > 0 {
		c.Jump = history.Span{From: now.Wall.Add(-step - min(elapsed, atMost)), To: now.Wall}
	}
	return step, true
}
