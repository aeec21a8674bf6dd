package peel_test

import (
	"fmt"
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
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A mortal network carries the writes of a peel to the bus until the host dies at one of them: it keeps what the disk has at
// that moment, and loses the rest.
type mortal struct {
	bus    nats.InProcessConnProvider
	writes atomic.Int64
	armed  atomic.Bool // writes are counted from now on
	last   int64       // number of the write at which the host dies
	passes bool        // that write reaches the bus
	dead   atomic.Bool
	dying  string // the write
	die    func()
}

type mortalConn struct {
	net.Conn
	network *mortal
}

func (m *mortal) InProcessConn() (net.Conn, error) {
	conn, err := m.bus.InProcessConn()
	return &mortalConn{conn, m}, err
}

func (c *mortalConn) Write(p []byte) (int, error) {
	m := c.network
	if m.dead.Load() {
		return len(p), nil
	}
	if !m.armed.Load() || m.writes.Add(1) != m.last {
		return c.Conn.Write(p)
	}
	m.dying = string(p)
	m.die()
	if m.passes {
		_, _ = c.Conn.Write(p)
	}
	m.dead.Store(true)
	return len(p), nil
}

// TestAHostThatDiesAtAnyWriteToTheBus: what a peel says is on its disk before it says it. After a death at any of its writes a
// job that began is not begun again, each job has a return, one that succeeded is returned so if the peel had come to
// that, and each run of the schedule that reached the bus is reported once.
func TestAHostThatDiesAtAnyWriteToTheBus(t *testing.T) {
	for _, passes := range []bool{false, true} {
		for last := int64(1); ; last++ {
			if testing.Short() && last > 5 {
				break
			}
			died := false
			t.Run(fmt.Sprintf("write %d, passed on %t", last, passes), func(t *testing.T) {
				run(t, func(b *bench) { died = b.dies(last, passes) })
			})
			if !died || t.Failed() {
				if !t.Failed() && last < 8 {
					t.Errorf("only %d writes", last-1)
				}
				break
			}
		}
	}
}

const mortalSchedule = "schedule:\n  beat: {module: test.ping, interval: 1m, run_on_start: true, return_job: true}\n"

// dies tries a death at the given write, and reports whether there was one.
func (b *bench) dies(last int64, passes bool) bool {
	killed, logged := filepath.Join(b.t.TempDir(), "killed"), ""
	network := &mortal{bus: b.bus, last: last, passes: passes}
	network.die = func() {
		logged = b.log.String()
		if err := os.CopyFS(killed, os.DirFS(b.dir)); err != nil {
			b.t.Error(err)
		}
	}
	b.options = func(o *peel.Options) { o.Connect = append(o.Connect, nats.InProcessServer(network)) }
	b.start()
	b.give(1, mortalSchedule)
	time.Sleep(time.Second)
	synctest.Wait()
	network.armed.Store(true)
	quick := b.ask(wire.Request{Function: "test.ping", Epoch: 1})
	slow := b.ask(wire.Request{Function: "test.sleep", Args: map[string]any{"duration": "2s"}, Epoch: 1})
	time.Sleep(3 * time.Second)
	time.Sleep(time.Minute)
	synctest.Wait()
	if !network.dead.Load() {
		return false
	}
	b.stop()
	ran := func(log string, jid wire.JID) int {
		n := 0
		for line := range strings.Lines(log) {
			if strings.Contains(line, "request accepted") && strings.Contains(line, string(jid)) {
				n++
			}
		}
		return n
	}
	said := newHearing()
	b.listenTo(said)
	before := len(b.log.String())
	b.dir, b.options = killed, nil
	if err := os.Chmod(filepath.Join(killed, "key"), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.start()
	for _, job := range []wire.Request{quick, slow} { // a master sends again what has no acknowledgement and no return
		if !said.acked[job.JID] && b.stored(job.JID) == nil {
			b.ask(job)
		}
	}
	time.Sleep(3 * time.Minute)
	synctest.Wait()
	b.listenTo(said)
	after := b.log.String()[before:]
	for _, job := range []wire.Request{quick, slow} {
		data := string(b.stored(job.JID))
		switch n := ran(logged, job.JID) + ran(after, job.JID); {
		case n > 1:
			b.t.Errorf("%s began %d times", job.Function, n)
		case data == "":
			b.t.Errorf("%s has no return; acknowledged: %t", job.Function, said.acked[job.JID])
		case strings.Contains(network.dying, wire.ReturnOf(job.JID, id.Wire())) && strings.Contains(data, string(wire.Interrupted)):
			b.t.Errorf("the peel began to send the result of %s, and the next process does not have it", job.Function)
		}
	}
	for nominal, jids := range said.reports {
		if len(jids) > 1 {
			b.t.Errorf("%d jobs report the run of %v", len(jids), nominal)
		}
	}
	if len(said.reports) < 3 {
		b.t.Errorf("reports of %d runs", len(said.reports))
	}
	return true
}

// hearing is what masters have heard of a peel.
type hearing struct {
	acked   map[wire.JID]bool
	reports map[time.Time]map[wire.JID]bool // by nominal time
}

func newHearing() *hearing {
	return &hearing{acked: map[wire.JID]bool{}, reports: map[time.Time]map[wire.JID]bool{}}
}

// listenTo adds what was heard so far.
func (b *bench) listenTo(h *hearing) {
	synctest.Wait()
	for len(b.heard) > 0 {
		msg := <-b.heard
		if matches(wire.AckOf("*", "*"), msg.Subject) {
			if ack, err := wire.DecodeAck(msg); err == nil {
				h.acked[ack.JID] = true
			}
		}
		if r, err := wire.DecodeScheduled(msg); err == nil && strings.Contains(msg.Subject, ".schedule.") {
			if h.reports[r.Nominal] == nil {
				h.reports[r.Nominal] = map[wire.JID]bool{}
			}
			h.reports[r.Nominal][r.JID] = true
		}
	}
}
