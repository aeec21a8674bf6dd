package records

import (
	"context"
	"sync"
	"time"
)

// fresh is how long a record that was read is used. A change by another master is seen after fresh and one request.
const fresh = 400 * time.Millisecond

// A Cached bucket uses a record that it has read for 400 ms. It is safe for concurrent use.
type Cached[T any] struct {
	Bucket[T]

	mu   sync.Mutex
	read map[string]reading[T] // by name; none that the bucket does not hold
}

type reading[T any] struct {
	record T
	at     time.Time // before it was read
}

// NewCached returns a cache in front of b.
func NewCached[T any](b Bucket[T]) *Cached[T] {
	return &Cached[T]{Bucket: b, read: map[string]reading[T]{}}
}

// Recent returns a record as it was at most 400 ms ago. Errors are those of [Bucket.Get] and are not remembered.
func (c *Cached[T]) Recent(ctx context.Context, name string) (T, error) {
	now := time.Now()
	c.mu.Lock()
	seen, ok := c.read[name]
	c.mu.Unlock()
	if ok && now.Sub(seen.at) < fresh {
		return seen.record, nil
	}
	r, _, err := c.Get(ctx, name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		delete(c.read, name)
		return r, err
	}
	c.read[name] = reading[T]{r, now}
	return r, nil
}

// Change is [Bucket.Change]; [Cached.Recent] then reads the record again.
func (c *Cached[T]) Change(ctx context.Context, name string, f func(*T) error) (T, error) {
	r, err := c.Bucket.Change(ctx, name, f)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.read, name)
	return r, err
}
