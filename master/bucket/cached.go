package bucket

import (
	"context"
	"errors"
	"sync"
	"time"
)

// fresh is how long a record that was read is used. A change by another master is seen after fresh and one request.
const fresh = 400 * time.Millisecond

// A CachedRecords bucket uses a record that it has read for 400 ms. It is safe for concurrent use.
type CachedRecords[T any] struct {
	Records[T]

	mu     sync.Mutex
	read   map[string]cachedReading[T] // by name; that the bucket holds none is noted by RecentOrZero alone
	forgot time.Time                   // only later readings are remembered
}

type cachedReading[T any] struct {
	record T
	at     time.Time // before it was read
}

// NewCachedRecords returns a cache in front of b.
func NewCachedRecords[T any](b Records[T]) *CachedRecords[T] {
	return &CachedRecords[T]{Records: b, read: map[string]cachedReading[T]{}}
}

// Recent returns a record as it was at most 400 ms ago. Errors are those of [Records.Get] and are not remembered.
func (c *CachedRecords[T]) Recent(ctx context.Context, name string) (T, error) {
	return c.recent(ctx, name, false)
}

// RecentOrZero is [CachedRecords.Recent], but the zero value stands for a record that the bucket does not hold, and is
// remembered as long. Call it with names that no request has chosen, because all are remembered.
func (c *CachedRecords[T]) RecentOrZero(ctx context.Context, name string) (T, error) {
	return c.recent(ctx, name, true)
}

func (c *CachedRecords[T]) recent(ctx context.Context, name string, orZero bool) (T, error) {
	now := time.Now()
	c.mu.Lock()
	seen, ok := c.read[name]
	c.mu.Unlock()
	if ok && now.Sub(seen.at) < fresh {
		return seen.record, nil
	}
	r, _, err := c.Get(ctx, name)
	if orZero && errors.Is(err, ErrAbsent) {
		err = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		delete(c.read, name)
		return r, err
	}
	if now.After(c.forgot) {
		c.read[name] = cachedReading[T]{r, now}
	}
	return r, nil
}

// Forget makes [CachedRecords.Recent] read all records again.
func (c *CachedRecords[T]) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.read)
	c.forgot = time.Now()
}

// Change is [Records.Change]; [CachedRecords.Recent] then reads the record again.
func (c *CachedRecords[T]) Change(ctx context.Context, name string, f func(*T) error) (T, error) {
	r, err := c.Records.Change(ctx, name, f)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.read, name)
	return r, err
}
