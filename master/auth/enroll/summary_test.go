package enroll_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/enroll"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestTheRecordsOfPeelsAreReadOnceEach(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		const peels = 300
		js := b.JetStream(t)
		s := enroll.NewSummary(js)
		kv, err := js.KeyValue(t.Context(), wire.BucketEnroll)
		if err != nil {
			t.Fatal(err)
		}
		put := func(i int, e credential.Enrolled) {
			t.Helper()
			data, err := canon.Marshal(e)
			if err == nil {
				_, err = kv.Put(t.Context(), fmt.Sprintf("peel.p%d", i), data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		look := func(ended, pending int) (messages uint64) {
			t.Helper()
			synctest.Wait()
			before := js.Conn().Stats().InMsgs
			gotEnded, gotPending, err := s.Look(context.WithoutCancel(t.Context()))
			if err != nil || gotEnded != ended || gotPending != pending {
				t.Errorf("%d keys ended and %d peels wait (%v), want %d and %d", gotEnded, gotPending, err, ended, pending)
			}
			return js.Conn().Stats().InMsgs - before
		}
		for i := range peels {
			put(i, credential.Enrolled{State: credential.Accepted})
		}
		first := look(0, 0)
		second := look(0, 0)
		t.Logf("%d peels: the first look took %d messages, the second %d", peels, first, second)
		if first < peels || second > 3 {
			t.Errorf("%d peels: the first look took %d messages, the second %d", peels, first, second)
		}
		put(7, credential.Enrolled{State: credential.Revoked, Ended: map[string]credential.End{"U1": {}}})
		put(8, credential.Enrolled{State: credential.Pending})
		put(9, credential.Enrolled{State: credential.Pending})
		if n := look(1, 2); n > 10 {
			t.Errorf("three changes took %d messages", n)
		}
		if err := kv.Delete(t.Context(), "peel.p9"); err != nil {
			t.Fatal(err)
		}
		look(1, 1)
		put(8, credential.Enrolled{State: credential.Accepted})
		look(1, 0)
		stream, err := js.Stream(t.Context(), "KV_enroll")
		if err != nil {
			t.Fatal(err)
		}
		config := stream.CachedInfo().Config
		if err := js.DeleteStream(t.Context(), config.Name); err != nil {
			t.Fatal(err)
		}
		if _, err := js.CreateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		put(8, credential.Enrolled{State: credential.Pending})
		look(0, 1)
	})
}

// TestARecordThatCannotBeDecodedIsNoPeelThatWasNeverRevoked holds that it does not hide the others either.
func TestARecordThatCannotBeDecodedIsNoPeelThatWasNeverRevoked(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		kv, err := js.KeyValue(t.Context(), wire.BucketEnroll)
		if err != nil {
			t.Fatal(err)
		}
		put := func(key string, data []byte, err error) {
			t.Helper()
			if err == nil {
				_, err = kv.Put(t.Context(), "peel."+key, data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		record := func(key string, e credential.Enrolled) {
			t.Helper()
			data, err := canon.Marshal(e)
			put(key, data, err)
		}
		r, err := enroll.OpenRegister(t.Context(), js, "")
		if err != nil {
			t.Fatal(err)
		}
		peels := []target.PeelID{"a", "b.c", "damaged", "never"}
		want := func(since time.Time, want ...target.PeelID) {
			t.Helper()
			if got, err := r.RevokedSince(t.Context(), since, peels); err != nil || !slices.Equal(got, want) {
				t.Errorf("%v (%v), want %v", got, err, want)
			}
		}
		began := time.Now()
		want(began)
		time.Sleep(time.Minute)
		record("a", credential.Enrolled{ID: "a", Ended: map[string]credential.End{
			"U1": {At: began.Add(-time.Hour)}, "U2": {At: time.Now()},
		}})
		put("damaged", []byte("{"), nil)
		record("never", credential.Enrolled{ID: "never", State: credential.Accepted})
		want(began, "a", "damaged")
		want(time.Now(), "damaged")
		s := enroll.NewSummary(js)
		if _, _, err := s.Look(t.Context()); err == nil {
			t.Error("the ended keys are known beside a record that cannot be decoded")
		}
		time.Sleep(time.Minute)
		record("b_c", credential.Enrolled{ID: "b.c", Ended: map[string]credential.End{"U3": {At: time.Now()}}})
		record("damaged", credential.Enrolled{ID: "damaged", State: credential.Accepted})
		want(began, "a", "b.c")
		want(began.Add(90*time.Second), "b.c")
		if ended, _, err := s.Look(t.Context()); err != nil || ended != 3 {
			t.Errorf("%d keys ended (%v), want 3", ended, err)
		}
	})
}
