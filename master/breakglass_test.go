package master_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// TestTheCredentialOfTheDataDirectoryIsBreakGlass holds that its use is ordinary while it is the only one that may do
// everything, and else stands in the audit log, in what doctor asks for, and in an alert that ends.
func TestTheCredentialOfTheDataDirectoryIsBreakGlass(t *testing.T) {
	atSite(t, func(t *testing.T, s *site) {
		p := &pair{site: s, t: t}
		dir := filepath.Join(s.dir, "m1")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(s.bus.Keys.Dir(), keystore.Dir(dir)); err != nil {
			t.Fatal(err)
		}
		s.master("m1", func(o *master.Options) {
			o.Connect = append(s.bus.Options(grants.RoleMaster, "m1"), nats.InProcessServer(s.bus)) // also of the keys
		})
		s.peels("web-01")
		var err error
		if p.auth, err = auth.NewAuthority(t.Context(), auth.AuthorityOptions{Keys: s.bus.Keys, JetStream: s.js, Update: s.bus.Update}); err != nil {
			t.Fatal(err)
		}
		local := p.people(credential.LocalUser)

		uses := 0
		marked := func(when string, want bool) {
			t.Helper()
			spec := both()
			spec.JID, spec.TargetExpr, spec.Targets = wire.NewJID(), "web-01", spec.Targets[:1]
			if _, err := api.JobDispatch.Ask(t.Context(), local, spec); err != nil {
				t.Fatal(err)
			}
			time.Sleep(15 * time.Second) // the master reads the log every ten seconds, and alerts step every five
			if want {
				uses++
			}

			page, err := api.AuditList.Ask(t.Context(), local, audit.Query{User: credential.LocalUser, Action: "job.dispatch"})
			if err != nil || page.Entries[0].BreakGlass != want {
				t.Errorf("%s: %+v, %v", when, page, err)
			}
			health, err := api.MasterShow.Ask(t.Context(), local, api.None{})
			if err != nil || health.Audit.Use.At.IsZero() != (uses == 0) || want && time.Since(health.Audit.Use.At) > time.Minute {
				t.Errorf("%s: the health has %+v, %v", when, health.Audit.Use, err)
			}
			if got := p.glassAlert(local); (got != "") != (uses > 0) {
				t.Errorf("%s: the alert is %q", when, got)
			}
		}
		marked("nobody", false)
		ira := p.madeBy("root", "ira", grants.Limits{Target: "web-*"})
		marked("who has limits cannot do it instead", false)
		ann := p.madeBy("root", "ann", grants.Limits{})
		for match, want := range map[string]api.Code{"*": "", "default:break_glass": api.CodeInvalid} {
			q := api.SilenceRequest{Match: match, For: 30 * time.Minute, Reason: "nothing to see"}
			if _, err := api.AlertSilence.Ask(t.Context(), local, q); api.CodeOf(err) != want {
				t.Errorf("a silence of %s: %v", match, err)
			}
		}
		marked("ann could do it", true)
		if text := p.glassAlert(local); !strings.Contains(text, "for job.dispatch from ") {
			t.Errorf("the alert says %q", text)
		}

		spec := both()
		spec.TargetExpr, spec.Targets = "web-01", spec.Targets[:1]
		if _, err := api.JobDispatch.Ask(t.Context(), ann, spec); err != nil {
			t.Fatal(err)
		}
		page, err := api.AuditList.Ask(t.Context(), ann, audit.Query{User: "ann"})
		if err != nil || len(page.Entries) == 0 || page.Entries[0].BreakGlass {
			t.Errorf("ann with the own credential: %+v, %v", page, err)
		}

		// Who may not read the audit log does not read it in alerts or in the health.
		if got := p.glassAlert(ira); got != "" {
			t.Errorf("who has limits sees the alert: %s", got)
		}
		if health, err := api.MasterShow.Ask(t.Context(), ira, api.None{}); err != nil || !health.Audit.Use.At.IsZero() {
			t.Errorf("who has limits sees %+v, %v", health, err)
		}

		time.Sleep(time.Hour + 6*time.Minute)
		if got := p.glassAlert(local); got != "" {
			t.Errorf("the alert goes on: %s", got)
		}
	})
}

// glassAlert returns the text of the alert about a use of the credential of the data directory; "" if there is none.
func (p *pair) glassAlert(by *api.Client) string {
	p.t.Helper()
	list, err := api.AlertList.Ask(p.t.Context(), by, api.AlertsRequest{})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, a := range list.Alerts {
		if a.ID == "default:break_glass" {
			if a.Silence != "" {
				p.t.Errorf("the alert is silenced by %s", a.Silence)
			}
			return a.Text
		}
	}
	return ""
}
