package bucket

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// fresh is how long a record that was read is used. A change by another master is seen after fresh and one request.
const fresh = 400 * time.Millisecond

// A CachedRecords bucket uses a record that it has read for 400 ms. It is safe for concurrent use.
type CachedRecords[T any] struct {
	Records[T]

	mu   sync.Mutex
	read map[string]cachedReading[T] // by name; none that the bucket does not hold
	// changes counts calls of Forget and Change. A reading that one of them came into is not remembered.
	changes int
	// reading has simultaneous callers wait for one reading. Forget begins with a new one.
	reading *singleflight.Group
}

type cachedReading[T any] struct {
	record T
	at     time.Time // before it was read
}

// NewCachedRecords returns a cache in front of b.
func NewCachedRecords[T any](b Records[T]) *CachedRecords[T] {
	return &CachedRecords[T]{Records: b, read: map[string]cachedReading[T]{}, reading: new(singleflight.Group)}
}

// Recent returns a record as it was at most 400 ms ago. Errors are those of [Records.Get] and are not remembered.
func (c *CachedRecords[T]) Recent(ctx context.Context, name string) (record T, err error) {
	now := time.Now()
	c.mu.Lock()
	if seen, ok := c.read[name]; ok && now.Sub(seen.at) < fresh {
		c.mu.Unlock()
		return seen.record, nil
	}
	changes := c.changes
	reading := c.reading.DoChan(name, func() (any, error) {
		// The first caller may be canceled while others wait.
		r, _, err := c.Get(context.WithoutCancel(ctx), name)
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case err != nil:
			delete(c.read, name)
		case c.changes == changes:
			c.read[name] = cachedReading[T]{r, now}
		}
		return r, err
	})
	c.mu.Unlock()

	select {
	case <-ctx.Done():
		return record, ctx.Err()
	case done := <-reading:
		record, _ = done.Val.(T)
		return record, done.Err
	}
}

// Forget makes [CachedRecords.Recent] read all records again.
func (c *CachedRecords[T]) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.read)
	c.changes++
	c.reading = new(singleflight.Group)
}

// Change is [Records.Change]; [CachedRecords.Recent] then reads the record again.
func (c *CachedRecords[T]) Change(ctx context.Context, name string, f func(*T) error) (T, error) {
	r, err := c.Records.Change(ctx, name, f)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.read, name)
	c.changes++
	c.reading.Forget(name)
	return r, err
}
