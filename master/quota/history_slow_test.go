//go:build slow

package quota_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/quota"
	"github.com/seed-c01c3da5/zester/master/results"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// masters runs what of a master works on jobs, until the test ends.
func (s *system) masters() (*job.Store, *dispatch.Dispatcher) {
	s.t.Helper()
	nc := s.bus.Conn(s.t, grants.RoleMaster, "m1", nats.ReconnectBufSize(-1))
	js, err := jetstream.New(nc)
	if err != nil {
		s.t.Fatal(err)
	}
	store, err := job.NewStore(s.t.Context(), js)
	if err != nil {
		s.t.Fatal(err)
	}
	dispatcher, err := dispatch.New(dispatch.Options{Conn: nc, Store: store, Owner: "m1"})
	if err != nil {
		s.t.Fatal(err)
	}
	trimmer := quota.New(quota.Options{JetStream: js, Live: store.LiveIDs})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{dispatcher.Run, results.New(results.Options{JetStream: js, Store: store}).Run, trimmer.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				s.t.Error(err)
			}
		})
	}
	s.t.Cleanup(func() { cancel(); running.Wait() })
	synctest.Wait()
	return store, dispatcher
}

// peel connects a peel that succeeds with each request at once, and returns a function by which it says something.
func (s *system) peel(id target.PeelID) (say func(subject string, v any)) {
	s.t.Helper()
	nc := s.bus.Conn(s.t, grants.RolePeel, id.Wire())
	say = func(subject string, v any) {
		data, err := canon.Marshal(v)
		if err == nil {
			err = nc.Publish(subject, data)
		}
		if err != nil {
			s.t.Error(err)
		}
	}
	_, err := nc.Subscribe(wire.Cmd(id.Wire()), func(m *nats.Msg) {
		r, err := wire.DecodeRequest(m)
		if err != nil {
			s.t.Error(err)
			return
		}
		say(wire.AckOf(r.JID, id.Wire()), wire.Ack{JID: r.JID, Peel: id, Epoch: r.Epoch, Time: time.Now(), V: wire.Version})
		say(wire.ReturnOf(r.JID, id.Wire()), wire.Return{
			JID: r.JID, Peel: id, Result: wire.Result{Success: true, Data: string(id)}, Epoch: r.Epoch, Finished: time.Now(), V: wire.Version,
		})
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return say
}

// TestScheduledRunsTakeNothingFromALiveJob has streams that four hours of scheduled runs fill five times while a job waits a day
// for targets that are away. What it had at its beginning is whole at its end.
func TestScheduledRunsTakeNothingFromALiveJob(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		const most = 700
		s.limit("KV_jobs", most, 1<<30)
		s.limit("job-events", 2*most, 1<<30)
		s.limit(returns, most, 1<<30)
		store, dispatcher := s.masters()
		targets := []target.PeelID{"early", "late", "noon"}
		for i := range 600 { // more than a record holds itself
			targets = append(targets, target.PeelID(fmt.Sprintf("away-%03d", i)))
		}
		slices.Sort(targets)
		s.peel("early")
		spec := job.Spec{JID: wire.NewJID(), Function: "test.ping", Targets: targets, TargetExpr: "*", Timeout: time.Minute, WhenOnline: 24 * time.Hour}
		if _, err := dispatcher.Submit(t.Context(), spec, "ada"); err != nil {
			t.Fatal(err)
		}
		var web []func(string, any) // so many that each has less than its share
		for i := range 100 {
			web = append(web, s.peel(target.PeelID(fmt.Sprint("web-", i))))
		}
		n, last := 0, wire.JID("")
		const hours = 4
		for minute := range hours * 60 {
			switch minute {
			case 60:
				s.peel("noon")(wire.Fact("noon"), wire.Facts{Peel: "noon", V: wire.Version})
			case 3 * 60:
				s.peel("late")(wire.Fact("late"), wire.Facts{Peel: "late", V: wire.Version})
			}
			for range 16 {
				peel := n % len(web)
				n, last = n+1, wire.NewJID()
				now, id := time.Now(), target.PeelID(fmt.Sprint("web-", peel))
				web[peel](wire.ScheduledOf(last, id.Wire()), wire.ScheduledResult{
					JID: last, Peel: id, Entry: "e", Trigger: wire.TriggerTimer, Function: "test.ping", Result: wire.Result{Success: true},
					Nominal: now, Fired: now, Started: now, Finished: now, V: wire.Version,
				})
			}
			time.Sleep(time.Minute)
		}
		time.Sleep((24-hours)*time.Hour - 10*time.Minute)
		for _, at := range []struct {
			when   string
			status job.Status
		}{{"before the end", job.Running}, {"at the end", job.Partial}} {
			j, err := store.Get(t.Context(), spec.JID)
			if err != nil {
				t.Fatalf("%s: %v", at.when, err)
			}
			if j.Status != at.status || !slices.Equal(j.Targets, targets) {
				t.Errorf("%s the job is %s and has %d targets of %d", at.when, j.Status, len(j.Targets), len(targets))
			}
			page, err := store.Rows(t.Context(), spec.JID, "")
			if err != nil {
				t.Fatalf("%s: %v", at.when, err)
			}
			for _, row := range page.Rows {
				if r := row.Return; slices.Contains([]target.PeelID{"early", "noon", "late"}, row.Peel) && (r == nil || !r.Success || r.Data != string(row.Peel)) {
					t.Errorf("%s the return of %s is %+v", at.when, row.Peel, r)
				}
			}
			time.Sleep(15 * time.Minute)
		}
		j, err := store.Get(t.Context(), last)
		if err != nil || j.Status != job.Complete {
			t.Errorf("the last scheduled run is %+v, %v", j, err)
		}
		for name, lost := range map[string]uint64{"KV_jobs": 5, returns: 5} {
			if st := s.state(name); st.LastSeq < lost*most {
				t.Errorf("%s has got %d messages, which do not fill it %d times", name, st.LastSeq, lost)
			}
		}
	})
}
