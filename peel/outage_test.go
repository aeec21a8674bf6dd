package peel_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/outbox"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A muted network carries what the bus sends, and loses what the peel sends while lost is set.
type muted struct {
	bus  nats.InProcessConnProvider
	lost atomic.Bool
}

type mutedConn struct {
	net.Conn
	network *muted
}

func (m *muted) InProcessConn() (net.Conn, error) {
	conn, err := m.bus.InProcessConn()
	return &mutedConn{conn, m}, err
}

func (c *mutedConn) Write(p []byte) (int, error) {
	if c.network.lost.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// mute has the next start of the peel use a muted network.
func (b *bench) mute() *muted {
	m := &muted{bus: b.bus}
	b.options = func(o *peel.Options) { o.Connect = append(o.Connect, nats.InProcessServer(m)) }
	return m
}

// breakOutbox has the disk refuse messages.
func (b *bench) breakOutbox() {
	b.t.Helper()
	if err := os.RemoveAll(filepath.Join(b.dir, "outbox")); err != nil {
		b.t.Fatal(err)
	}
}

// The disk takes nothing and the bus confirms nothing: the schedule keeps its rhythm, and every report arrives later.
func TestReportsDelayNoRunAndAreNotLost(t *testing.T) {
	run(t, func(b *bench) {
		network := b.mute()
		b.start()
		b.breakOutbox()
		b.give(1, "schedule:\n  tick: {module: test.ping, interval: 2s, return_job: true}\n")
		b.reported()
		network.lost.Store(true)
		time.Sleep(time.Minute)
		network.lost.Store(false)
		synctest.Wait()
		last := b.reported()
		for range 29 {
			r := b.reported()
			if apart := r.Started.Sub(last.Started); apart != 2*time.Second {
				t.Fatalf("a run started %v after the one before", apart)
			}
			last = r
		}
		if log := b.log.String(); strings.Contains(log, "level=ERROR") {
			t.Errorf("it complains of reports that arrived:\n%s", log)
		}
	})
}

func TestAWorkerDoesNotWaitForTheBus(t *testing.T) {
	run(t, func(b *bench) {
		network := b.mute()
		b.start()
		b.breakOutbox()
		b.give(1, "schedule:\n  rare: {module: test.ping, interval: 1d}\n")
		b.drain()
		network.lost.Store(true)
		const jobs = 10
		for range jobs {
			b.ask(wire.Request{Function: "schedule.pause", Args: map[string]any{"entry": "rare"}, Epoch: 1})
		}
		time.Sleep(time.Second)
		network.lost.Store(false)
		var first time.Time
		for range jobs {
			r := b.returned()
			if first.IsZero() {
				first = r.Finished
			}
			if took := r.Finished.Sub(first); !r.Success || took > time.Second {
				t.Errorf("a job ended %v after the first: %+v", took, r.Result)
			}
		}
	})
}

// What cannot be stored is sent before the process ends, also the report of a run that ends last.
func TestReportsInMemoryAreSentBeforeTheEnd(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		b.breakOutbox()
		b.give(1, "schedule:\n  slow: {module: test.sleep, args: {duration: 8s}, interval: 1h, run_on_start: true, return_job: true}\n")
		b.stop()
		b.drain()
		if err := os.Mkdir(filepath.Join(b.dir, "outbox"), 0o700); err != nil {
			t.Fatal(err)
		}
		b.start()
		b.breakOutbox()
		b.stop()
		if r := b.reported(); r.Entry != "slow" || !r.Success {
			t.Errorf("%+v", r)
		}
		if strings.Contains(b.log.String(), "messages are lost") {
			t.Error(b.log.String())
		}
	})
}

func TestDroppedMessagesAreReported(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		b.breakOutbox()
		b.give(1, "schedule:\n  tick: {module: test.ping, interval: 1s, return_job: true}\n")
		b.reported()
		b.bus.Stop(t)
		time.Sleep(outbox.MaxHeldItems*time.Second + time.Minute)
		b.bus.Start(t)
		time.Sleep(5 * time.Minute)
		report := b.lastApplied()
		if len(report.Errors) != 1 || !strings.Contains(report.Errors[0], "reports and returns were dropped") {
			t.Errorf("%q", report.Errors)
		}
	})
}
