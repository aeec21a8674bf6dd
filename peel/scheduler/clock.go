package scheduler

import (
	"sync/atomic"
	"time"
)

// An Instant is one moment on the two clocks.
type Instant struct {
	Wall time.Time     // what the host's clock shows, without a monotonic reading
	Up   time.Duration // elapsed since the clock was made, time spent suspended included
}

// NewClock returns a function that reads both clocks, for any goroutine. Go's monotonic clock stands still while the
// host is suspended; asleep, the system's own count of that, makes up for it.
func NewClock() func() Instant {
	start, before := time.Now(), asleep()
	var counted atomic.Int64
	return func() Instant {
		t := time.Now()
		// The two readings behind asleep are not taken together, so differences below a second mean nothing.
		if d, have := asleep()-before, counted.Load(); int64(d)-have > int64(time.Second) {
			counted.CompareAndSwap(have, int64(d))
		}
		return Instant{Wall: t.Round(0), Up: t.Sub(start) + time.Duration(counted.Load())}
	}
}

// At returns the wall clock at an elapsed time, by the two clocks at i.
func (i Instant) At(up time.Duration) time.Time { return i.Wall.Add(up - i.Up) }
