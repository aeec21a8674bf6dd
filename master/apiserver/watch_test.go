package apiserver_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestWhoWatchesLaterSeesEveryReturnOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		slow := func(id target.PeelID, after time.Duration) {
			s.peel(id, nil, func(nc *nats.Conn, r wire.Request) {
				time.AfterFunc(after, func() { pong(id)(nc, r) })
			})
		}
		ids := []target.PeelID{"p0", "p1", "p2"}
		slow("p0", 0)
		slow("p1", 8*time.Second)
		slow("p2", time.Hour)
		alice, bob := s.client(grants.RoleOperator, "alice"), s.client(grants.RoleOperator, "bob")
		spec := job.Spec{JID: wire.NewJID(), Function: "test.ping", Targets: ids, Timeout: 20 * time.Second}
		if _, err := api.JobDispatch.Ask(t.Context(), alice, spec); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		for _, when := range []string{"while it runs", "after its end"} {
			for _, c := range []*api.Client{alice, bob} {
				f, err := c.Watch(spec.JID)
				if err != nil {
					t.Fatal(err)
				}
				returns, _, ended, err := collect(t.Context(), f)
				f.Close()
				if err != nil || !slices.Equal(returns, ids[:2]) || ended == nil || ended.Status != job.Partial {
					t.Errorf("%s: %v, %+v, %v", when, returns, ended, err)
				}
			}
		}
		f, err := bob.Watch(wire.NewJID())
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		_, _, _, err = collect(t.Context(), f)
		wantCode(t, err, api.CodeNotFound)
	})
}

// TestAFollowerHearsWhatIsStored has no master: the return comes from the stream of the bucket alone.
func TestAFollowerHearsWhatIsStored(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		jid := wire.NewJID()
		f, err := s.client(grants.RoleOperator, "alice").Follow(jid, []target.PeelID{"p.0", "p1"})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, id := range []target.PeelID{"stranger", "p.0"} {
			data, err := canon.Marshal(wire.Return{JID: jid, Peel: id, Result: wire.Result{Success: true}, V: wire.Version})
			if err == nil {
				_, err = s.bus.JetStream(t).PublishMsg(t.Context(), job.ReturnMessage(jid, id, data))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if returns, _, _, err := collect(ctx, f); !slices.Equal(returns, []target.PeelID{"p.0"}) {
			t.Errorf("%v, %v", returns, err)
		}
	})
}

// TestAScheduledJobHasEndedForWhoWatchesIt is about records that are final from the beginning.
func TestAScheduledJobHasEndedForWhoWatchesIt(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		j := &job.Job{
			Spec: job.Spec{
				JID: wire.NewJID(), Function: "test.ping", Targets: []target.PeelID{"p0"},
				Metadata: map[string]string{job.MetaSource: job.SourceSchedule},
			},
			TargetCount: 1,
		}
		j.Finish(job.End{Targets: 1, Returned: 1, Succeeded: 1}, time.Now())
		returned, err := canon.Marshal(wire.Return{JID: j.JID, Peel: "p0", Result: wire.Result{Success: true}, V: wire.Version})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s.store.CreateEnded(ctx, []job.Ended{{Job: j, Return: returned}}, func(_ int, e error) { err = e })
		if err != nil {
			t.Fatal(err)
		}
		f, err := s.client(grants.RoleOperator, "alice").Watch(j.JID)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		returns, _, ended, err := collect(ctx, f)
		if err != nil || !slices.Equal(returns, j.Targets) || ended == nil || ended.Status != job.Complete {
			t.Errorf("%v, %+v, %v", returns, ended, err)
		}
	})
}

func TestACancelIsOfTheOneWhoAsksAndAnsweredOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		s.peel("p0", nil, nil)
		alice, bob := s.client(grants.RoleOperator, "alice"), s.client(grants.RoleOperator, "bob")
		spec := job.Spec{JID: wire.NewJID(), Function: "test.ping", Targets: []target.PeelID{"p0"}, Timeout: time.Minute}
		if _, err := api.JobDispatch.Ask(t.Context(), alice, spec); err != nil {
			t.Fatal(err)
		}
		if a, err := api.JobActive.Ask(t.Context(), bob, api.None{}); err != nil || len(a.Jobs) != 1 || a.Jobs[0].JID != spec.JID || a.Total != 1 {
			t.Errorf("%+v, %v", a, err)
		}
		if j, err := api.JobCancel.Ask(t.Context(), bob, api.JobRequest{JID: spec.JID}); err != nil || j.Cancel == nil || j.Cancel.By != "bob" || j.User != "alice" {
			t.Errorf("%+v, %v", j, err)
		}
		_, err := api.JobCancel.Ask(t.Context(), alice, api.JobRequest{JID: spec.JID})
		wantCode(t, err, api.CodeConflict)
		_, err = api.JobCancel.Ask(t.Context(), alice, api.JobRequest{JID: wire.NewJID()})
		wantCode(t, err, api.CodeNotFound)
		_, err = api.JobCancel.Ask(t.Context(), s.client(grants.RoleAuditor, "eve"), api.JobRequest{JID: spec.JID})
		wantCode(t, err, api.CodeDenied)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if j, err := api.JobShow.Ask(t.Context(), bob, api.JobRequest{JID: spec.JID}); err != nil || j.Status != job.Canceled {
			t.Errorf("%+v, %v", j, err)
		}
		_, err = api.JobCancel.Ask(t.Context(), alice, api.JobRequest{JID: spec.JID})
		wantCode(t, err, api.CodeConflict)
		if a, err := api.JobActive.Ask(t.Context(), bob, api.None{}); err != nil || len(a.Jobs) != 0 {
			t.Errorf("%+v, %v", a, err)
		}
	})
}
