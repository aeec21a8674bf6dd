package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

func TestConflictsOfOneServer(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js, ctx := b.JetStream(t), t.Context()
		kv := made(t, js)
		put(t, kv, "key", "first")
		put(t, kv, "key", "second")
		_, create := kv.Create(ctx, "key", nil)
		_, update := kv.Update(ctx, "key", nil, 1)
		_, publish := js.Publish(ctx, "$KV.things.key", nil, jetstream.WithExpectLastSequencePerSubject(0))
		for what, err := range map[string]error{
			"create": create, "update": update, "publish": publish,
			"delete": kv.Delete(ctx, "key", jetstream.LastRevision(1)), "purge": kv.Purge(ctx, "key", jetstream.LastRevision(1)),
		} {
			if !bucket.IsConflict(err) || !bucket.IsConflict(fmt.Errorf("cannot store it: %w", err)) {
				t.Errorf("%s: %v is not a conflict", what, err)
			}
		}
		_, missing := kv.Get(ctx, "none")
		_, noStream := js.Publish(ctx, "$KV.nothing.key", nil, jetstream.WithExpectLastSequencePerSubject(0))
		_, noAPI := js.Stream(ctx, "nothing")
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, late := kv.Update(ended, "key", nil, 1)
		for what, err := range map[string]error{"missing key": missing, "no stream": noStream, "unknown stream": noAPI, "cancelled": late, "of another kind": errors.New("key exists")} {
			if err == nil || bucket.IsConflict(err) {
				t.Errorf("%s: %v is a conflict", what, err)
			}
		}
		full := &jetstream.APIError{ErrorCode: 10077}
		for _, code := range []jetstream.ErrorCode{10071, 10164} {
			if err := errors.Join(full, &jetstream.APIError{ErrorCode: code}); !bucket.IsConflict(err) {
				t.Errorf("a conflict with the code %d behind another error is none", code)
			}
		}
		if bucket.IsConflict(full) {
			t.Error("a full stream is a conflict")
		}
		if bucket.IsConflict(nil) {
			t.Error("a write without an error is a conflict")
		}
	})
}

// While a cluster stores a message, it refuses others of the same subject with a code of their own.
func TestConflictsOfAReplicatedBucket(t *testing.T) {
	c := natstest.ListenCluster(t)
	js, err := jetstream.New(c.Conn(t, grants.RoleMaster, "m1"))
	if err != nil {
		t.Fatal(err)
	}
	codes := map[jetstream.ErrorCode]int{}
	for round := 0; codes[10164] == 0; round++ { // most often in the first round
		var sent []jetstream.PubAckFuture
		for range 20 {
			m := &nats.Msg{Subject: fmt.Sprintf("$KV.leases.key-%d", round), Header: nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"0"}}}
			ack, err := js.PublishMsgAsync(m)
			if err != nil {
				t.Fatal(err)
			}
			sent = append(sent, ack)
		}
		stored := 0
		for _, ack := range sent {
			select {
			case <-ack.Ok():
				stored++
			case err := <-ack.Err():
				if !bucket.IsConflict(err) {
					t.Fatalf("%v is not a conflict", err)
				}
				if api, ok := errors.AsType[*jetstream.APIError](err); ok {
					codes[api.ErrorCode]++
				}
			}
		}
		if stored != 1 {
			t.Fatalf("%d of 20 writes for a key without a value were stored", stored)
		}
	}
}
