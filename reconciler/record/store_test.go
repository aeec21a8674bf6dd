package record

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/reconciler/status"
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
		r := Record{Rollout: &Rollout{}, History: make([]status.Attempt, 2*MaxHistory)}
		for i := range 2 * MaxKnown {
			r.Rollout.Known = append(r.Rollout.Known, fmt.Sprintf("%04d", i))
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
			if len(got.History) != MaxHistory || len(got.Skipped) != MaxSkipped || len(got.Rollout.Known) != MaxKnown {
				t.Errorf("%d attempts, %d skipped, %d errors", len(got.History), len(got.Skipped), len(got.Rollout.Known))
			}
			if last := got.Skipped[MaxSkipped-1].Reason; last != fmt.Sprint(2*MaxKnown-1) {
				t.Errorf("the newest that was skipped is %s", last)
			}
		}
		if len(r.Rollout.Known) != 2*MaxKnown {
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
