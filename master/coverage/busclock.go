package coverage

import (
	"sync"
	"time"
)

// A busClock tells the time by the clock of the bus, by which the times of reports are: the wall clock of a master may
// be wrong, and it may be set.
type busClock struct {
	own func() time.Time // the wall clock of this master, used until the bus has told its time

	mu      sync.Mutex
	told    time.Time // the newest time that the bus has told, with a report or when it was asked
	arrived time.Time // when that arrived, by time that has passed
	set     time.Time // when the clock of the bus was found to be set last
}

func (c *busClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nowLocked()
}

func (c *busClock) nowLocked() time.Time {
	if c.told.IsZero() {
		return c.own()
	}
	return c.told.Add(time.Since(c.arrived))
}

// onTime notes what the bus has just told of its clock.
func (c *busClock) onTime(told time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	step := told.Sub(c.nowLocked())
	if step.Abs() > clockTolerance {
		c.set = time.Now()
	}
	if step > 0 || step < -clockTolerance || c.told.IsZero() { // else it took longer to arrive
		c.told, c.arrived = told, time.Now()
	}
}

// wasSet returns when the clock of the bus was found to be set last.
func (c *busClock) wasSet() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set
}
