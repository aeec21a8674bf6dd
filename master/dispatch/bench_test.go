package dispatch_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// BenchmarkDispatch is the time from a person's request to the status event, with every target's ack and return, on
// loopback and with each peel on a connection of its own.
func BenchmarkDispatch(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkDispatch(b, n) })
	}
}

func benchmarkDispatch(b *testing.B, n int) {
	bus := natstest.Listen(b)
	js, err := jetstream.New(bus.Conn(b, grants.RoleMaster, "m1", nats.ReconnectBufSize(-1)))
	if err != nil {
		b.Fatal(err)
	}
	store, err := job.NewStore(b.Context(), js)
	if err != nil {
		b.Fatal(err)
	}
	d, err := dispatch.New(dispatch.Options{Conn: js.Conn(), Store: store, Owner: "m1"})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- d.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}()
	targets := make([]target.PeelID, n)
	for i := range targets {
		targets[i] = target.PeelID(fmt.Sprintf("peel-%05d", i))
		answer(b, bus.Conn(b, grants.RolePeel, string(targets[i])), targets[i])
	}
	alice := bus.Conn(b, grants.RoleOperator, "alice")
	over, err := alice.SubscribeSync(wire.StatusOf("*"))
	if err != nil {
		b.Fatal(err)
	}
	for first := true; first || b.Loop(); first = false { // the first one waits for the services and is not timed
		spec := job.Spec{JID: wire.NewJID(), Function: "test.ping", Targets: targets, TargetExpr: "*"}
		data, err := canon.Marshal(spec)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := alice.Request(wire.Dispatch("alice"), data, time.Minute); err != nil {
			if first {
				continue
			}
			b.Fatal(err)
		}
		if _, err := over.NextMsg(time.Minute); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "µs/target")
	if st := d.Stats(); st.Ended[job.Complete] != st.Dispatched {
		b.Errorf("%+v", st)
	}
}

// answer makes a connection do what a peel does with test.ping.
func answer(b *testing.B, nc *nats.Conn, id target.PeelID) {
	send := func(subject string, v any) {
		data, err := canon.Marshal(v)
		if err == nil {
			err = nc.Publish(subject, data)
		}
		if err != nil {
			b.Error(err)
		}
	}
	_, err := nc.Subscribe(wire.Cmd(string(id)), func(msg *nats.Msg) {
		r, err := wire.DecodeRequest(msg)
		if err != nil {
			b.Error(err)
			return
		}
		send(wire.AckOf(r.JID, string(id)), wire.Ack{JID: r.JID, Peel: id, Epoch: r.Epoch, Time: time.Now(), V: wire.Version})
		send(wire.ReturnOf(r.JID, string(id)), wire.Return{
			JID: r.JID, Peel: id, Result: wire.Result{Success: true, Data: true}, Epoch: r.Epoch, Finished: time.Now(), V: wire.Version,
		})
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		b.Fatal(err)
	}
}
