package master_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// canary is in what only db-01 has: its settings, arguments and results.
const canary = "canary-4711"

// settingsOf returns settings with an entry that runs at half past each hour.
func settingsOf(entry, function string, args map[string]any) map[string]any {
	return map[string]any{"note": entry, "schedule": map[string]any{entry: map[string]any{
		"module": function, "args": args, "cron": "30 * * * *", "timezone": "UTC", "return_job": true,
	}}}
}

// A readable world is a fleet with web-01, and in one of two worlds also db-01.
type readable struct {
	*site
	t       *testing.T
	boss    *api.Client
	of      map[string]wire.JID // jobs by name; one that does not run in this world has the ID of none
	readers map[string]reader
}

// A reader asks in the name of somebody who may read about web-01 alone, or about nothing.
type reader func(noun, verb string, q any) (any, error)

// asked has the requests of each row that changes nothing. They aim at what db-01 has.
func (w *readable) asked() map[string][]any {
	db := target.PeelID("db-01")
	exprs := []string{"*", "db-*", "L@db-01,web-01", "L@db-01,nobody", "not web-*", "G@os:*", "N@all"}
	all := map[string][]any{
		"hold.list": {api.HoldQuery{All: true}}, "hold.show": {api.HoldRequest{ID: api.HoldID(w.of["db"])}},
		"alert.list": {api.AlertsRequest{Ended: true}},
		"job.list": {
			job.Query{},
			job.Query{Limit: 1},
			job.Query{Target: db},
			job.Query{Function: "cmd.run"},
			job.Query{User: "boss"},
			job.Query{Schedule: "dump-" + canary},
			job.Query{Cursor: w.of["after"]},
			job.Query{Asked: true},
			job.Query{NoReads: true},
		},
		"peel.show":        {api.PeelRequest{Peel: db}, api.PeelRequest{Peel: "web-01"}},
		"entry.show":       {api.BlameRequest{Peel: db, Entry: "dump-" + canary}},
		"coverage.show":    {api.CoverageEntryRequest{Entry: "dump-" + canary}, api.CoverageEntryRequest{Entry: "tidy"}},
		"coverage.explain": {api.WhyRequest{Peel: db, Entry: "dump-" + canary}},
		"user.explain":     {api.AccessRequest{Name: "boss", Verb: "job.list"}},
		"access.list":      {api.AccessRequest{Verb: "job.list"}},
		"credential.list":  {api.CredentialsRequest{}},
		"enroll.list":      {api.EnrollQuery{}, api.EnrollQuery{ID: db}},
		"timeline.show":    {api.TimelineRequest{}, api.TimelineRequest{Entries: []string{"dump-" + canary, "tidy"}}},
		"coverage.list":    {api.CoverageRequest{ByPeel: true}, api.CoverageRequest{Cursor: "a"}},
		"load.show":        {api.LoadRequest{}},
		"problem.list":     {api.ProblemsRequest{}},
		"peel.list":        {api.PeelsRequest{}, api.PeelsRequest{States: true, Facts: true}, api.PeelsRequest{Class: "failed"}, api.PeelsRequest{Cursor: "a"}},
		"target.resolve":   {api.ResolveRequest{Expr: "*", Cursor: "a"}},
	}
	for _, name := range slices.Sorted(maps.Keys(w.of)) {
		jid := w.of[name]
		all["job.show"] = append(all["job.show"], api.JobRequest{JID: jid})
		all["job.returns"] = append(all["job.returns"], api.JobRequest{JID: jid}, api.JobRequest{JID: jid, Cursor: "a"})
		all["job.groups"] = append(all["job.groups"], api.ReturnGroupsRequest{JID: jid})
	}
	for _, expr := range exprs {
		all["target.resolve"] = append(all["target.resolve"], api.ResolveRequest{Expr: expr})
		all["target.explain"] = append(all["target.explain"], api.ExplainRequest{Expr: expr})
		all["peel.list"] = append(all["peel.list"], api.PeelsRequest{Target: expr})
		all["coverage.list"] = append(all["coverage.list"], api.CoverageRequest{Target: expr})
		all["problem.list"] = append(all["problem.list"], api.ProblemsRequest{Target: expr})
		all["timeline.show"] = append(all["timeline.show"], api.TimelineRequest{Target: expr})
		all["load.show"] = append(all["load.show"], api.LoadRequest{Target: expr})
	}
	for _, verb := range []string{
		"alert.status", "job.active", "master.show", "bus.show",
		"coverage.status", "now.show", "approval.list", "audit.list", "token.list", "role.list", "user.list", "session.list",
		"join.list",
	} {
		all[verb] = []any{api.None{}}
	}
	return all
}

