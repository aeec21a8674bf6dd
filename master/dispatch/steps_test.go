package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// whole is a master that dispatches and takes over.
type whole struct {
	*dispatch.Dispatcher
	stop func() // in peace
	kill func() // as the end of its process would
}

// whole starts a master; at, which may be nil, is called at each step with what kills it.
func (s *system) whole(name string, at func(step string, kill func()), change ...func(*dispatch.Options)) *whole {
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
	run := s.runs[name]
	s.runs[name]++
	o := dispatch.Options{Conn: nc, Store: store, Owner: bus.HeartbeatOwner(name, fmt.Sprint(run+1))}
	for _, c := range change {
		c(&o)
	}
	d, err := dispatch.New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	beats := bus.NewHeartbeat(js, o.Owner, bus.HeartbeatOwner(name, fmt.Sprint(run)), slog.New(slog.DiscardHandler))
	scanner := dispatch.NewScanner(d, beats)
	if err := beats.Enter(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cut := func() { nc.Close(); cancel() }
	if at != nil {
		d.OnStep(func(step string) { at(step, cut) })
	}
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{d.Run, scanner.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				s.t.Errorf("%s ended with %v", name, err)
			}
		})
	}
	w := &whole{Dispatcher: d, stop: sync.OnceFunc(func() { cancel(); running.Wait() })}
	w.kill = func() { cut(); w.stop() }
	s.t.Cleanup(w.stop)
	synctest.Wait()
	return w
}

// once runs each job once and for each epoch, as a peel does behind its fence, and returns after a second.
func (s *system) once(ids ...target.PeelID) (peels []*peel) {
	for _, id := range ids {
		ran := map[wire.JID]uint64{}
		peels = append(peels, s.peel(id, func(p *peel, r wire.Request) {
			p.ack(r)
			p.mu.Lock()
			again := ran[r.JID] != 0
			ran[r.JID] = r.Epoch
			p.mu.Unlock()
			if again {
				s.t.Errorf("%s runs %s again under epoch %d", id, r.JID, r.Epoch)
			}
			time.Sleep(time.Second)
			p.deliver(r, wire.Result{Success: true})
		}))
	}
	return peels
}

func (s *system) terminalEvents(jid wire.JID) uint64 {
	s.t.Helper()
	stream, err := s.js.Stream(s.t.Context(), "job-events")
	if err != nil {
		s.t.Fatal(err)
	}
	info, err := stream.Info(s.t.Context(), jetstream.WithSubjectFilter(wire.StatusOf(jid)))
	if err != nil {
		s.t.Fatal(err)
	}
	return info.State.Subjects[wire.StatusOf(jid)]
}

func TestAMasterMayDieAtEveryStep(t *testing.T) {
	for _, batch := range []*job.Batch{nil, {Size: 1}} {
		steps := dispatch.Steps
		if batch != nil {
			steps = []string{dispatch.StepBatch}
		}
		for i, fatal := range steps {
			t.Run(fatal, func(t *testing.T) {
				bubble(t, func(t *testing.T, s *system) {
					died := make(chan struct{})
					m1 := s.whole("m1", func(step string, kill func()) {
						if step == fatal {
							select {
							case <-died:
							default:
								kill()
								close(died)
							}
						}
					})
					targets := []target.PeelID{"a", "b", "c", "d"}
					peels := s.once(targets...)
					spec := ask(func(j *job.Spec) { j.Timeout, j.Batch = 5*time.Minute, batch }, targets...)
					go func() { _, _ = m1.Submit(t.Context(), spec, "alice") }()
					<-died
					synctest.Wait()
					if batch == nil && i < slices.Index(dispatch.Steps, dispatch.Steps[3]) {
						for _, p := range peels {
							if n := len(p.requests()); n != 0 {
								t.Errorf("%s has %d requests before the record says running", p.id, n)
							}
						}
					}
					m1.stop()
					s.whole("m2", nil)
					time.Sleep(2 * time.Minute)
					if i == 0 && batch == nil { // nothing was recorded, the caller has no job
						if _, err := s.store.Get(t.Context(), spec.JID); err == nil || s.active(spec.JID) {
							t.Errorf("there is a job: %v, live %v", err, s.active(spec.JID))
						}
						return
					}
					if j := s.record(spec.JID); j.Status != job.Complete || j.ReturnCount != 4 || s.active(spec.JID) {
						t.Errorf("%s with %d returns, owner %s, live %v", j.Status, j.ReturnCount, j.Owner, s.active(spec.JID))
					}
					if n := s.terminalEvents(spec.JID); n != 1 {
						t.Errorf("%d terminal events", n)
					}
					for _, p := range peels {
						if len(p.requests()) == 0 {
							t.Errorf("%s was forgotten", p.id)
						}
					}
				})
			})
		}
	}
}

