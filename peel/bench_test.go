package peel_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// attend runs a simulated peel on a bus, and returns a master's connection with what it hears on a subject. All of them
// are in the figures.
func attend(b *testing.B, subject string) (*natstest.Bus, *nats.Conn, *nats.Subscription) {
	bus := natstest.Listen(b)
	nc := bus.Conn(b, grants.RoleMaster, "m1")
	heard, err := nc.SubscribeSync(subject)
	if err != nil {
		b.Fatal(err)
	}
	first, err := nc.SubscribeSync(wire.AllApplied)
	if err != nil {
		b.Fatal(err)
	}
	p, err := peel.New(peel.Options{
		ID: id, DataDir: b.TempDir(), URL: bus.URL(), Connect: bus.Options(grants.RolePeel, id.Wire()), Simulated: true, Facts: target.Facts{"role": "web"},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	if _, err := first.NextMsg(time.Minute); err != nil {
		b.Fatal(err)
	}
	return bus, nc, heard
}

func BenchmarkRequest(b *testing.B) {
	_, nc, returns := attend(b, wire.ReturnOf("*", "*"))
	b.ReportAllocs()
	for b.Loop() {
		data, err := canon.Marshal(wire.Request{JID: wire.NewJID(), Function: "test.ping", Epoch: 1, User: "ada", V: wire.Version})
		if err == nil {
			err = nc.Publish(wire.Cmd(id.Wire()), data)
		}
		if err == nil {
			_, err = returns.NextMsg(time.Minute)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSettings(b *testing.B) {
	bus, _, applied := attend(b, wire.AllApplied)
	store := settings.NewStore(bus.JetStream(b))
	schedule := map[string]any{}
	for i := range 10 {
		schedule[fmt.Sprint("entry", i)] = map[string]any{"module": "test.echo", "cron": "17 3 * * *", "splay": "1h", "args": map[string]any{"text": "all is well"}}
	}
	revision := uint64(0)
	generation := uint64(1)
	b.ReportAllocs()
	for b.Loop() {
		raw, err := canon.Marshal(map[string]any{"marker": generation, "schedule": schedule})
		if err != nil {
			b.Fatal(err)
		}
		doc := settings.Document{V: settings.OpenVersion, Peel: id, Commit: "c0ffee", Generation: generation, Digest: settings.DigestOf(raw), Settings: raw}
		revisions, err := store.Publish(b.Context(), slices.Values([]settings.Write{{Document: &doc, Revision: revision}}))
		if err != nil {
			b.Fatal(err)
		}
		revision = revisions[id]
		for r := (wire.Applied{}); r.Generation != generation; {
			msg, err := applied.NextMsg(time.Minute)
			if err == nil {
				r, err = wire.DecodeApplied(msg)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		generation++
	}
}
