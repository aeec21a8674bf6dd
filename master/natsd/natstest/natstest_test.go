package natstest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

func TestKeysExpireInFakeTime(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		masters, err := b.JetStream(t).KeyValue(t.Context(), wire.BucketMasters)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := masters.Put(t.Context(), "m1", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(14 * time.Second)
		if _, err := masters.Get(t.Context(), "m1"); err != nil {
			t.Errorf("after 14 s: %v", err)
		}
		time.Sleep(2 * time.Second)
		if _, err := masters.Get(t.Context(), "m1"); !errors.Is(err, jetstream.ErrKeyNotFound) {
			t.Errorf("after 16 s: %v", err)
		}
	})
}

func TestConnectionsSurviveARestart(t *testing.T) {
	check := func(t *testing.T, b *natstest.Bus, settle func(back <-chan struct{})) {
		js := b.JetStream(t)
		kv, err := js.KeyValue(t.Context(), wire.BucketSettings)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.Put(t.Context(), "web-01", []byte("before")); err != nil {
			t.Fatal(err)
		}
		back := make(chan struct{}, 1)
		nc := b.Conn(t, grants.RoleMaster, "m1", nats.ReconnectHandler(func(*nats.Conn) { back <- struct{}{} }))
		url := b.URL()
		b.Restart(t)
		if b.URL() != url {
			t.Errorf("was %s, is %s", url, b.URL())
		}
		settle(back)
		js, err = jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		if kv, err = js.KeyValue(t.Context(), wire.BucketSettings); err != nil {
			t.Fatal(err)
		}
		if e, err := kv.Get(t.Context(), "web-01"); err != nil || string(e.Value()) != "before" {
			t.Errorf("after the restart: %v, %v", e, err)
		}
	}
	t.Run("bubble", func(t *testing.T) {
		natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
			check(t, b, func(back <-chan struct{}) { <-back; synctest.Wait() })
		})
	})
	t.Run("listening", func(t *testing.T) {
		check(t, natstest.Listen(t), func(back <-chan struct{}) { <-back })
	})
}
