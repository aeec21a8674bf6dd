package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

func openBucket(t *testing.T, bus *natstest.Bus) jetstream.KeyValue {
	t.Helper()
	kv, err := bus.JetStream(t).KeyValue(t.Context(), Bucket)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

func TestOneMasterWritesTheRecord(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		kv := openBucket(t, bus)
		first, second := NewStore(kv, "m1", Source{Repo: "h/a", Branch: "main"}), NewStore(kv, "m2", Source{Repo: "h/a", Branch: "main"})
		for _, s := range []*Store{first, second} {
			if r, err := s.Read(t.Context()); err != nil || r.Commit != "" {
				t.Fatalf("an empty bucket: %+v, %v", r, err)
			}
		}
		r, err := first.Write(t.Context(), Record{Commit: "a", Generation: 7})
		if err != nil || r.Owner != "m1" || r.Time.IsZero() {
			t.Fatalf("%+v, %v", r, err)
		}
		if _, err := second.Write(t.Context(), Record{Commit: "b"}); !errors.Is(err, ErrConflict) {
			t.Errorf("the second writes over a record that it has not read: %v", err)
		}
		if _, err := first.Write(t.Context(), Record{Commit: "a", Generation: 7}); err != nil {
			t.Errorf("the first writes over its own record: %v", err)
		}
		if r, err := second.Read(t.Context()); err != nil || r.Commit != "a" || r.Generation != 7 {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := second.Write(t.Context(), Record{Commit: "b"}); err != nil {
			t.Error(err)
		}
		if _, err := first.Write(t.Context(), Record{Commit: "c"}); !errors.Is(err, ErrConflict) {
			t.Errorf("the first writes over the record of the second: %v", err)
		}
		if r, err := first.Read(t.Context()); err != nil || r.Commit != "b" || r.Owner != "m2" {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestARecordIsBoundedWhenItIsWritten(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		r := Record{History: make([]status.Attempt, 2*MaxHistory)}
		for i := range 2 * MaxSkipped {
			r.Skipped = append(r.Skipped, Skipped{Reason: fmt.Sprint(i)})
		}
		s := NewStore(openBucket(t, bus), "m1", Source{Repo: "h/a", Branch: "main"})
		written, err := s.Write(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		read, err := s.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []Record{written, read} {
			if len(got.History) != MaxHistory || len(got.Skipped) != MaxSkipped {
				t.Errorf("%d attempts, %d skipped", len(got.History), len(got.Skipped))
			}
			if last := got.Skipped[MaxSkipped-1].Reason; last != fmt.Sprint(2*MaxSkipped-1) {
				t.Errorf("the newest that was skipped is %s", last)
			}
		}
		if len(r.Skipped) != 2*MaxSkipped {
			t.Error("the argument was changed")
		}
	})
}

func TestARecordThatCannotBeReadIsNotEmpty(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		kv := openBucket(t, bus)
		if _, err := kv.PutString(t.Context(), key, "no record"); err != nil {
			t.Fatal(err)
		}
		if r, err := NewStore(kv, "m1", Source{Repo: "h/a", Branch: "main"}).Read(t.Context()); err == nil {
			t.Errorf("%+v", r)
		}
	})
}

// TestTheRecordOfAnEarlierVersion: limits are kept, and a rollout without waves begins again and is not taken for one that
// has passed.
func TestTheRecordOfAnEarlierVersion(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		kv := openBucket(t, bus)
		data, err := canon.Marshal(map[string]any{
			"commit": "a", "limits": map[string]any{"change": 7, "remove": 8, "peels": 9},
			"rollout": map[string]any{"commit": "b", "wave": 1, "reach": "ffff", "known": []string{"00"}, "sequence": 3},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.Put(t.Context(), key, data); err != nil {
			t.Fatal(err)
		}
		r, err := NewStore(kv, "m1", Source{Repo: "h/a", Branch: "main"}).Read(t.Context())
		if err != nil || r.Commit != "a" || r.Rollout != nil || r.LimitsOrDefault() != (policy.Limits{Change: 7, Remove: 8, Peels: 9}) {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestARolloutOfALargeFleetFitsIntoTheRecord: a record is one message, of which the bus takes 1 MiB.
func TestARolloutOfALargeFleetFitsIntoTheRecord(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		var members, known []Mark
		for i := range 10_000 {
			id := target.PeelID(fmt.Sprintf("web-%05d.example.com", i))
			members, known = append(members, MarkPeel(id)), append(known, MarkError(id, "x"))
		}
		wave := policy.Wave{Name: strings.Repeat("w", 32), Peels: policy.AllPeels, Target: strings.Repeat("x", policy.MaxTarget)}
		r := Record{Rollout: &Rollout{Commit: "b", Waves: slices.Repeat([]policy.Wave{wave}, 2*policy.MaxWaves), Members: NewMarks(members), Known: NewMarks(known), Failed: NewMarks(members)}}
		r.Waves = r.Rollout.Waves[:policy.MaxWaves]
		s := NewStore(openBucket(t, bus), "m1", Source{Repo: "h/a", Branch: "main"})
		if _, err := s.Write(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		read, err := s.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		data, err := canon.Marshal(read)
		if err != nil || len(data) > 400_000 {
			t.Errorf("%d bytes, %v", len(data), err)
		}
		if !read.Rollout.Has("web-00007.example.com") || read.Rollout.Has("web-10000.example.com") || !slices.Equal(read.Waves, r.Waves) {
			t.Error("the record is not what was written")
		}
	})
}

// A busAway stores what it is given, and loses the answer.
type busAway struct{ jetstream.KeyValue }

func (b busAway) Update(ctx context.Context, key string, value []byte, last uint64) (uint64, error) {
	if _, err := b.KeyValue.Update(ctx, key, value, last); err != nil {
		return 0, err
	}
	return 0, context.DeadlineExceeded
}

func TestAWriteWhoseAnswerIsLostIsFoundStored(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		kv := openBucket(t, bus)
		s := NewStore(busAway{kv}, "m1", Source{})
		for generation := range uint64(3) {
			if r, err := s.Write(t.Context(), Record{Commit: "a", Generation: generation}); err != nil || r.Generation != generation {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		if _, err := NewStore(kv, "m2", Source{}).Write(t.Context(), Record{Commit: "b"}); !errors.Is(err, ErrConflict) {
			t.Errorf("a master that has not read the record writes it: %v", err)
		}
		other := NewStore(kv, "m2", Source{})
		if _, err := other.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Write(t.Context(), Record{Commit: "b"}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write(t.Context(), Record{Commit: "a", Generation: 9}); !errors.Is(err, ErrConflict) {
			t.Errorf("the record of another master was written over: %v", err)
		}
	})
}
