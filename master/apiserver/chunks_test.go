package apiserver_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// TestReadsOfAJobDoNotReadAllItsTargets counts how many chunks of 4,000 targets are read for the answers that are asked for
// most.
func TestReadsOfAJobDoNotReadAllItsTargets(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		c := s.client(grants.RoleOperator, "alice")
		reads := 0
		ear := s.bus.Conn(t, grants.RoleMaster, "ear")
		for _, subject := range []string{"$JS.API.STREAM.MSG.GET.>", "$JS.API.DIRECT.GET.>"} {
			if _, err := ear.Subscribe(subject, func(msg *nats.Msg) {
				if strings.Contains(msg.Subject+string(msg.Data), ".targets.") {
					reads++
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := ear.Flush(); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{600, 2000, 9000} {
			ids := make([]target.PeelID, n)
			for i := range ids {
				ids[i] = target.PeelID(fmt.Sprintf("p%05d", i))
			}
			spec := job.Spec{JID: wire.NewJID(), Function: "test.ping", Targets: ids, Timeout: time.Minute}
			j := job.FromDispatch(spec, "alice", "m0", time.Now())
			if err := s.store.Create(t.Context(), j); err != nil {
				t.Fatal(err)
			}
			check := func(what string, want int, do func() error) {
				t.Helper()
				synctest.Wait()
				reads = 0
				if err := do(); err != nil {
					t.Fatal(err)
				}
				if synctest.Wait(); reads != want {
					t.Errorf("%s of a job of %d targets reads %d chunks, want %d", what, n, reads, want)
				}
			}
			check("the record", 0, func() error {
				shown, err := api.JobShow.Ask(t.Context(), c, api.JobRequest{JID: j.JID})
				if err == nil && (shown.TargetCount != n || len(shown.Targets) != 0) {
					t.Errorf("the job shows %d of %d targets, counted %d", len(shown.Targets), n, shown.TargetCount)
				}
				return err
			})
			check("the last page of rows", 1, func() error {
				page, err := s.store.Rows(t.Context(), j.JID, ids[n-10])
				if err == nil && len(page.Rows) != 9 {
					t.Errorf("%d rows", len(page.Rows))
				}
				return err
			})
			check("a page of jobs by target", 1, func() error {
				_, err := s.store.List(t.Context(), job.Query{Target: ids[5], Limit: 1})
				return err
			})
			time.Sleep(time.Second)
		}
	})
}
