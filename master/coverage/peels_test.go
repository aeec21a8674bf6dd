package coverage_test

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// peel runs a real peel, until the test ends or stop is called.
func (t *rig) peel(o peel.Options) (stop func()) {
	t.Helper()
	o.URL, o.Simulated = t.bus.URL(), true
	o.Connect = t.bus.Options(grants.RolePeel, o.ID.Wire())
	one, err := peel.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- one.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", o.ID, err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// order makes a peel carry out a function, and waits until its return is stored.
func (t *rig) order(id target.PeelID, function string, args map[string]any) {
	t.Helper()
	jid := wire.NewJID()
	data, err := canon.Marshal(wire.Request{JID: jid, Function: function, Args: args, Epoch: 1, User: "ann", V: wire.Version})
	if err != nil {
		t.Fatal(err)
	}
	returned := make(chan struct{}, 1)
	sub, err := t.js.Conn().Subscribe(wire.StoredOf(jid, id.Wire()), func(*nats.Msg) { returned <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	if err := t.js.Conn().Publish(wire.Cmd(id.Wire()), data); err != nil {
		t.Fatal(err)
	}
	select {
	case <-returned:
	case <-time.After(time.Minute):
		t.Fatalf("%s: %s of %v has no return after a minute", id, function, args)
	}
	_ = sub.Unsubscribe()
}
