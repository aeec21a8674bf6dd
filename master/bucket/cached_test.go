package bucket_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

// TestRecentRecords holds that a record is used for 400 ms, that its absence is not, that what this process changes is
// seen at once, and that a reading that was given up fails for nobody else.
func TestRecentRecords(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js, ctx := b.JetStream(t), t.Context()
		made(t, js)
		records, err := bucket.OpenRecords[map[string]int](ctx, js, "things", "thing.", "the thing")
		if err != nil {
			t.Fatal(err)
		}
		here, other := bucket.NewCachedRecords(records), bucket.NewCachedRecords(records)
		has := func(want int) {
			t.Helper()
			if got, err := here.Recent(ctx, "a"); err != nil || got["n"] != want {
				t.Errorf("%v, %v, want %d", got, err, want)
			}
		}
		set := func(by *bucket.CachedRecords[map[string]int], n int) {
			t.Helper()
			if _, err := by.Change(ctx, "a", func(r *map[string]int) error { (*r)["n"] = n; return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := here.Recent(ctx, "a"); !errors.Is(err, bucket.ErrAbsent) {
			t.Errorf("before it was made: %v", err)
		}
		if err := other.Create(ctx, "a", map[string]int{"n": 1}); err != nil {
			t.Fatal(err)
		}
		has(1)
		set(other, 2)
		has(1)
		time.Sleep(400 * time.Millisecond)
		has(2)
		set(here, 3)
		has(3)
		set(other, 4)
		here.Forget()
		has(4)

		here.Forget()
		gone, cancel := context.WithCancel(ctx)
		cancel()
		done := make(chan error)
		for _, ctx := range []context.Context{gone, ctx, ctx, ctx} {
			go func() { _, err := here.Recent(ctx, "a"); done <- err }()
		}
		failed := 0
		for range 4 {
			if err := <-done; err != nil {
				failed++
			}
		}
		if failed > 1 {
			t.Errorf("%d of 4 readings failed, of which one was given up", failed)
		}
	})
}
