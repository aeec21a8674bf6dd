package peel_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// direct asks the peel as dan, and returns where the answer comes.
func (b *bench) direct(nc *nats.Conn, r wire.DirectRequest) func() wire.DirectAnswer {
	b.t.Helper()
	if r.V == 0 {
		r.V = wire.Version
	}
	if r.TimeLeft == 0 {
		r.TimeLeft = time.Minute
	}
	data, err := canon.Marshal(r)
	if err != nil {
		b.t.Fatal(err)
	}
	answer := wire.AnswerOf("dan", string(wire.NewJID()), id.Wire())
	sub, err := nc.SubscribeSync(answer)
	if err == nil {
		err = nc.PublishRequest(wire.Direct(id.Wire(), "dan"), answer, data)
	}
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return func() wire.DirectAnswer {
		b.t.Helper()
		msg, err := sub.NextMsg(wire.MaxDirect)
		if err != nil {
			b.t.Fatal(err)
		}
		a, err := wire.DecodeDirectAnswer(msg, id)
		if err != nil {
			b.t.Fatal(err)
		}
		return a
	}
}

func TestADirectRequestIsAnsweredAndLoggedWithItsUser(t *testing.T) {
	run(t, func(b *bench) {
		b.give(1, "schedule:\n  beat: {module: test.ping, interval: 1h}\n")
		b.start()
		b.drain()
		dan := b.bus.Conn(b.t, grants.RoleDirect, "dan")
		if a := b.direct(dan, wire.DirectRequest{Function: "test.echo", ID: "hello"})(); !a.Success || a.Data != "hello" {
			t.Errorf("%+v", a)
		}
		if a := b.direct(dan, wire.DirectRequest{Function: "schedule.pause", ID: "beat"})(); !a.Success {
			t.Errorf("%+v", a)
		}
		if a := b.direct(dan, wire.DirectRequest{Function: "no.such"})(); a.Success || a.Error != `no such function "no.such"` {
			t.Errorf("%+v", a)
		}
		synctest.Wait()
		if files, err := os.ReadDir(filepath.Join(b.dir, "outbox")); err != nil || len(files) > 0 {
			t.Errorf("%v, %v", files, err)
		}
		if e := b.entry("beat"); !strings.Contains(strings.Join(strings.Fields(b.log.String()), " "), "user=dan function=test.echo success=true") || e["state"] != "paused_manual" {
			t.Errorf("%v\n%s", e, b.log.String())
		}
		synctest.Wait()
		for len(b.heard) > 0 {
			if msg := <-b.heard; !matches(wire.AllApplied, msg.Subject) && !strings.Contains(msg.Subject, ".schedule.") {
				continue
			}
			t.Error("something was reported")
		}
	})
}

func TestADirectRequestWaitsForItsTurn(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		dan := b.bus.Conn(b.t, grants.RoleDirect, "dan")
		hanging := b.hang()
		command := map[string]any{"command": "true"}
		var waiting []func() wire.DirectAnswer
		for range 64 {
			waiting = append(waiting, b.direct(dan, wire.DirectRequest{Function: "cmd.run", Args: command}))
		}
		if a := b.direct(dan, wire.DirectRequest{Function: "cmd.run", Args: command})(); a.Outcome != wire.Rejected || a.Error != "rejected: the peel is busy, 64 requests wait or run already" {
			t.Errorf("%+v", a)
		}
		if a := b.direct(dan, wire.DirectRequest{Function: "test.ping"})(); !a.Success {
			t.Errorf("behind a command that hangs: %+v", a)
		}
		b.cancel(hanging)
		b.canceled(hanging)
		for _, answer := range waiting {
			if a := answer(); !a.Success {
				t.Errorf("%+v", a)
			}
		}
	})
}

func TestADirectAnswerFitsTheBus(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		dan := b.bus.Conn(b.t, grants.RoleDirect, "dan")
		text := long[:1_000_000]
		a := b.direct(dan, wire.DirectRequest{Function: "test.echo", Args: map[string]any{"text": text}})()
		b.excerpt(a.Data, "output_truncated", text)
	})
}

