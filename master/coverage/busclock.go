package coverage

import (
	"sync"
	"time"
)

// A busClock tells the time by the clock of the bus, by which the times of reports are: the wall clock of a master may
// be wrong, and it may be set.
type busClock struct {
	own func() time.Time // the wall clock of this master, used until the first report arrives

	mu      sync.Mutex
	stored  time.Time // when the newest report was stored, by the bus
	arrived time.Time // when it arrived, by time that has passed
	set     time.Time // when the clock of the bus was found to be set last
}

func (c *busClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nowLocked()
}

func (c *busClock) nowLocked() time.Time {
	if c.stored.IsZero() {
		return c.own()
	}
	return c.stored.Add(time.Since(c.arrived))
}

// onArrival notes that a report arrived that the bus has just stored.
func (c *busClock) onArrival(stored time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	step := stored.Sub(c.nowLocked())
	if step.Abs() > clockTolerance {
		c.set = time.Now()
	}
	if step > 0 || step < -clockTolerance || c.stored.IsZero() { // else it took longer to arrive
		c.stored, c.arrived = stored, time.Now()
	}
}

// wasSet returns when the clock of the bus was found to be set last.
func (c *busClock) wasSet() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set
}
