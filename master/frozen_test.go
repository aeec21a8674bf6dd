package master_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
)

func TestCommandsAreAnsweredWhileAMasterIsFrozen(t *testing.T) {
	atSite(t, func(t *testing.T, s *site) {
		m1 := s.master("m1")
		s.master("m2")
		s.master("m3")
		s.peels("a", "b")
		bob := s.people("bob")
		m1.freeze()
		failed := 0
		var jids []wire.JID
		for range 10 {
			spec := ping("a", "b")
			if _, err := api.JobDispatch.Ask(t.Context(), bob, spec); err != nil {
				t.Error(err)
				failed++
				continue
			}
			jids = append(jids, spec.JID)
			if _, err := api.JobShow.Ask(t.Context(), bob, api.JobRequest{JID: spec.JID}); err != nil {
				t.Error(err)
				failed++
			}
			if _, err := bob.Peels(t.Context(), "*"); err != nil {
				t.Error(err)
				failed++
			}
		}
		t.Logf("%d of 30 commands failed", failed)
		m1.thaw() // and takes up what it was asked
		time.Sleep(2 * time.Minute)
		s.check(recovery, jids...)
		for _, jid := range jids {
			if j := s.record(jid); j.Status != job.Complete {
				t.Errorf("%+v", j)
			}
		}
	})
}

func TestTheNextLeaderIsWaitedFor(t *testing.T) {
	atSite(t, func(t *testing.T, s *site) {
		s.master("m1")
		bob := s.people("bob")
		if _, err := api.SyncStatus.Ask(t.Context(), bob, api.None{}); err == nil || !strings.Contains(err.Error(), "no master runs with a config repo") {
			t.Errorf("where nobody ever led: %v", err)
		}
		leases, err := s.js.KeyValue(t.Context(), "leases")
		if err == nil {
			_, err = leases.Put(t.Context(), "reconciler", []byte("m0"))
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := api.SyncStatus.Ask(t.Context(), bob, api.None{}); err == nil || strings.Contains(err.Error(), "config repo") {
			t.Errorf("where a leader has just died: %v", err)
		}
		if _, err = leases.Put(t.Context(), "reconciler", []byte("m0")); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(18*time.Second, func() {
			if _, err := s.js.Conn().Subscribe(wire.API("sync", "status", "bob"), func(msg *nats.Msg) {
				data, err := canon.Marshal(status.Sync{Branch: "main"})
				if err == nil {
					err = msg.Respond(data)
				}
				if err != nil {
					t.Error(err)
				}
			}); err != nil {
				t.Error(err)
			}
		})
		if found, err := api.SyncStatus.Ask(t.Context(), bob, api.None{}); err != nil || found.Branch != "main" {
			t.Errorf("the next leader was not waited for: %+v, %v", found, err)
		}
	})
}
