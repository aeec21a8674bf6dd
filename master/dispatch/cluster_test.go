package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bus"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A cluster is a bus in fake time with masters that take jobs over.
type cluster struct {
	t     *testing.T
	bus   *natstest.Bus
	js    jetstream.JetStream
	store *job.Store
	runs  map[string]int // of masters, by name
}

func inCluster(t *testing.T, f func(t *testing.T, s *cluster)) {
	t.Helper()
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		store, err := job.NewStore(t.Context(), js)
		if err != nil {
			t.Fatal(err)
		}
		f(t, &cluster{t: t, bus: b, js: js, store: store, runs: map[string]int{}})
	})
}

// A masterRun is one run of a master: a dispatcher and a scanner.
type masterRun struct {
	*dispatch.Dispatcher
	scanner *dispatch.Scanner
	owner   string
	ended   error // of the scanner; valid after stop
	nc      *nats.Conn
	stop    func() // in peace
}

// master starts a run of a master, which knows what the last one of its name has left, and waits until it has the name.
func (s *cluster) master(name string) *masterRun {
	s.t.Helper()
	s.runs[name]++
	n := s.runs[name]
	m, err := s.enter(name, fmt.Sprint(n), fmt.Sprint(n-1))
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// enter starts a run of a master. Its error is the one of Enter.
func (s *cluster) enter(name, run, earlier string) (*masterRun, error) {
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
	m := &masterRun{owner: bus.HeartbeatOwner(name, run), nc: nc}
	if m.Dispatcher, err = dispatch.New(dispatch.Options{Conn: nc, Store: store, Owner: m.owner}); err != nil {
		s.t.Fatal(err)
	}
	beats := bus.NewHeartbeat(js, m.owner, bus.HeartbeatOwner(name, earlier), slog.New(slog.DiscardHandler))
	m.scanner = dispatch.NewScanner(m.Dispatcher, beats)
	if err := beats.Enter(s.t.Context()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := m.Dispatcher.Run(ctx); err != nil {
			s.t.Errorf("the dispatcher of %s ended with %v", name, err)
		}
	})
	running.Go(func() {
		if m.ended = m.scanner.Run(ctx); m.ended != nil {
			cancel()
		}
	})
	m.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	s.t.Cleanup(func() {
		m.stop()
		if m.ended != nil && !errors.Is(m.ended, bus.ErrNameTaken) {
			s.t.Errorf("the scanner of %s ended with %v", name, m.ended)
		}
	})
	synctest.Wait()
	return m, nil
}

// kill cuts a master off at once and for ever, as the end of its process would.
func (m *masterRun) kill() {
	m.nc.Close()
	m.stop()
}

// A worker is a peel that answers each job once for each epoch, after a pause, and counts what it runs.
type worker struct {
	nc   *nats.Conn
	mu   sync.Mutex
	runs map[wire.JID][]uint64 // epochs
	work sync.WaitGroup
}

func (s *cluster) peel(id target.PeelID, takes time.Duration) *worker {
	s.t.Helper()
	p := &worker{nc: s.bus.Conn(s.t, grants.RolePeel, id.Wire()), runs: map[wire.JID][]uint64{}}
	send := func(subject string, v any) {
		if data, err := canon.Marshal(v); err == nil {
			_ = p.nc.Publish(subject, data)
		}
	}
	_, err := p.nc.Subscribe(wire.Cmd(id.Wire()), func(msg *nats.Msg) {
		r, err := wire.DecodeRequest(msg)
		if err != nil {
			s.t.Error(err)
			return
		}
		send(wire.AckOf(r.JID, id.Wire()), wire.Ack{JID: r.JID, Peel: id, Epoch: r.Epoch, Time: time.Now(), V: wire.Version})
		p.mu.Lock()
		defer p.mu.Unlock()
		if epochs := p.runs[r.JID]; len(epochs) > 0 && epochs[len(epochs)-1] >= r.Epoch {
			return
		}
		p.runs[r.JID] = append(p.runs[r.JID], r.Epoch)
		p.work.Go(func() {
			time.Sleep(takes)
			send(wire.ReturnOf(r.JID, id.Wire()), wire.Return{
				JID: r.JID, Peel: id, Result: wire.Result{Success: true}, Epoch: r.Epoch, Finished: time.Now(), V: wire.Version,
			})
		})
	})
	s.t.Cleanup(func() {
		synctest.Wait() // a request that is on its way begins work
		p.work.Wait()
	})
	if err == nil {
		err = p.nc.Flush()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// ran is how often the peel ran a job.
func (p *worker) ran(jid wire.JID) int {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.runs[jid])
}

func askFor(timeout time.Duration, targets ...target.PeelID) job.Spec {
	return job.Spec{JID: wire.NewJID(), Function: "test.ping", Targets: targets, TargetExpr: "*", Timeout: timeout}
}

func (s *cluster) submit(m *masterRun, spec job.Spec) *job.Job {
	s.t.Helper()
	j, err := m.Submit(s.t.Context(), spec, "alice")
	if err != nil {
		s.t.Fatal(err)
	}
	return j
}

func (s *cluster) record(jid wire.JID) *job.Job {
	s.t.Helper()
	synctest.Wait()
	j, err := s.store.Get(s.t.Context(), jid)
	if err != nil {
		s.t.Fatal(err)
	}
	return j
}

func (s *cluster) active(jid wire.JID) bool {
	s.t.Helper()
	all, _, err := s.store.ListLive(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, a := range all {
		if a.JID == jid {
			return true
		}
	}
	return false
}

// count is how many messages the stream has on a subject.
func (s *cluster) count(subject string) uint64 {
	s.t.Helper()
	synctest.Wait()
	stream, err := s.js.Stream(s.t.Context(), "job-events")
	if err != nil {
		s.t.Fatal(err)
	}
	info, err := stream.Info(s.t.Context(), jetstream.WithSubjectFilter(subject))
	if err != nil {
		s.t.Fatal(err)
	}
	return info.State.Subjects[subject]
}

// ended fails the test unless a job is over in every respect, with a status.
func (s *cluster) ended(jid wire.JID, want job.Status) *job.Job {
	s.t.Helper()
	j := s.record(jid)
	if j.Status != want || s.active(jid) {
		s.t.Errorf("job is %s (owner %q, %d returns, %d reclaims), live %v; want %s", j.Status, j.Owner, j.ReturnCount, j.ReclaimCount, s.active(jid), want)
	}
	if n := s.count(wire.StatusOf(jid)); n != 1 {
		s.t.Errorf("%d terminal events", n)
	}
	return j
}

// returned says who has returned for a job by the bucket job-returns, in the order of storing.
func (s *cluster) returned(jid wire.JID) (peels []string) {
	s.t.Helper()
	if err := s.store.Stored(s.t.Context(), jid, func(r job.StoredReturn) { peels = append(peels, r.Sender) }); err != nil {
		s.t.Fatal(err)
	}
	return peels
}
