package bounds

import (
	"sync"

	"golang.org/x/time/rate"
)

// A Limiter limits requests for each key, with a token bucket. It keeps the buckets of the latest keys, at most twice
// maxKeys; a key without a bucket gets a full one.
type Limiter[K comparable] struct {
	rate  rate.Limit
	burst int

	mu          sync.Mutex
	now, before map[K]*rate.Limiter
}

const maxKeys = 4096

// NewLimiter allows r requests a second for each key, and burst at once.
func NewLimiter[K comparable](r rate.Limit, burst int) *Limiter[K] {
	return &Limiter[K]{rate: r, burst: burst, now: map[K]*rate.Limiter{}}
}

// Allow reports whether one more request of a key is allowed now, and counts it.
func (l *Limiter[K]) Allow(key K) bool { return l.of(key).Allow() }

// Left reports whether one more request of a key would be allowed now, and counts nothing.
func (l *Limiter[K]) Left(key K) bool { return l.of(key).Tokens() >= 1 }

// of returns the bucket of a key.
func (l *Limiter[K]) of(key K) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	bucket, ok := l.now[key]
	if ok {
		return bucket
	}
	if bucket, ok = l.before[key]; !ok {
		bucket = rate.NewLimiter(l.rate, l.burst)
	}
	if len(l.now) == maxKeys {
		l.now, l.before = map[K]*rate.Limiter{}, l.now
	}
	l.now[key] = bucket
	return bucket
}

// A Counter bounds how many things, such as streams, are open at once: in all and for each key.
type Counter struct {
	all int

	mu    sync.Mutex
	total int
	byKey map[any]int
}

// Total is how many things are open now.
func (c *Counter) Total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// A Slot is a key and how many things may be open at once for it.
type Slot struct {
	Key  any // comparable; each kind of key has a type of its own
	Most int
}

// NewCounter allows all things in total.
func NewCounter(all int) *Counter { return &Counter{all: all, byKey: map[any]int{}} }

// Enter counts one more thing for all slots; Leave ends it. It returns false and counts nothing if a bound would be
// exceeded.
func (c *Counter) Enter(slots ...Slot) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.total >= c.all {
		return false
	}
	for _, s := range slots {
		if c.byKey[s.Key] >= s.Most {
			return false
		}
	}
	c.total++
	for _, s := range slots {
		c.byKey[s.Key]++
	}
	return true
}

// Leave ends what Enter counted for the same slots.
func (c *Counter) Leave(slots ...Slot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total--
	for _, s := range slots {
		if c.byKey[s.Key]--; c.byKey[s.Key] == 0 {
			delete(c.byKey, s.Key)
		}
	}
}
