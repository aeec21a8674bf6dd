package apiserver_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/apiserver"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// system is a bus in fake time with a master's services.
type system struct {
	t     *testing.T
	bus   *natstest.Bus
	store *job.Store
}

func bubble(t *testing.T, f func(t *testing.T, s *system)) {
	t.Helper()
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		store, err := job.NewStore(t.Context(), b.JetStream(t))
		if err != nil {
			t.Fatal(err)
		}
		f(t, &system{t: t, bus: b, store: store})
	})
}

// master starts what a master serves, which ends with the test if stop is not called.
func (s *system) master(name string, change ...func(*apiserver.Options)) (stop func()) {
	s.t.Helper()
	nc := s.bus.Conn(s.t, grants.RoleMaster, name, nats.ReconnectBufSize(-1))
	js, err := jetstream.New(nc)
	if err != nil {
		s.t.Fatal(err)
	}
	store, err := job.NewStore(s.t.Context(), js)
	if err != nil {
		s.t.Fatal(err)
	}
	dispatcher, err := dispatch.New(dispatch.Options{Conn: nc, Store: store, Owner: name})
	if err != nil {
		s.t.Fatal(err)
	}
	rollout, err := js.KeyValue(s.t.Context(), "rollout")
	var before uint64 // what another master has published
	if err == nil {
		_, before, err = settings.LoadNodeGroups(s.t.Context(), rollout)
	}
	if err == nil {
		_, err = settings.PublishNodeGroups(s.t.Context(), rollout, settings.NodeGroups{"front": {"web-*"}}, before)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	tokens, err := token.Open(s.t.Context(), js)
	if err != nil {
		s.t.Fatal(err)
	}
	users, err := user.Open(s.t.Context(), js)
	if err != nil {
		s.t.Fatal(err)
	}
	fleet := fleet.New(nc, quiet)
	o := apiserver.Options{JetStream: js, Store: store, Dispatch: dispatcher, Tokens: tokens, Users: users, Fleet: fleet}
	for _, f := range change {
		f(&o)
	}
	server := apiserver.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{fleet.Run, o.Dispatch.Run, server.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				s.t.Errorf("%s ended with %v", name, err)
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	s.t.Cleanup(stop)
	if err := fleet.WaitReady(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
	return stop
}

// peel tells facts and answers requests with on, which may be nil, each once.
func (s *system) peel(id target.PeelID, facts target.Facts, on func(nc *nats.Conn, r wire.Request)) *nats.Conn {
	s.t.Helper()
	nc := s.bus.Conn(s.t, grants.RolePeel, id.Wire())
	data, err := canon.Marshal(wire.Facts{Peel: id, Facts: facts, V: wire.Version})
	if err == nil {
		_, err = nc.Request(wire.Fact(id.Wire()), data, time.Second)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	known := map[wire.JID]bool{}
	if _, err := nc.Subscribe(wire.Cmd(id.Wire()), func(msg *nats.Msg) {
		if r, err := wire.DecodeRequest(msg); err == nil && on != nil && !known[r.JID] {
			known[r.JID] = true
			on(nc, r)
		}
	}); err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
	return nc
}

// pong returns what a peel's function test.ping would.
func pong(id target.PeelID) func(*nats.Conn, wire.Request) {
	return func(nc *nats.Conn, r wire.Request) {
		ack, _ := canon.Marshal(wire.Ack{JID: r.JID, Peel: id, Epoch: r.Epoch, V: wire.Version})
		ret, _ := canon.Marshal(wire.Return{JID: r.JID, Peel: id, Result: wire.Result{Success: true, Data: string(id)}, Epoch: r.Epoch, V: wire.Version})
		_ = nc.Publish(wire.AckOf(r.JID, id.Wire()), ack)
		_ = nc.Publish(wire.ReturnOf(r.JID, id.Wire()), ret)
		_ = nc.Publish(wire.ReturnOf(r.JID, id.Wire()), ret) // and once more
	}
}

// client connects as a person.
func (s *system) client(role grants.Role, user string) *api.Client {
	s.t.Helper()
	creds, err := s.bus.Keys.Creds(role, user, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := api.Connect(api.ClientOptions{URL: s.bus.URL(), Creds: creds, Connect: []nats.Option{nats.InProcessServer(s.bus)}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}
