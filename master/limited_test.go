package master_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// limited connects as an operator with limits, made by an authority as a master with keys makes it.
func (s *site) limited(name string, limits grants.Limits) *api.Client {
	s.t.Helper()
	a, err := auth.NewAuthority(s.t.Context(), auth.AuthorityOptions{Keys: s.bus.Keys, JetStream: s.js, Update: s.bus.Update})
	if err != nil {
		s.t.Fatal(err)
	}
	key, err := credential.MakeKey()
	if err != nil {
		s.t.Fatal(err)
	}
	role := grants.RoleOperator
	if limits.Target != "" || len(limits.Functions) > 0 {
		role = grants.RoleLimited
	}
	token, _, err := a.Users.Add(s.t.Context(), credential.UserRequest{Name: name, Role: grants.RoleOperator, Limits: limits, Public: key.Public()}, "alice")
	if err != nil {
		s.t.Fatal(err)
	}
	creds, err := key.Creds(token)
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := api.Connect(api.ClientOptions{URL: s.bus.URL(), Creds: creds, Connect: []nats.Option{
		nats.InProcessServer(s.bus), nats.CustomInboxPrefix(role.Inbox(name)),
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// give publishes settings for a peel.
func (s *site) give(id target.PeelID, values map[string]any) {
	s.t.Helper()
	raw, err := canon.Marshal(values)
	if err != nil {
		s.t.Fatal(err)
	}
	doc := &settings.Document{V: settings.OpenVersion, Peel: id, Generation: 1, Digest: settings.DigestOf(raw), Settings: raw}
	if _, err := settings.NewStore(s.js).Publish(s.t.Context(), slices.Values([]settings.Write{{Document: doc}})); err != nil {
		s.t.Fatal(err)
	}
}

// A caller who may select by a setting finds out its value by trying, so the limits for settings.get hold for I@ and J@.
func TestTargetsDoNotShowSettingsOutsideTheLimitsOfACaller(t *testing.T) {
	atSite(t, func(t *testing.T, s *site) {
		s.master("m1")
		s.peels("web-01", "db-01")
		for _, id := range []target.PeelID{"web-01", "db-01"} {
			s.give(id, map[string]any{"pin": 42})
		}
		within := s.limited("lee", grants.Limits{Target: "web-*"})
		never := s.limited("kim", grants.Limits{Functions: []string{"test.*"}})
		for n := range 100 {
			for _, expr := range []string{fmt.Sprintf("I@pin:%d", n), fmt.Sprintf("db-01 and not I@pin:%d", n)} {
				r, err := within.Resolve(t.Context(), expr)
				if err != nil || slices.Contains(r.Peels, "db-01") {
					t.Fatalf("%s: lee learns of db-01: %+v, %v", expr, r, err)
				}
				peels, err := within.Peels(t.Context(), expr)
				if err != nil || slices.ContainsFunc(peels, func(p api.Peel) bool { return p.ID == "db-01" }) {
					t.Fatalf("%s: lee learns of db-01: %+v, %v", expr, peels, err)
				}
			}
		}
		if r, err := within.Resolve(t.Context(), "I@pin:42"); err != nil || !slices.Equal(r.Peels, []target.PeelID{"web-01"}) {
			t.Errorf("lee within the limits: %+v, %v", r, err)
		}
		if r, err := within.Resolve(t.Context(), "*"); err != nil || !slices.Equal(r.Peels, []target.PeelID{"web-01"}) {
			t.Errorf("without settings: %+v, %v", r, err)
		}
		if _, err := api.TargetExplain.Ask(t.Context(), within, api.ExplainRequest{Expr: "I@pin:42"}); api.CodeOf(err) != api.CodeForbidden {
			t.Errorf("lee has it explained: %v, %v", api.CodeOf(err), err)
		}
		if _, err := never.Resolve(t.Context(), "I@pin:42"); api.CodeOf(err) != api.CodeForbidden {
			t.Errorf("kim, who may not run settings.get: %v", err)
		}
		bob := s.people("bob")
		if r, err := bob.Resolve(t.Context(), "I@pin:42"); err != nil || len(r.Peels) != 2 {
			t.Errorf("bob, without limits: %+v, %v", r, err)
		}
	})
}

// TestAnEntryIsStartedByWhoMayRunItsFunction holds for limits on functions, which schedule.run would otherwise pass by.
func TestAnEntryIsStartedByWhoMayRunItsFunction(t *testing.T) {
	atSite(t, func(t *testing.T, s *site) {
		s.master("m1")
		s.peels("web-01", "web-02")
		entries := func(module string) map[string]any {
			return map[string]any{"schedule": map[string]any{
				"backup": map[string]any{"module": "test.ping", "interval": "1h"},
				"mixed":  map[string]any{"module": module, "interval": "1h", "args": map[string]any{"command": "id"}},
			}}
		}
		s.give("web-01", entries("cmd.run"))
		s.give("web-02", entries("test.ping"))
		lee := s.limited("lee", grants.Limits{Functions: []string{"test.*", "schedule.run"}})
		web := s.limited("web", grants.Limits{Target: "web-*"})
		both := []target.PeelID{"web-01", "web-02"}
		for _, c := range []struct {
			who   *api.Client
			entry string
			on    []target.PeelID
			code  api.Code
		}{
			{lee, "backup", both, ""},
			{lee, "mixed", both[1:], ""},
			{lee, "mixed", both, api.CodeForbidden},
			{lee, "of-peel-yaml", both, api.CodeForbidden},
			{web, "mixed", both, ""},
			{web, "of-peel-yaml", both, ""},
		} {
			spec := job.Spec{
				JID: wire.NewJID(), Function: "schedule.run", Targets: c.on, TargetExpr: "*", Args: map[string]any{"entry": c.entry},
			}
			if _, err := api.JobDispatch.Ask(t.Context(), c.who, spec); api.CodeOf(err) != c.code {
				t.Errorf("%s on %v: %v, want the code %q", c.entry, c.on, err, c.code)
			}
		}
	})
}

// TestARevokedPersonWhomAMasterRemembersStartsNothing revokes a person on another master, which has not cut the person off yet.
// This master still remembers the permissions of before.
func TestARevokedPersonWhomAMasterRemembersStartsNothing(t *testing.T) {
	atSite(t, func(t *testing.T, s *site) {
		s.master("m1")
		s.peels("web-01")
		lee := s.limited("lee", grants.Limits{})
		spec := job.Spec{Function: "test.ping", Targets: []target.PeelID{"web-01"}, TargetExpr: "web-01"}
		spec.JID = wire.NewJID()
		if _, err := api.JobDispatch.Ask(t.Context(), lee, spec); err != nil {
			t.Fatal(err)
		}
		elsewhere, err := auth.NewAuthority(t.Context(), auth.AuthorityOptions{
			Keys: s.bus.Keys, JetStream: s.js, Update: func(context.Context, string) error { return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := elsewhere.Users.Revoke(t.Context(), "lee", "alice"); err != nil {
			t.Fatal(err)
		}
		spec.JID = wire.NewJID()
		if _, err := api.JobDispatch.Ask(t.Context(), lee, spec); api.CodeOf(err) != api.CodeForbidden {
			t.Errorf("%v", err)
		}
	})
}

func TestThePromptOfALimitedCallerReadsOnlyWithinTheLimits(t *testing.T) {
	atSite(t, func(t *testing.T, s *site) {
		s.master("m1")
		s.peels("web-01")
		lee := s.limited("lee", grants.Limits{Functions: []string{"prompt.run", "facts.*"}})
		for function, code := range map[string]api.Code{"facts.items": "", "settings.items": api.CodeForbidden} {
			spec := job.Spec{JID: wire.NewJID(), Function: "prompt.run", Targets: []target.PeelID{"web-01"}, TargetExpr: "web-01", Args: map[string]any{
				"prompt": "Well?", "context": []any{map[string]any{"function": function}},
			}}
			if _, err := api.JobDispatch.Ask(t.Context(), lee, spec); api.CodeOf(err) != code {
				t.Errorf("%s: %v", function, err)
			}
		}
	})
}

// A caller sees the fires of peels within their limits, whatever the target.
func TestCoverageShowsThePeelsWithinTheLimitsOfACaller(t *testing.T) {
	atSite(t, func(t *testing.T, s *site) {
		s.master("m1")
		s.peels("web-01", "db-01")
		for _, id := range []target.PeelID{"web-01", "db-01"} {
			s.give(id, map[string]any{"schedule": map[string]any{"backup": map[string]any{"module": "test.ping", "cron": "0 3 * * *"}}})
		}
		synctest.Wait()
		lee, bob := s.limited("lee", grants.Limits{Target: "web-*", Functions: []string{"test.*"}}), s.people("bob")
		for expr, want := range map[string]string{"": "web-01", "*": "web-01", "db-01": "", "web-01": "web-01"} {
			c, err := lee.Coverage(t.Context(), api.CoverageRequest{Target: expr, ByPeel: true})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if len(c.Rows) > 0 {
				got = string(c.Rows[0].Peel)
			}
			if got != want || len(c.Rows) > 1 || c.Peels != min(len(want), 1) {
				t.Errorf("%q: lee sees %q, of %d peels", expr, got, c.Peels)
			}
		}
		if c, err := lee.CoverageEntry(t.Context(), api.CoverageEntryRequest{Entry: "backup", Target: "db-01"}); api.CodeOf(err) != api.CodeNotFound {
			t.Errorf("lee sees %+v, %v", c, err)
		}
		if c, err := bob.Coverage(t.Context(), api.CoverageRequest{}); err != nil || c.Peels != 2 || len(c.Rows) != 1 || c.Rows[0].Peels != 2 {
			t.Errorf("bob, without limits: %+v, %v", c, err)
		}
		if _, err := bob.Coverage(t.Context(), api.CoverageRequest{Entry: "[", Target: "web-*"}); api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("a glob that is none: %v", err)
		}
	})
}

// A client may call its targets what it likes. The record, and every list of jobs, says what a master found.
func TestAJobSaysWhatItRunsOnAndNotWhatItsClientSays(t *testing.T) {
	atSite(t, func(t *testing.T, s *site) {
		s.master("m1")
		s.peels("db-01", "web-01", "web-02")
		s.give("web-01", map[string]any{"pin": 42})
		s.give("web-02", map[string]any{"pin": 42})
		bob, lee := s.people("bob"), s.limited("lee", grants.Limits{Functions: []string{"test.ping"}})
		for _, c := range []struct {
			by         *api.Client
			says, want string
			targets    []target.PeelID
		}{
			{bob, "L@db-01", "web-01", []target.PeelID{"web-01"}},
			{bob, "web-*", "web-*", []target.PeelID{"web-02", "web-01"}},
			{bob, "*", "web-01, web-02", []target.PeelID{"web-01", "web-02"}},
			{bob, "", "db-01", []target.PeelID{"db-01"}},
			{bob, "G@", "db-01", []target.PeelID{"db-01"}},
			{bob, "I@pin:42", "I@pin:42", []target.PeelID{"web-01", "web-02"}},
			{lee, "I@pin:42", "web-01, web-02", []target.PeelID{"web-01", "web-02"}}, // who may not read settings learns nothing
		} {
			time.Sleep(time.Second) // IDs of jobs sort by time
			spec := job.Spec{JID: wire.NewJID(), Function: "test.ping", Targets: c.targets, TargetExpr: c.says}
			answer, err := api.JobDispatch.Ask(t.Context(), c.by, spec)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := api.JobDispatch.Ask(t.Context(), c.by, spec); err != nil || again.Target != c.want { // its reply was lost
				t.Errorf("%s: repeated: %v, %+v", c.says, err, again)
			}
			page, err := api.JobList.Ask(t.Context(), bob, job.Query{Limit: 1})
			if err != nil || len(page.Jobs) != 1 {
				t.Fatalf("%v, %+v", err, page)
			}
			if got := page.Jobs[0]; got.JID != spec.JID || got.Target != c.want || answer.Target != c.want {
				t.Errorf("%q on %v: the list says %q, the reply %q, want %q", c.says, c.targets, got.Target, answer.Target, c.want)
			}
		}
	})
}
