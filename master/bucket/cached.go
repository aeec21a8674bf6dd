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

	mu      sync.Mutex
	read    map[string]cachedReading[T]  // by name; none that the bucket does not hold
	forgot  time.Time                    // only later readings are remembered
	reading map[string]*sharedReading[T] // by name
}

type cachedReading[T any] struct {
	record T
	at     time.Time // before it was read
}

// A sharedReading is under way. Who asks meanwhile waits for it.
type sharedReading[T any] struct {
	ended  chan struct{} // closed once the others are set
	record T
	err    error
}

// NewCachedRecords returns a cache in front of b.
func NewCachedRecords[T any](b Records[T]) *CachedRecords[T] {
	return &CachedRecords[T]{
		Records: b, read: map[string]cachedReading[T]{}, reading: map[string]*sharedReading[T]{},
	}
}

// Recent returns a record as it was at most 400 ms ago. Errors are those of [Records.Get] and are not remembered.
func (c *CachedRecords[T]) Recent(ctx context.Context, name string) (T, error) {
	now := time.Now()
	c.mu.Lock()
	seen, ok := c.read[name]
	if ok && now.Sub(seen.at) < fresh {
		c.mu.Unlock()
		return seen.record, nil
	}
	r, waits := c.reading[name]
	if !waits {
		r = &sharedReading[T]{ended: make(chan struct{})}
		c.reading[name] = r
	}
	c.mu.Unlock()
	if !waits {
		return c.begin(ctx, name, r, now)
	}
	select {
	case <-r.ended:
	case <-ctx.Done():
		return r.record, ctx.Err()
	}
	if r.err != nil && !errors.Is(r.err, ErrAbsent) { // perhaps because nobody waited for the other
		record, _, err := c.Get(ctx, name)
		return record, err
	}
	return r.record, r.err
}

// begin reads a record for all who ask meanwhile.
func (c *CachedRecords[T]) begin(ctx context.Context, name string, r *sharedReading[T], now time.Time) (T, error) {
	r.record, _, r.err = c.Get(ctx, name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading[name] == r {
		delete(c.reading, name)
	}
	switch {
	case r.err != nil:
		delete(c.read, name)
	case now.After(c.forgot):
		c.read[name] = cachedReading[T]{r.record, now}
	}
	close(r.ended)
	return r.record, r.err
}

// Forget makes [CachedRecords.Recent] read all records again.
func (c *CachedRecords[T]) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.read)
	clear(c.reading)
	c.forgot = time.Now()
}

// Change is [Records.Change]; [CachedRecords.Recent] then reads the record again.
func (c *CachedRecords[T]) Change(ctx context.Context, name string, f func(*T) error) (T, error) {
	r, err := c.Records.Change(ctx, name, f)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.read, name)
	delete(c.reading, name)
	return r, err
}
