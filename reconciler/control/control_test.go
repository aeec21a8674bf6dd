package control

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/progress"
)

// everyPeel lets everybody read about all peels.
func everyPeel(context.Context, grants.Caller) (access.Peels, error) {
	return access.Peels{All: true}, nil
}

func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

// TestRequestsOfSyncNowDoNotDelayOrders has a program ask for the branch again and again while the remote hangs.
func TestRequestsOfSyncNowDoNotDelayOrders(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		log := slog.New(slog.DiscardHandler)
		nc := bus.Conn(t, grants.RoleMaster, "m1")
		fleet := fleet.New(nc, log)
		orders := make(chan *Order)
		s := &Service{
			NC: nc, Orders: orders, Newest: func() *Snapshot { return &Snapshot{} }, Fleet: fleet, Progress: progress.New(fleet, make(chan struct{}, 1), log), Log: log, Within: everyPeel,
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{}, 2)
		go func() { _ = s.Run(ctx); done <- struct{}{} }()
		go func() { // a loop whose attempts to read the branch never end
			defer func() { done <- struct{}{} }()
			for {
				select {
				case <-ctx.Done():
					return
				case o := <-orders:
					if o.Accept(nil); !o.Read {
						o.Settle()
					}
				}
			}
		}()
		defer func() { cancel(); <-done; <-done }()
		synctest.Wait()
		ops := bus.Conn(t, grants.RoleOperator, "op")
		var busy atomic.Int64
		inbox := ops.NewInbox()
		if _, err := ops.Subscribe(inbox, func(m *nats.Msg) {
			if m.Header.Get(micro.ErrorCodeHeader) == "503" {
				busy.Add(1)
			}
		}); err != nil {
			t.Fatal(err)
		}
		for range 200 {
			if err := ops.PublishRequest(wire.API("sync", "now", "op"), inbox, nil); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := busy.Load(); n != 200-nowAtOnce {
			t.Errorf("%d requests were refused, want all but %d", n, nowAtOnce)
		}
		for _, verb := range []string{"pause", "status"} {
			m, err := ops.Request(wire.API("sync", verb, "op"), nil, time.Second)
			if err != nil || m.Header.Get(micro.ErrorHeader) != "" {
				t.Errorf("sync %s: %v, %v", verb, err, m)
			}
		}
	})
}

// An order that is in force is answered so, also by a master that hands over before all that follows has been done.
func TestAnOrderThatIsStoredIsAnsweredWhileTheMasterHandsOver(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		log := slog.New(slog.DiscardHandler)
		nc := bus.Conn(t, grants.RoleMaster, "m1")
		fleet := fleet.New(nc, log)
		orders := make(chan *Order)
		var entries []audit.Entry
		s := &Service{
			NC: nc, Orders: orders, Newest: func() *Snapshot { return &Snapshot{} }, Fleet: fleet, Progress: progress.New(fleet, make(chan struct{}, 1), log), Log: log,
			Record: func(_ context.Context, e audit.Entry) { entries = append(entries, e) },
			Within: everyPeel,
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{}, 2)
		go func() { _ = s.Run(ctx); done <- struct{}{} }()
		go func() {
			(<-orders).Accept(nil) // stored
			cancel()               // another master leads
			done <- struct{}{}
		}()
		synctest.Wait()
		m, err := bus.Conn(t, grants.RoleOperator, "op").Request(wire.API("sync", "pause", "op"), nil, time.Second)
		<-done
		<-done
		if err != nil || m.Header.Get(micro.ErrorHeader) != "" {
			t.Errorf("the order is stored, and the answer is %v, %v", err, m)
		}
		if len(entries) != 1 || entries[0].Result != audit.Done {
			t.Errorf("the order is stored, and the audit log has %+v", entries)
		}
	})
}
