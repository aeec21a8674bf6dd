package rest_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Who tries what a stolen token opens leaves entries, also where no service was asked.
func TestRefusedRequestsAreInTheAuditLog(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.stop()
		log := audit.OpenLog(s.js, quiet)
		s.backend.Audit = log
		s.serve()
		s.peel("web-01", nil, nil)
		reader, admin := s.reader(), s.admin()
		first := job.Spec{JID: wire.NewJID()}
		for _, c := range []struct {
			token, method, path string
			body                any
			status              int
			want                string
		}{
			{reader, "POST", "/api/v1/jobs", aDispatch, 403, "token:reader rest.post /api/v1/jobs"},
			{reader, "DELETE", "/api/v1/schedules/1", nil, 403, "token:reader rest.delete /api/v1/schedules/1"},
			{reader, "POST", "/api/v1/schedules/1/pause", nil, 403, "token:reader rest.post /api/v1/schedules/1/pause"},
			{admin, "POST", "/api/v1/jobs", object{"target": "web-*", "function": "test.ping", "expect": 2}, 409, "token:admin job.dispatch web-*"},
			{admin, "POST", "/api/v1/jobs", object{"target": "db-*", "function": "test.ping"}, 400, "token:admin job.dispatch db-*"},
			{admin, "POST", "/api/v1/jobs", object{"target": "G@", "function": "test.ping"}, 400, "token:admin job.dispatch G@"},
			{admin, "POST", "/api/v1/jobs", object{"target": "web-*", "function": "test.ping", "timeout": "soon"}, 400, "token:admin job.dispatch web-*"},
			{admin, "POST", "/api/v1/jobs", object{"target": "web-*", "function": "test.ping", "jid": string(first.JID)}, 202, "token:admin job.dispatch web-*"},
			{admin, "POST", "/api/v1/jobs", object{"target": "web-*", "function": "cmd.run", "jid": string(first.JID)}, 409, "token:admin job.dispatch web-*"},
			{admin, "POST", "/api/v1/jobs", object{"target": "web-*"}, 400, "token:admin rest.post /api/v1/jobs"},
			{admin, "POST", "/api/v1/jobs/" + string(wire.NewJID()) + "/cancel", nil, 404, "token:admin job.cancel "},
		} {
			before, err := log.List(t.Context(), audit.Query{})
			if err != nil {
				t.Fatal(err)
			}
			if a := s.ask(c.token, c.method, c.path, c.body); a.status != c.status {
				t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.body)
			}
			page, err := log.List(t.Context(), audit.Query{})
			if err != nil || len(page.Entries) != len(before.Entries)+1 {
				t.Errorf("%s %s %v: %d entries, %v", c.method, c.path, c.body, len(page.Entries)-len(before.Entries), err)
				continue
			}
			e := page.Entries[0]
			if got := fmt.Sprintf("%s %s %s", e.User, e.Action, e.Target); got != c.want || e.From != "192.0.2.1" || (e.Result == audit.Refused) != (c.status != 202) || c.status != 202 && e.Reason == "" {
				t.Errorf("%s %s: %+v", c.method, c.path, e)
			}
		}
		before, _ := log.List(t.Context(), audit.Query{})
		s.ask(reader, "GET", "/api/v1/jobs/none", nil)
		s.ask("", "POST", "/api/v1/jobs", aDispatch)
		if after, _ := log.List(t.Context(), audit.Query{}); len(after.Entries) != len(before.Entries) {
			t.Errorf("readers and strangers have entries: %+v", after.Entries[0])
		}
	})
}

// A token for an assistant opens /mcp alone, whatever its other scopes open.
func TestATokenOfAnAssistantOpensNoOtherRoute(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		robot := s.token(credential.TokenRequest{Name: "robot", Scopes: []credential.Scope{credential.ScopeMCP, credential.ScopeRead, credential.ScopeDispatch}})
		for _, r := range slices.Concat(everyRoute, ownJob) {
			if a := s.ask(robot, r.method, r.path, r.body); a.status != 403 {
				t.Errorf("%s %s: %d %s", r.method, r.path, a.status, a.body)
			}
			time.Sleep(time.Second) // as many as a token may ask
		}
		for _, scopes := range [][]credential.Scope{{credential.ScopeMCP}, {credential.ScopeMCP, credential.ScopeAdmin}, {credential.ScopeMCP, credential.ScopeRead, credential.ScopeSync}, {credential.ScopeMetrics, credential.ScopeRead}, {credential.ScopeMCP, credential.ScopeRead, credential.ScopeMetrics}} {
			q := credential.TokenRequest{Name: "odd", Scopes: scopes}
			if q.CheckScopes() == nil {
				t.Errorf("a token with %v can be made", scopes)
			}
		}
	})
}

// A master that died after it claimed a job has dispatched nothing. The repeated request does it.
func TestARepeatedRequestDispatchesAJobThatIsOnlyClaimed(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.peel("web-01", nil, echo("web-01"))
		admin := s.admin()
		spec := job.Spec{JID: wire.NewJID(), Function: "test.ping", TargetExpr: "web-01", Targets: []target.PeelID{"web-01"}}
		if err := spec.Normalize(time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := s.backend.Store.Create(t.Context(), job.FromDispatch(spec, "token:admin", "m1", time.Now())); err != nil {
			t.Fatal(err)
		}
		if a := s.ask(admin, "POST", "/api/v1/jobs", object{"jid": string(spec.JID), "target": "web-01", "function": "test.ping"}); a.status != 202 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		time.Sleep(5 * time.Second)
		if j, err := s.backend.Store.Get(t.Context(), spec.JID); err != nil || j.Status != job.Complete {
			t.Errorf("%+v, %v", j, err)
		}
	})
}
