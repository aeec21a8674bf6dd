package rest

import (
	"sync"

	"golang.org/x/time/rate"
)

// A limiter has a bucket of allowances for each key. It keeps the buckets of the keys that came last, two times
// maxKeys at most, and begins anew with those that it has forgotten.
type limiter[K comparable] struct {
	rate  rate.Limit
	burst int

	mu          sync.Mutex
	now, before map[K]*rate.Limiter
}

const maxKeys = 4096

func newLimiter[K comparable](r rate.Limit, burst int) *limiter[K] {
	return &limiter[K]{rate: r, burst: burst, now: map[K]*rate.Limiter{}}
}

// of returns the bucket of a key.
func (l *limiter[K]) of(key K) *rate.Limiter {
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

// A counter bounds how much goes on at once, in all and for each key.
type counter struct {
	most, each int

	mu    sync.Mutex
	all   int
	byKey map[string]int
}

func newCounter(most, each int) *counter {
	return &counter{most: most, each: each, byKey: map[string]int{}}
}

// enter reports whether one more may go on for a key, which then has to leave.
func (c *counter) enter(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= c.most || c.byKey[key] >= c.each {
		return false
	}
	c.all++
	c.byKey[key]++
	return true
}

func (c *counter) leave(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.byKey[key]--; c.byKey[key] == 0 {
		delete(c.byKey, key)
	}
}
