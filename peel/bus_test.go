package peel_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// storedFacts are those that the masters have.
func (b *bench) storedFacts() map[string]any {
	b.t.Helper()
	stream, err := b.bus.JetStream(b.t).Stream(b.t.Context(), "facts")
	if err != nil {
		b.t.Fatal(err)
	}
	msg, err := stream.GetLastMsgForSubject(b.t.Context(), wire.Fact(id.Wire()))
	if err != nil {
		b.t.Fatal(err)
	}
	var f wire.Facts
	if err := canon.Unmarshal(msg.Data, &f); err != nil {
		b.t.Fatal(err)
	}
	return f.Facts
}

func (b *bench) facts(f target.Facts) { b.options = func(o *peel.Options) { o.Facts = f } }

func TestFactsBeyondTheLimitAreSaidAndThoseOfBeforeStay(t *testing.T) {
	run(t, func(b *bench) {
		b.facts(target.Facts{"role": "db"})
		b.start()
		b.stop()
		b.facts(target.Facts{"role": "web", "notes": strings.Repeat("x", 256<<10)})
		b.start()
		time.Sleep(time.Minute)
		if role := b.storedFacts()["role"]; role != "db" {
			t.Errorf("the masters have %v", role)
		}
		if log := b.log.String(); strings.Count(log, "facts not sent, masters would refuse them") != 1 || !strings.Contains(log, "bytes of facts, the limit is 262144") {
			t.Error(log)
		}
		if r := b.call("facts.get", map[string]any{"key": "role"}); r.Data != "web" {
			t.Errorf("the peel itself: %+v", r)
		}
	})
}

func TestFactsThatTheBusDoesNotCarryAreSaid(t *testing.T) {
	run(t, func(b *bench) {
		b.bus.Stop(t)
		b.bus.CarryAtMost(32 << 10)
		b.bus.Start(t)
		b.facts(target.Facts{"notes": strings.Repeat("x", 40<<10)})
		b.start()
		time.Sleep(time.Minute)
		if log := b.log.String(); strings.Count(log, "report not sent, it is larger than the bus carries") != 1 || !strings.Contains(log, "max_payload=32768") {
			t.Error(log)
		}
	})
}

func TestAPeelEndsWhileAServerKeepsItWaiting(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	p, err := peel.New(peel.Options{ID: id, DataDir: t.TempDir(), URL: "nats://" + silent.Addr().String(), Simulated: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	conn, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cancel()
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes came from a client that has heard nothing", n)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
