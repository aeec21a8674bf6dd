package reconciler

import (
	"context"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// TestWhatPeopleDoIsInTheAuditLog does with jobs and tokens what can be done, and reads it back.
func TestWhatPeopleDoIsInTheAuditLog(t *testing.T) {
	dir := t.TempDir()
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		work, err := worktree.Init(filepath.Join(dir, "work"), fstest.MapFS{"top.yaml": text("base:\n  '*': [all]\n"), "settings/all.yaml": text("a: 1\n")}, "first", ada)
		if err != nil {
			t.Fatal(err)
		}
		s := &soak{t: t, bus: bus, dir: dir, work: work}
		s.begin()
		s.ids = []target.PeelID{"host-1"}
		s.peel(0)
		time.Sleep(time.Minute)
		spec := job.Spec{JID: wire.NewJID(), Function: "test.ping", Targets: []target.PeelID{"gone", "host-1"}, TargetExpr: "host-1 or gone", Timeout: time.Hour}
		q := credential.TokenRequest{Name: "ci", Scopes: []credential.Scope{credential.ScopeRead}}
		for _, did := range []struct {
			action, target string
			count          int
			result         audit.Result
			do             func(context.Context, *api.Client) error
		}{
			{"job.dispatch", "host-1 or gone", 2, audit.Done, func(ctx context.Context, c *api.Client) error {
				_, err := api.JobDispatch.Ask(ctx, c, spec)
				return err
			}},
			{"job.cancel", "", 0, audit.Done, func(ctx context.Context, c *api.Client) error {
				_, err := api.JobCancel.Ask(ctx, c, api.JobRequest{JID: spec.JID})
				return err
			}},
			{"token.create", "ci", 0, audit.Done, func(ctx context.Context, c *api.Client) error { _, _, err := c.TokenCreate(ctx, q); return err }},
			{"token.create", "ci", 0, audit.Refused, func(ctx context.Context, c *api.Client) error { _, _, err := c.TokenCreate(ctx, q); return err }},
			{"token.rotate", "ci", 0, audit.Done, func(ctx context.Context, c *api.Client) error { _, _, err := c.TokenRotate(ctx, q); return err }},
			{"token.revoke", "ci", 0, audit.Done, func(ctx context.Context, c *api.Client) error {
				_, err := api.TokenRevoke.Ask(ctx, c, api.TokenName{Name: "ci"})
				return err
			}},
			{"peel.rekey", "host-1", 0, audit.Refused, func(ctx context.Context, c *api.Client) error {
				_, err := api.PeelRekey.Ask(ctx, c, api.PeelKey{Peel: "host-1", Key: "X"})
				return err
			}},
		} {
			began := time.Now().UTC()
			if err := did.do(t.Context(), s.client); (err == nil) != (did.result == audit.Done) {
				t.Fatalf("%s: %v", did.action, err)
			}
			page, err := api.AuditList.Ask(t.Context(), s.client, audit.Query{Action: did.action})
			if err != nil || len(page.Entries) == 0 {
				t.Errorf("%s: not in the log, %v", did.action, err)
				continue
			}
			e := page.Entries[0]
			if e.User != "alice" || e.Role != grants.RoleOperator || e.Target != did.target && did.target != "" || e.Count != did.count || e.Result != did.result || e.Time.Before(began) {
				t.Errorf("%s is told as %+v", did.action, e)
			}
		}
	})
}
