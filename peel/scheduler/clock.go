package scheduler

import (
	"sync/atomic"
	"time"
)

// An instant is one moment on the two clocks.
type instant struct {
	wall time.Time     // what the host's clock shows, without a monotonic reading
	up   time.Duration // elapsed since the clock was made, time spent suspended included
}

// newClock returns a function that reads both clocks, for any goroutine. Go's monotonic clock stands still while the
// host is suspended; asleep, the system's own count of that, makes up for it.
func newClock() func() instant {
	start, before := time.Now(), asleep()
	var counted atomic.Int64
	return func() instant {
		t := time.Now()
		// The two readings behind asleep are not taken together, so differences below a second mean nothing.
		if d, have := asleep()-before, counted.Load(); int64(d)-have > int64(time.Second) {
			counted.CompareAndSwap(have, int64(d))
		}
		return instant{wall: t.Round(0), up: t.Sub(start) + time.Duration(counted.Load())}
	}
}
