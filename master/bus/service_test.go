package bus_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bus"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// answers serves sync.status with a text.
func answers(t *testing.T, nc *nats.Conn, text string) *bus.Service {
	t.Helper()
	s := bus.NewService(t.Context(), nc)
	if err := s.Handle(wire.API("sync", "status", "*"), func(r *bus.Request) { _ = bus.SendReply(nc, r, []byte(text), "", nil) }); err != nil {
		t.Fatal(err)
	}
	return s
}

// A master loses its lease while its connection comes back: another one gets all requests from then on.
func TestAServiceThatStopsWhileTheBusIsAwayLeavesNothingBehind(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		forever := nats.MaxReconnects(-1)
		m1, m2 := b.Conn(t, grants.RoleMaster, "m1", forever), b.Conn(t, grants.RoleMaster, "m2", forever)
		former := answers(t, m1, "m1")
		if err := m1.Flush(); err != nil {
			t.Fatal(err)
		}
		b.Stop(t)
		synctest.Wait()
		former.Stop()
		b.Start(t)
		time.Sleep(time.Minute)
		defer answers(t, m2, "m2").Stop()
		if err := m2.Flush(); err != nil {
			t.Fatal(err)
		}
		person := b.Conn(t, grants.RoleOperator, "ann")
		for i := range 40 {
			if m, err := person.Request(wire.API("sync", "status", "ann"), nil, time.Second); err != nil || string(m.Data) != "m2" {
				t.Fatalf("request %d: %v, %+v", i, err, m)
			}
		}
		if n := m1.NumSubscriptions(); n > 1 { // that of replies
			t.Errorf("the former leader has %d subscriptions", n)
		}
	})
}

// Requests that have reached a service when it stops are handled; what takes too long is interrupted.
func TestAServiceThatStopsHandlesWhatItHasReceived(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		nc := b.Conn(t, grants.RoleMaster, "m1")
		ctx, cancel := context.WithCancel(t.Context())
		s := bus.NewService(ctx, nc)
		handle := func(ctx context.Context, r *bus.Request) {
			wait := time.Second
			if string(r.Data()) == "long" {
				wait = time.Hour
			}
			select {
			case <-ctx.Done():
				_ = bus.SendReply(nc, r, nil, "503", ctx.Err())
			case <-time.After(wait):
				_ = bus.SendReply(nc, r, []byte("done"), "", nil)
			}
		}
		if err := s.HandleEach(wire.API("hold", "approve", "*"), make(chan struct{}, 8), handle); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		person := b.Conn(t, grants.RoleOperator, "ann")
		got := make(chan string, 9)
		for i := range 9 {
			text := "short"
			if i == 0 {
				text = "long"
			}
			go func() {
				m, err := person.Request(wire.API("hold", "approve", "ann"), []byte(text), time.Minute)
				if err != nil {
					got <- err.Error()
					return
				}
				got <- fmt.Sprintf("%s %s%s", text, m.Data, m.Header.Get("Nats-Service-Error-Code"))
			}()
			synctest.Wait()
		}
		began := time.Now()
		cancel()
		s.Stop()
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("stopped after %v", took)
		}
		counts := map[string]int{}
		for range 9 {
			counts[<-got]++
		}
		if counts["short done"] != 7 || counts["short 503"] != 1 || counts["long 503"] != 1 {
			t.Errorf("%v", counts)
		}
	})
}

func TestARequestSaysHowLongItsCallerWaits(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		nc := b.Conn(t, grants.RoleMaster, "m1")
		s := bus.NewService(t.Context(), nc)
		defer s.Stop()
		var late, early, silent atomic.Int32
		if err := s.Handle(wire.API("job", "list", "*"), func(r *bus.Request) {
			before := r.Late()
			time.Sleep(5 * time.Second) // in the queue
			switch after := r.Late(); {
			case before:
				t.Error("late when it came")
			case after:
				late.Add(1)
			case string(r.Data()) == "silent":
				silent.Add(1)
			default:
				early.Add(1)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		person := b.Conn(t, grants.RoleOperator, "ann")
		for text, wait := range map[string]time.Duration{"silent": 0, "early": 6 * time.Second, "late": 4 * time.Second, "invalid": -1} {
			q := &nats.Msg{Subject: wire.API("job", "list", "ann"), Data: []byte(text), Header: nats.Header{}}
			if wait != 0 {
				wire.SetCallerWaits(q.Header, wait)
			}
			if wait == -1 {
				q.Header.Set("Zester-Waits", "soon")
				q.Data = []byte("silent")
			}
			if err := person.PublishMsg(q); err != nil {
				t.Fatal(err)
			}
			if err := person.Flush(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
		}
		if late.Load() != 1 || early.Load() != 1 || silent.Load() != 2 {
			t.Errorf("late %d, early %d, silent %d", late.Load(), early.Load(), silent.Load())
		}
	})
}
