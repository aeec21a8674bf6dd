package master_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// clusterPeels are the targets of a job on the cluster.
const clusterPeels = 6

// atCluster is atSite on a cluster, in real time, with masters and peels that are ready.
func atCluster(t *testing.T, f func(s *site, c *natstest.Cluster, ids []target.PeelID)) {
	c := natstest.ListenCluster(t)
	js, err := jetstream.New(c.Conn(t, grants.RoleMaster, "test"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := job.NewStore(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, dir: t.TempDir(), js: js, store: store, alice: c.Conn(t, grants.RoleOperator, "alice"), rest: func() {}}
	var ready sync.WaitGroup
	for _, name := range []string{"m1", "m2"} {
		ready.Add(1)
		began := sync.OnceFunc(ready.Done)
		s.process(func(ctx context.Context) error { // again if it ends by itself, as its unit would
			for {
				m, err := master.New(master.Options{
					ID: name, DataDir: filepath.Join(s.dir, name), NATS: c.URL(), Replicas: 3, Connect: c.Options(grants.RoleMaster, name),
					Ready: func(master.Info) { began() },
				})
				if err == nil {
					err = m.Run(ctx)
				}
				if ctx.Err() != nil {
					return err
				}
				t.Logf("master %s has ended and is started again: %v", name, err)
			}
		})
	}
	ready.Wait()
	f(s, c, s.clusterPeels(c))
}

// clusterPeels starts peels and waits until all have told their facts.
func (s *site) clusterPeels(c *natstest.Cluster) []target.PeelID {
	s.t.Helper()
	told := make(chan *nats.Msg, clusterPeels)
	sub, err := s.js.Conn().ChanSubscribe(wire.AllFacts, told)
	if err != nil {
		s.t.Fatal(err)
	}
	c.Spread(s.js.Conn())
	defer func() { _ = sub.Unsubscribe() }()
	var ids []target.PeelID
	for i := range clusterPeels {
		id := target.PeelID(fmt.Sprintf("p%02d", i))
		p, err := peel.New(peel.Options{
			ID: id, DataDir: filepath.Join(s.dir, string(id)), URL: c.URL(), Simulated: true, Zone: time.UTC,
			Log:     slog.New(listener{begun: &s.begun, peel: id}),
			Connect: c.Options(grants.RolePeel, id.Wire()),
		})
		if err != nil {
			s.t.Fatal(err)
		}
		s.process(p.Run)
		ids = append(ids, id)
	}
	for heard := map[string]bool{}; len(heard) < clusterPeels; {
		heard[(<-told).Subject] = true
	}
	return ids
}

// ended waits until a job has ended and is not live, which is the last thing that happens to it.
func (s *site) ended(jid wire.JID) {
	s.t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
		active, err := s.store.LiveIDs(s.t.Context())
		if err == nil && !active[jid] {
			return
		}
	}
	s.t.Fatalf("%s has not ended", jid)
}

// confirmed waits until the stream has what all targets returned. Masters hear a return that the stream did not confirm,
// which its peel sends again.
func (s *site) confirmed(jid wire.JID, targets int) {
	s.t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
		if h := s.history()[jid]; h != nil && len(h.returns) == targets {
			return
		}
	}
	s.t.Errorf("returns of %s are not in the stream", jid)
}

// losses are leaders of streams that are lost at a moment of a job.
var losses = []struct {
	stream string
	at     moment
}{
	{"KV_active", moment{wire.DispatchOf("*"), 1}},
	{"job-events", moment{wire.Cmd("*"), clusterPeels / 2}},
	{"KV_job-returns", moment{wire.ReturnOf("*", "*"), 2}},
}

// through runs a job to its end, which has to be a success, and waits for what happened meanwhile.
func (s *site) through(c *natstest.Cluster, ids []target.PeelID, meanwhile *sync.WaitGroup) {
	s.t.Helper()
	c.Spread(s.js.Conn())
	spec := nap(200*time.Millisecond, ids...)
	s.insist(spec)
	meanwhile.Wait()
	s.ended(spec.JID)
	c.Settle(s.js)
	s.confirmed(spec.JID, len(ids))
	s.check(0, spec.JID)
	if j := s.record(spec.JID); j.Status != job.Complete {
		s.t.Errorf("the job is %s: %+v", j.Status, s.rows(spec.JID))
	}
}

func TestStreamsChangeTheirLeadersDuringAJob(t *testing.T) {
	atCluster(t, func(s *site, c *natstest.Cluster, ids []target.PeelID) {
		var lost sync.WaitGroup
		for _, loss := range losses {
			lost.Add(1)
			s.at(loss.at, func() {
				go func() {
					defer lost.Done()
					if _, err := s.js.Conn().Request("$JS.API.STREAM.LEADER.STEPDOWN."+loss.stream, nil, time.Minute); err != nil {
						t.Error(err)
					}
				}()
			})
		}
		s.through(c, ids, &lost)
	})
}

func TestServersThatLeadStreamsStopDuringAJob(t *testing.T) {
	if !*long {
		t.Skip("it takes a minute of real time; -faults.long runs it")
	}
	atCluster(t, func(s *site, c *natstest.Cluster, ids []target.PeelID) {
		for _, loss := range losses {
			leader := c.Leader(s.js, loss.stream)
			var lost sync.WaitGroup
			lost.Add(1)
			off := s.at(loss.at, func() {
				go func() {
					defer lost.Done()
					c.Stop(leader)
				}()
			})
			s.through(c, ids, &lost)
			off()
			c.Start(leader)
		}
	})
}