func TestAMessageThatIsNoDirectRequestIsDroppedOrRefused(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		dan := b.bus.Conn(b.t, grants.RoleDirect, "dan")
		if a := b.direct(dan, wire.DirectRequest{Function: "test.ping", V: wire.Version + 1})(); a.Outcome != wire.Rejected || !strings.Contains(a.Error, "version 2 of the protocol") {
			t.Errorf("%+v", a)
		}
		b.direct(dan, wire.DirectRequest{Function: "test.ping", TimeLeft: wire.MaxDirect + 1})
		b.direct(dan, wire.DirectRequest{Function: "test.ping", TimeLeft: -1})
		b.direct(dan, wire.DirectRequest{})
		for _, data := range []string{"", "{}", `{"stream":"facts","seq":1}`} {
			if err := dan.PublishRequest(wire.Direct(id.Wire(), "dan"), "_INBOX_USER.dan.x", []byte(data)); err != nil {
				t.Fatal(err)
			}
		}
		if err := dan.Publish(wire.Direct(id.Wire(), "dan"), nil); err != nil {
			t.Fatal(err)
		}
		if a := b.direct(dan, wire.DirectRequest{Function: "test.ping"})(); !a.Success {
			t.Errorf("%+v", a)
		}
		if n := strings.Count(b.log.String(), "direct request dropped"); n != 7 {
			t.Errorf("%d of 7 are in the log:\n%s", n, b.log.String())
		}
	})
}

// Requests that people send directly take no room of those that masters send, and the other way round.
func TestDirectRequestsAndRequestsOfMastersHaveSeparateLimits(t *testing.T) {
	long := map[string]any{"duration": "5m"}
	command := map[string]any{"command": "true"}
	t.Run("people fill theirs", func(t *testing.T) {
		run(t, func(b *bench) {
			b.start()
			dan := b.bus.Conn(b.t, grants.RoleDirect, "dan")
			for range 64 {
				b.direct(dan, wire.DirectRequest{Function: "test.sleep", Args: long})
				synctest.Wait()
			}
			if a := b.direct(dan, wire.DirectRequest{Function: "test.ping"})(); a.Outcome != wire.Rejected {
				t.Errorf("the 65th of people: %+v", a)
			}
			if r := b.call("test.ping", nil); !r.Success {
				t.Errorf("test.ping of a master: %+v", r)
			}
		})
	})
	t.Run("people fill the queue", func(t *testing.T) {
		run(t, func(b *bench) {
			b.start()
			dan := b.bus.Conn(b.t, grants.RoleDirect, "dan")
			hanging := b.hang()
			for range 64 {
				b.direct(dan, wire.DirectRequest{Function: "cmd.run", Args: command})
			}
			if a := b.direct(dan, wire.DirectRequest{Function: "cmd.run", Args: command})(); a.Outcome != wire.Rejected {
				t.Errorf("the 65th of people: %+v", a)
			}
			last := b.ask(wire.Request{Function: "cmd.run", Args: command, Epoch: 1})
			b.cancel(hanging)
			b.canceled(hanging)
			if r := b.returned(); r.JID != last.JID || !r.Success {
				t.Errorf("cmd.run of a master: %+v", r)
			}
		})
	})
	t.Run("masters fill theirs", func(t *testing.T) {
		run(t, func(b *bench) {
			b.start()
			dan := b.bus.Conn(b.t, grants.RoleDirect, "dan")
			for range 64 {
				b.ask(wire.Request{Function: "test.sleep", Args: long, Epoch: 1})
			}
			if r := b.call("test.ping", nil); r.Outcome != wire.Rejected {
				t.Errorf("the 65th of masters: %+v", r)
			}
			if a := b.direct(dan, wire.DirectRequest{Function: "test.ping"})(); !a.Success {
				t.Errorf("%+v", a)
			}
		})
	})
}