// inWorld runs f in a fleet that has run for an hour.
func inWorld(t *testing.T, hasDB bool, f func(w *readable)) {
	atSite(t, func(t *testing.T, s *site) {
		w := &readable{site: s, t: t, of: map[string]wire.JID{}, readers: map[string]reader{}}
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
		s.give("web-01", settingsOf("tidy", "test.ping", nil))
		if hasDB {
			s.peels("db-01")
			s.give("db-01", settingsOf("dump-"+canary, "cmd.run", map[string]any{"command": canary}))
		}
		time.Sleep(time.Minute)
		w.addPeople()
		w.runJobs(hasDB)
		time.Sleep(time.Hour)
		f(w)
	})
}

// addPeople makes everybody who reads.
func (w *readable) addPeople() {
	w.boss = w.people("boss")
	a, err := auth.NewAuthority(w.t.Context(), auth.AuthorityOptions{Keys: w.bus.Keys, JetStream: w.js, Update: w.bus.Update})
	if err != nil {
		w.t.Fatal(err)
	}
	const team = "groups: [web]\nallow: [{verbs: [read, '*.file', '*.resolve', job.cancel]}, {verbs: [read], target: web-*}]\ndeny: [{verbs: [job.dispatch]}]"
	for name, text := range map[string]string{
		"web-team": team, "reads": "allow: [{verbs: [read, '*.file', '*.resolve']}]",
		"no-db": "groups: [no-db]\ndeny: [{verbs: [read], target: db-*}]",
	} {
		q := credential.RoleRequest{Name: name, Text: text}
		if _, err := api.RoleSet.Ask(w.t.Context(), w.boss, q); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, q := range []credential.UserRequest{
		{Name: "limited", Role: grants.RoleOperator, Limits: grants.Limits{Target: "web-*"}},
		{Name: "member", Role: grants.RoleMember, Roles: []string{"web-team"}},
		{Name: "grouped", Role: grants.RoleMember, Groups: []string{"web"}},
		{Name: "reads", Role: grants.RoleMember, Roles: []string{"reads"}},
		{Name: "denied", Role: grants.RoleOperator, Groups: []string{"no-db"}},
	} {
		key, err := credential.MakeKey()
		if err != nil {
			w.t.Fatal(err)
		}
		q.Public = key.Public()
		token, _, err := a.Users.Add(w.t.Context(), q, "boss")
		if err != nil {
			w.t.Fatal(err)
		}
		creds, err := key.Creds(token)
		if err != nil {
			w.t.Fatal(err)
		}
		c, err := api.Connect(api.ClientOptions{URL: w.bus.URL(), Creds: creds, Connect: []nats.Option{
			nats.InProcessServer(w.bus), nats.CustomInboxPrefix(q.Role.Inbox(q.Name)),
		}})
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(c.Close)
		w.readers[q.Name] = func(noun, verb string, q any) (reply any, err error) {
			ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
			defer cancel()
			err = c.Ask(ctx, noun, verb, q, &reply)
			return reply, err
		}
	}
}

// runJobs runs jobs of the boss, and notes their IDs.
func (w *readable) runJobs(hasDB bool) {
	w.of["after"] = wire.NewJID()
	time.Sleep(time.Second)
	for name, on := range map[string][]target.PeelID{"web": {"web-01"}, "db": {"db-01"}, "both": {"db-01", "web-01"}} {
		spec := job.Spec{
			JID: wire.NewJID(), Function: "test.ping", Targets: on, TargetExpr: "L@" + canary, Timeout: time.Minute,
			Metadata: map[string]string{"note": name + canary},
		}
		if w.of[name] = spec.JID; slices.Contains(on, "db-01") && !hasDB {
			continue
		}
		if name == "web" {
			spec.TargetExpr, spec.Metadata = "web-01", nil
		}
		if _, err := api.JobDispatch.Ask(w.t.Context(), w.boss, spec); err != nil {
			w.t.Fatal(err)
		}
	}
	synctest.Wait()
}

// chance are texts that differ between worlds by chance: instants, IDs of jobs, public keys, names of runs of m1,
// epochs of jobs, which grow with each write of the masters to the records of jobs, and receipts, whose numbers grow with
// each run of the peel.
var chance = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z|[UX][A-Z0-9]{55}|[0-9A-Za-z]{27}|m1/[0-9A-Z]+|"(request_)?epoch":[0-9]+|"receipt":\{[^}]*\}`)

// replies returns what each reader is told, by reader, row and request.
func (w *readable) replies() map[string]string {
	all := map[string]string{}
	asked := w.asked()
	for name, ask := range w.readers {
		for row, shows := range api.Showings() {
			noun, verb, _ := strings.Cut(row, ".")
			if noun == "sync" || noun == "schedule" {
				continue // the reconciler replies; its own test has these
			}
			if len(asked[row]) == 0 {
				w.t.Errorf("no request of %s is tried", row)
			}
			for i, q := range asked[row] {
				reply, err := ask(noun, verb, q)
				code := api.CodeOf(err)
				if isRefused := code == api.CodeForbidden || code == api.CodeDenied; shows == api.WholeFleet && !isRefused {
					w.t.Errorf("%s asks for %s, which is about the whole fleet: %v, %v", name, row, reply, err)
				}
				data, failed := json.Marshal(reply)
				if failed != nil {
					w.t.Fatal(failed)
				}
				text := fmt.Sprintf("%s %v", data, err)
				q, _ := json.Marshal(q)
				if strings.Contains(strings.ReplaceAll(text, string(w.of["db"]), ""), canary) && !strings.Contains(string(q), canary) {
					w.t.Errorf("%s asks for %s %s and learns %s", name, row, q, text)
				}
				text = chance.ReplaceAllString(text, "~")
				all[fmt.Sprintf("%s %s[%d] %s", name, row, i, chance.ReplaceAllString(string(q), "~"))] = text
			}
		}
	}
	return all
}

// TestNobodyLearnsOfPeelsOutside has people who may read about some peels alone send all requests that change nothing, in
// a fleet with another peel, and in the same fleet without it. The replies are the same.
func TestNobodyLearnsOfPeelsOutside(t *testing.T) {
	var with, without map[string]string
	inWorld(t, true, func(w *readable) {
		with = w.replies()
		if page, err := api.JobReturns.Ask(w.t.Context(), w.boss, api.JobRequest{JID: w.of["both"]}); err != nil || len(page.Rows) != 2 || page.Rows[0].Return == nil {
			t.Errorf("the job on both has %+v, %v", page, err)
		}
		if p, err := api.ProblemList.Ask(w.t.Context(), w.boss, api.ProblemsRequest{}); err != nil || len(p.Problems) == 0 {
			t.Errorf("nothing is wrong with db-01: %+v, %v", p, err)
		}
	})
	inWorld(t, false, func(w *readable) { without = w.replies() })
	for _, name := range []string{"limited", "member", "grouped", "denied"} {
		if !strings.Contains(with[name+" peel.list[0] {}"], "web-01") {
			t.Errorf("%s is not told of web-01: %s", name, with[name+" peel.list[0] {}"])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(with)) {
		if with[key] != without[key] {
			t.Errorf("%s:\nwith db-01     %s\nwithout db-01  %s", key, with[key], without[key])
		}
	}
}
