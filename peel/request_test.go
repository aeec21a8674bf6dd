package peel_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// TestAnImmediateReturnReplacesTheAcknowledgement also holds what is acknowledged by itself: what runs longer than a
// moment, and what changes the host, before it has run.
func TestAnImmediateReturnReplacesTheAcknowledgement(t *testing.T) {
	for name, c := range map[string]struct {
		request wire.Request
		acks    int
	}{
		"at once":          {wire.Request{Function: "test.ping"}, 0},
		"unknown":          {wire.Request{Function: "no.such"}, 0},
		"slow":             {wire.Request{Function: "test.sleep", Args: map[string]any{"duration": "1s"}}, 1},
		"changes the host": {wire.Request{Function: "cmd.run", Args: map[string]any{"command": "true"}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(b *bench) {
				b.start()
				b.drain()
				c.request.Epoch = 1
				r := b.ask(c.request)
				acks, returns := b.answersTo(r.JID)
				if acks != c.acks || returns != 1 {
					t.Errorf("%d acks, %d returns, want %d and 1", acks, returns, c.acks)
				}
			})
		})
	}
}

// answersTo counts what is heard of a job within a minute. An acknowledgement after the return is an error.
func (b *bench) answersTo(jid wire.JID) (acks, returns int) {
	b.t.Helper()
	for late := time.After(time.Minute); ; {
		select {
		case <-late:
			return acks, returns
		case msg := <-b.heard:
			switch msg.Subject {
			case wire.AckOf(jid, id.Wire()):
				acks++
				if returns > 0 {
					b.t.Error("it is acknowledged after its return")
				}
			case wire.ReturnOf(jid, id.Wire()):
				returns++
			}
		}
	}
}

func TestAPeelReceivesRequestsBeforeItSendsFacts(t *testing.T) {
	run(t, func(b *bench) {
		request, err := canon.Marshal(wire.Request{JID: wire.NewJID(), Function: "test.ping", Epoch: 1, V: wire.Version})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.nc.Subscribe(wire.AllFacts, func(*nats.Msg) {
			if err := b.nc.Publish(wire.Cmd(id.Wire()), request); err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if err := b.nc.Flush(); err != nil {
			t.Fatal(err)
		}
		b.start()
		if r := b.returned(); !r.Success {
			t.Errorf("%+v", r)
		}
	})
}
