package bucket_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

func made(t *testing.T, js jetstream.JetStream) jetstream.KeyValue {
	t.Helper()
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "things", History: 5})
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

func put(t *testing.T, kv jetstream.KeyValue, key, value string) {
	t.Helper()
	if _, err := kv.PutString(t.Context(), key, value); err != nil {
		t.Fatal(err)
	}
}

func TestTheNewestValuesOfMatchingKeysAreRead(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		kv := made(t, js)
		for i := range 600 {
			put(t, kv, fmt.Sprintf("a.%03d", i), "old")
		}
		put(t, kv, "b.1", "of another kind")
		put(t, kv, "a.007", "new")
		if err := errors.Join(kv.Delete(t.Context(), "a.008"), kv.Purge(t.Context(), "a.009")); err != nil {
			t.Fatal(err)
		}
		expired := &nats.Msg{Subject: "$KV.things.a.010", Header: nats.Header{"Nats-Marker-Reason": {"MaxAge"}}}
		if _, err := js.PublishMsg(t.Context(), expired); err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		if err := bucket.Read(t.Context(), js, "things", "a.*", func(key string, value []byte) error {
			found[key] = string(value)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if len(found) != 597 || found["a.007"] != "new" || found["a.008"] != "" {
			t.Errorf("%d keys, a.007 is %q, a.008 is %q", len(found), found["a.007"], found["a.008"])
		}
		if err := bucket.Read(t.Context(), js, "things", "none.*", func(string, []byte) error { return errors.New("called") }); err != nil {
			t.Error(err)
		}
	})
}

// What the client began for a reading would fail the bubble, were it left behind.
func TestAReadingThatEndsEarlyLeavesNothingBehind(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		kv := made(t, js)
		for i := range 600 { // more than the client gives before one is taken
			put(t, kv, fmt.Sprintf("a.%03d", i), "new")
		}
		enough := errors.New("enough")
		if err := bucket.Read(t.Context(), js, "things", "a.*", func(string, []byte) error {
			synctest.Wait()
			return enough
		}); err != enough {
			t.Errorf("the error of who reads is %v", err)
		}
	})
}

func TestWhatIsPurgedMeanwhileIsNotWaitedFor(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		kv := made(t, js)
		for i := range 200 { // more than are on their way at once
			put(t, kv, fmt.Sprintf("a.%03d", i), "new")
		}
		stream, err := js.Stream(t.Context(), "KV_things")
		if err != nil {
			t.Fatal(err)
		}
		read := 0
		err = bucket.Read(t.Context(), js, "things", "a.*", func(string, []byte) error {
			if read++; read > 1 {
				return nil
			}
			return stream.Purge(t.Context())
		})
		if err != nil || read == 200 {
			t.Errorf("%d values were read, and then: %v", read, err)
		}
	})
}

func TestWhoTakesTimeForAValueMissesNone(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		kv := made(t, js)
		for i := range 200 { // more than are on their way at once
			put(t, kv, fmt.Sprintf("a.%03d", i), "new")
		}
		read := 0
		if err := bucket.Read(t.Context(), js, "things", "a.*", func(string, []byte) error {
			if read++; read < 4 {
				time.Sleep(10 * time.Second)
			}
			return nil
		}); err != nil || read != 200 {
			t.Errorf("%d values were read, and then: %v", read, err)
		}
	})
}
