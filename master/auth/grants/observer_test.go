package grants_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// An observer sees what the nats command shows of streams and consumers. It gets no message, and no reply to its requests
// goes where it says.
func TestAnObserverSeesStreamsAndNoMessage(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		master := b.JetStream(t)
		users, err := master.KeyValue(t.Context(), wire.BucketUsers)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := users.PutString(t.Context(), "ada", "an operator"); err != nil {
			t.Fatal(err)
		}
		quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
		nc := b.Conn(t, grants.RoleObserver, "prom", quiet)
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		list := js.ListStreams(t.Context())
		for range list.Info() {
			seen++
		}
		if list.Err() != nil || seen < 10 {
			t.Errorf("%d streams are seen: %v", seen, list.Err())
		}
		stream, err := js.Stream(t.Context(), wire.KV(wire.BucketUsers))
		if err != nil || stream.CachedInfo().State.Msgs != 1 {
			t.Fatalf("%+v, %v", stream, err)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := stream.GetLastMsgForSubject(ctx, wire.KVSubject(wire.BucketUsers, "ada")); err == nil {
			t.Error("it reads a record")
		}
		if err := nc.PublishRequest("$JS.API.STREAM.INFO.KV_users", wire.KVSubject(wire.BucketUsers, "ada"), nil); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if e, err := users.Get(t.Context(), "ada"); err != nil || string(e.Value()) != "an operator" {
			t.Errorf("the reply to a request became a record: %s, %v", e.Value(), err)
		}
	})
}
