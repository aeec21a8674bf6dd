package peel_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// returns is the stream in which the bus stores returns.
func (b *bench) returns() jetstream.Stream {
	b.t.Helper()
	s, err := b.bus.JetStream(b.t).Stream(b.t.Context(), wire.KV(wire.BucketJobReturns))
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// stored returns the data that the bus stores as the return of the peel, nil if it has none.
func (b *bench) stored(jid wire.JID) []byte {
	b.t.Helper()
	synctest.Wait()
	m, err := b.returns().GetLastMsgForSubject(b.t.Context(), "$KV."+wire.BucketJobReturns+"."+string(jid)+"."+id.Wire())
	if err != nil {
		return nil
	}
	return m.Data
}

func TestAReturnThatTheBusHasLeavesTheOutbox(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		jid := wire.NewJID()
		if _, err := b.bus.JetStream(b.t).Publish(b.t.Context(), wire.ReturnOf(jid, id.Wire()), []byte("first")); err != nil {
			t.Fatal(err)
		}
		b.ask(wire.Request{JID: jid, Function: "test.ping", Epoch: 1})
		behind := b.ask(wire.Request{Function: "test.ping", Epoch: 1})
		if got := string(b.stored(jid)); got != "first" {
			t.Errorf("the bus has %q, the first return was replaced", got)
		}
		if b.stored(behind.JID) == nil || strings.Contains(b.log.String(), "outbox waits") {
			t.Errorf("the return behind it was not sent at once:\n%s", b.log.String())
		}
	})
}

func TestAReturnWaitsWhileTheStreamIsFull(t *testing.T) {
	for name, shrink := range map[string]func(c *jetstream.StreamConfig){
		"messages": func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 },
		"bytes":    func(c *jetstream.StreamConfig) { c.MaxBytes = 100 },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(b *bench) {
				js := b.bus.JetStream(b.t)
				if _, err := js.Publish(b.t.Context(), wire.ReturnOf(wire.NewJID(), "other"), []byte("x")); err != nil {
					t.Fatal(err)
				}
				c := b.returns().CachedInfo().Config
				full := c
				shrink(&full)
				if _, err := js.UpdateStream(b.t.Context(), full); err != nil {
					t.Fatal(err)
				}
				b.start()
				r := b.ask(wire.Request{Function: "test.ping", Epoch: 1})
				time.Sleep(5 * time.Minute)
				if b.stored(r.JID) != nil {
					t.Fatal("the stream was not full")
				}
				b.drain()
				behind := b.ask(wire.Request{Function: "test.ping", Epoch: 1})
				if acks, returns := b.answersTo(behind.JID); acks != 1 || returns != 0 {
					t.Errorf("a request whose return waits behind another one is answered by %d acks and %d returns", acks, returns)
				}
				if _, err := js.UpdateStream(b.t.Context(), c); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if b.stored(r.JID) == nil {
					t.Errorf("the return did not wait for room:\n%s", b.log.String())
				}
			})
		})
	}
}

// A message ID is of the sender's choice, and the stream would not store another message with it for minutes.
func TestAMessageIDOfAnotherPeelKeepsNoReturnOut(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		r := wire.Request{JID: wire.NewJID(), Function: "test.ping", Epoch: 1}
		for _, guess := range []string{string(r.JID), string(r.JID) + "." + id.Wire()} {
			if _, err := b.bus.JetStream(b.t).Publish(b.t.Context(), wire.ReturnOf(wire.NewJID(), "other"), nil, jetstream.WithMsgID(guess)); err != nil {
				t.Fatal(err)
			}
		}
		b.ask(r)
		if b.stored(r.JID) == nil {
			t.Error("the return is not stored")
		}
	})
}
