package console

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// A fleet answers what a watch asks.
type fleet struct {
	asked atomic.Int64
	well  atomic.Int64 // peels without a problem
}

func (f *fleet) Ask(_ context.Context, _, _ string, _, answer any) error {
	f.asked.Add(1)
	switch a := answer.(type) {
	case *api.Problems:
		a.Now, a.Well = time.Now(), int(f.well.Load())
	case *status.Sync:
		a.Read = time.Now()
		a.Conditions = []status.Condition{
			{Type: status.Ready, Status: true}, {Type: status.Reconciling, LastTransitionTime: time.Now()},
		}
	}
	return nil
}

// A bench is a watch that runs in a bubble.
type bench struct {
	t     *testing.T
	fleet *fleet
	watch *watch
	nc    *nats.Conn
	stop  func()
}

func inBubble(t *testing.T, f func(b *bench)) {
	t.Helper()
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		b := &bench{t: t, fleet: &fleet{}, nc: bus.Conn(t, grants.RoleMaster, "m1")}
		b.watch = newWatch(watchOptions{Conn: b.nc, Ask: b.fleet})
		ctx, cancel := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		wait.Go(func() {
			if err := b.watch.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		b.stop = func() { cancel(); wait.Wait() }
		defer b.stop()
		synctest.Wait()
		f(b)
	})
}

// quiet waits until versions stay as they are for a while, and returns them.
func (b *bench) quiet() versions {
	b.t.Helper()
	now, _ := b.watch.Now()
	for {
		ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Second)
		next, err := b.watch.Wait(ctx, now)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return now
		}
		if err != nil {
			b.t.Fatal(err)
		}
		now = next
	}
}

// changed returns the parts that are new within a second, after do was done.
func (b *bench) changed(do func()) (parts []string) {
	b.t.Helper()
	before := b.quiet()
	do()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
	defer cancel()
	after, err := b.watch.Wait(ctx, before)
	if err != nil {
		return nil
	}
	for name, version := range after.Parts() {
		if version != before.Of(name) {
			parts = append(parts, name)
		}
	}
	return parts
}

func (b *bench) publish(subject string, header nats.Header) {
	b.t.Helper()
	if err := b.nc.PublishMsg(&nats.Msg{Subject: subject, Header: header}); err != nil {
		b.t.Fatal(err)
	}
}

func TestMessagesMakeNewVersionsOfTheirParts(t *testing.T) {
	ended := nats.Header{"KV-Operation": {"PURGE"}}
	for _, test := range []struct {
		subject string
		header  nats.Header
		want    string // one of the parts; "": none
	}{
		{"zester.audit.sync.pause.ann", nil, "audit"},
		{wire.KVSubject(wire.BucketAlerts, "alert.x"), nil, "alerts"},
		{wire.KVSubject(wire.BucketHeld, "action.x"), nil, "waiting"},
		{wire.KVSubject(wire.BucketEnroll, "peel.x"), nil, "waiting"},
		{wire.StatusOf("2abcdefghijklmnopqrstuvwxyz"), nil, "jobs"},
		{wire.StateRunOf("web-01"), nil, "states"},
		{wire.ScheduleStateOf("web-01"), nil, "day"},
		{wire.KVSubject(wire.BucketSessions, "session.x"), ended, "sessions"},
		{wire.KVSubject(wire.BucketSessions, "session.x"), nil, ""},
		{wire.KVSubject(wire.BucketTokens, "used.x"), nil, ""},
		{wire.Heartbeat("web-01"), nil, ""},
	} {
		inBubble(t, func(b *bench) {
			defer b.watch.Enter()()
			parts := map[string]bool{}
			for _, name := range b.changed(func() { b.publish(test.subject, test.header) }) {
				parts[name] = true
			}
			if test.want == "" && len(parts) > 0 || test.want != "" && !parts[test.want] || parts["repo"] {
				b.t.Errorf("%s changes %v, want %q", test.subject, parts, test.want)
			}
		})
	}
}

func TestProblemsThatTimeMakesAreSeen(t *testing.T) {
	inBubble(t, func(b *bench) {
		defer b.watch.Enter()()
		before := b.quiet()
		b.fleet.well.Add(1)
		ctx, cancel := context.WithTimeout(b.t.Context(), 3*time.Second)
		defer cancel()
		after, err := b.watch.Wait(ctx, before)
		if err != nil || after.Of("verdict") == before.Of("verdict") || after.Of("audit") != before.Of("audit") {
			b.t.Errorf("versions %v, then %v, %v", before, after, err)
		}
	})
}

func TestReportsOfManyPeelsMakeFewVersions(t *testing.T) {
	inBubble(t, func(b *bench) {
		defer b.watch.Enter()()
		before := b.quiet()
		for range 60 * 4 {
			b.publish(wire.ScheduleStateOf("web-01"), nil)
			time.Sleep(250 * time.Millisecond)
		}
		after, _ := b.watch.Now()
		if n := after.Of("lanes") - before.Of("lanes"); n < 5 || n > 7 {
			b.t.Errorf("a minute of reports makes %d versions, want one each 10 s", n)
		}
	})
}

func TestWithoutAStreamNothingIsAsked(t *testing.T) {
	inBubble(t, func(b *bench) {
		time.Sleep(time.Minute)
		if n := b.fleet.asked.Load(); n != 0 {
			b.t.Errorf("%d requests before the first stream", n)
		}
		leave := b.watch.Enter()
		seen := b.quiet()
		leave()
		time.Sleep(time.Second)
		asked := b.fleet.asked.Load()
		b.publish("zester.audit.sync.pause.ann", nil)
		time.Sleep(time.Minute)
		if n := b.fleet.asked.Load(); n != asked || n == 0 || b.nc.NumSubscriptions() != 0 {
			b.t.Errorf("%d requests with a stream, %d after it, %d subscriptions", asked, n, b.nc.NumSubscriptions())
		}

		defer b.watch.Enter()()
		if now := b.quiet(); now.Of("audit") == seen.Of("audit") {
			b.t.Error("what changed while no stream was open is not seen")
		}
	})
}

func TestTheEndOfTheMasterEndsStreams(t *testing.T) {
	inBubble(t, func(b *bench) {
		defer b.watch.Enter()()
		seen := b.quiet()
		go b.stop()
		if _, err := b.watch.Wait(b.t.Context(), seen); !errors.Is(err, errStopped) {
			b.t.Errorf("a wait ends with %v", err)
		}
	})
}