func TestAMasterThatWakesUpAfterItsJobWasTakenWritesNothing(t *testing.T) {
	// It is stopped for a minute at a step, which is longer than its heartbeat lives, and then goes on.
	for _, at := range append(slices.Clone(dispatch.Steps[1:]), dispatch.StepBatch) {
		t.Run(at, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *system) {
				var once sync.Once
				m1 := s.whole("m1", nil)
				m1.stop()
				beats, err := s.js.KeyValue(t.Context(), "masters")
				if err != nil {
					t.Fatal(err)
				}
				// Its dispatcher alone, which has no heart: to others it is dead all the time.
				d, _ := s.paused("m1", func(step string) {
					if step == at {
						once.Do(func() { time.Sleep(time.Minute) })
					}
				})
				if err := beats.Purge(t.Context(), "m1"); err != nil {
					t.Fatal(err)
				}
				s.whole("m2", nil)
				targets := []target.PeelID{"a", "b", "c", "d"}
				s.once(targets...)
				spec := ask(func(j *job.Spec) { j.Timeout = 5 * time.Minute }, targets...)
				if at == dispatch.StepBatch {
					spec.Batch = &job.Batch{Size: 1}
				}
				go func() { _, _ = d.Submit(t.Context(), spec, "alice") }()
				time.Sleep(3 * time.Minute)
				j := s.record(spec.JID)
				if j.Status != job.Complete || j.ReturnCount != 4 || s.active(spec.JID) || d.Watches(spec.JID) {
					t.Errorf("%s with %d returns, owner %s, live %v", j.Status, j.ReturnCount, j.Owner, s.active(spec.JID))
				}
				if n := s.terminalEvents(spec.JID); n != 1 {
					t.Errorf("%d terminal events", n)
				}
			})
		})
	}
}

// paused is a dispatcher with a hook and without a scanner.
func (s *system) paused(name string, at func(step string)) (*dispatch.Dispatcher, func()) {
	s.hook = at
	defer func() { s.hook = nil }()
	return s.master(name)
}

func TestNobodyStartsAClaimThatWasReportedAsFailed(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		m := s.whole("m1", nil)
		p := s.peel("a", pong)
		spec := ask(nil, "a")
		if err := s.js.DeleteStream(t.Context(), "job-events"); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Submit(t.Context(), spec, "alice"); err == nil {
			t.Fatal("dispatched without the stream of events")
		}
		provision(t, s.js)
		time.Sleep(50 * time.Second)
		if n := len(p.requests()); n != 0 {
			t.Errorf("the peel has %d requests", n)
		}
		time.Sleep(40 * time.Second)
		m.stop()
		s.whole("m1", nil)
		s.whole("m2", nil)
		time.Sleep(2 * time.Hour)
		if _, err := s.store.Get(t.Context(), spec.JID); !errors.Is(err, job.ErrNotFound) || s.active(spec.JID) || len(p.requests()) != 0 {
			t.Errorf("%v, live %v, %d requests", err, s.active(spec.JID), len(p.requests()))
		}
	})
}

// TestInvariantsOverManyDeaths mixes the deaths of masters with jobs of all kinds.
func TestInvariantsOverManyDeaths(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		var targets []target.PeelID
		for i := range 8 {
			targets = append(targets, target.PeelID(fmt.Sprint("p", i)))
		}
		s.once(targets...)
		var jids []wire.JID
		steps := append(slices.Clone(dispatch.Steps[1:]), dispatch.StepBatch)
		s.whole("m0", nil)
		for n := range 12 {
			countdown := 3 + 5*n
			var mu sync.Mutex
			died := make(chan struct{})
			m := s.whole(fmt.Sprint("m", n+1), func(step string, kill func()) {
				mu.Lock()
				defer mu.Unlock()
				if countdown--; countdown == 0 || step == steps[n%len(steps)] && countdown == 1 {
					kill()
					close(died)
					countdown = -1 << 30
				}
			})
			for i := range 10 {
				spec := ask(func(j *job.Spec) {
					j.Timeout = 10 * time.Minute
					if i%3 == 0 {
						j.Batch = &job.Batch{Size: 1 + i}
					}
				}, targets[:1+(n+i)%8]...)
				jids = append(jids, spec.JID)
				go func() { _, _ = m.Submit(t.Context(), spec, "alice") }()
			}
			select {
			case <-died:
				m.stop()
			case <-time.After(time.Minute):
				m.stop()
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(10 * time.Minute)
		finished := 0
		for _, jid := range jids {
			j, err := s.store.Get(t.Context(), jid)
			if err != nil {
				continue // its claim was never recorded
			}
			finished++
			if j.Status != job.Complete || s.terminalEvents(jid) != 1 || s.active(jid) {
				t.Errorf("%s is %s with %d of %d returns, owner %q, %d terminal events", jid, j.Status, j.ReturnCount, j.TargetCount, j.Owner, s.terminalEvents(jid))
			}
		}
		if finished < len(jids)/2 {
			t.Errorf("only %d of %d jobs were recorded", finished, len(jids))
		}
	})
}
