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

// A counter bounds how many things go on at once, in all and for each of the keys that they count for.
type counter struct {
	all int

	mu    sync.Mutex
	total int
	byKey map[any]int
}

// A slot is a key and how many things may go on at once for it.
type slot struct {
	key  any // comparable; of a type of its own for each kind of key
	most int
}

func newCounter(all int) *counter { return &counter{all: all, byKey: map[any]int{}} }

// enter counts one more thing for all the keys, which then has to leave. It reports false, and counts nothing, if that is
// more than is allowed in all or for one of the keys.
func (c *counter) enter(slots ...slot) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.total >= c.all {
		return false
	}
	for _, s := range slots {
		if c.byKey[s.key] >= s.most {
			return false
		}
	}
	c.total++
	for _, s := range slots {
		c.byKey[s.key]++
	}
	return true
}

func (c *counter) leave(slots ...slot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total--
	for _, s := range slots {
		if c.byKey[s.key]--; c.byKey[s.key] == 0 {
			delete(c.byKey, s.key)
		}
	}
}
