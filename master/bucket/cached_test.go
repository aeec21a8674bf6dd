package bucket_test

import (
	"errors"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// TestThatNoRecordIsThereIsRemembered holds that it is remembered for 400 ms, and no longer than the process itself
// makes the record.
func TestThatNoRecordIsThereIsRemembered(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js, ctx := b.JetStream(t), t.Context()
		kv := made(t, js)
		records, err := bucket.OpenRecords[map[string]int](ctx, js, "things", "thing.", "the thing")
		if err != nil {
			t.Fatal(err)
		}
		c := bucket.NewCachedRecords(records)
		has := func(name string, want int) {
			t.Helper()
			if got, err := c.RecentOrZero(ctx, name); err != nil || got["n"] != want {
				t.Errorf("%s: %v, %v, want %d", name, got, err, want)
			}
		}
		has("a", 0)
		text, err := canon.Marshal(map[string]int{"n": 1})
		if err != nil {
			t.Fatal(err)
		}
		put(t, kv, "thing.a", string(text)) // by another master
		has("a", 0)
		if _, err := c.Recent(ctx, "b"); !errors.Is(err, bucket.ErrAbsent) {
			t.Errorf("an absent record: %v", err)
		}
		time.Sleep(400 * time.Millisecond)
		has("a", 1)
		if _, err := c.Change(ctx, "a", func(r *map[string]int) error { (*r)["n"] = 2; return nil }); err != nil {
			t.Fatal(err)
		}
		has("a", 2)
	})
}
