package console_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// madeBy makes an operator in the name of another one.
func (f *fleet) madeBy(t *testing.T, by *api.Client, name string) {
	t.Helper()
	creds, _, err := by.UserAdd(t.Context(), credential.UserRequest{Name: name, Role: grants.RoleOperator})
	if err != nil {
		t.Fatal(err)
	}
	f.people[name] = f.connect(t, creds)
}

// approve approves an action as a person, and dispatches its job as the command line does.
func (f *fleet) approve(ctx context.Context, name string, id api.HoldID) error {
	shown, err := api.HoldShow.Ask(ctx, f.people[name], api.HoldRequest{ID: id})
	if err != nil {
		return err
	}
	a, err := api.HoldApprove.Ask(ctx, f.people[name], api.HoldRequest{ID: id})
	if err != nil || !a.IsJob() {
		return err
	}
	spec := a.Spec()
	spec.Targets = shown.Names
	_, err = api.JobDispatch.Ask(ctx, f.people[name], spec)
	return err
}

// once holds that an action is refused to some people, for a reason that names each, and that one other person carries
// it out, once of many tries.
func (f *fleet) once(t *testing.T, id api.HoldID, refused map[string]string, by string) {
	t.Helper()
	for name, text := range refused {
		for range 2 {
			if err := f.approve(t.Context(), name, id); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s approves %s: %v, want %s", name, id, err, text)
			}
		}
	}
	var all sync.WaitGroup
	var done atomic.Int32
	for range 4 {
		all.Go(func() {
			if f.approve(t.Context(), by, id) == nil {
				done.Add(1)
			}
		})
	}
	all.Wait()
	if done.Load() == 0 {
		t.Errorf("%s does not get %s through: %v", by, id, f.approve(t.Context(), by, id))
	}
}

// TestWhatAnAssistantDoesWaitsForASecondPerson: over /mcp and over stdio, what a rule about two persons covers waits, no
// tool decides it, and it runs once, when a second person approves.
func TestWhatAnAssistantDoesWaitsForASecondPerson(t *testing.T) {
	f := aWritableFleet(t)
	f.madeBy(t, f.local, "bob")
	f.madeBy(t, f.people["ann"], "child")
	tokens := map[string]string{}
	for _, name := range []string{"ann", "bob"} {
		var err error
		tokens[name], _, err = f.people[name].TokenCreate(t.Context(), credential.TokenRequest{
			Name: "of-" + name, Scopes: []credential.Scope{credential.ScopeAdmin},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	f.setRole(t, "four-eyes", "two_persons: [{verbs: [job.dispatch], functions: [cmd.*]}, {verbs: [schedule.add]}]\n")
	stdio, _ := f.assistantOf(t, "ann")
	refused := map[string]string{"ann": "they are the same", "child": "ann made child", "lee": ""}
	for what, session := range map[string]*sdk.ClientSession{"http": f.overHTTP(t, tokens["ann"]), "stdio": stdio} {
		t.Run(what, func(t *testing.T) {
			ran := filepath.Join(t.TempDir(), "ran")
			count := func() int {
				text, err := os.ReadFile(ran)
				if err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
				return bytes.Count(text, []byte("\n"))
			}
			dispatch := func(expr string, peels ...target.PeelID) (string, bool) {
				return callTool(t, session, toolCall{"dispatch", map[string]any{
					"target": expr, "hash": audit.PeelsHash(peels), "expect": len(peels), "function": "cmd.run",
					"args": map[string]any{"command": "echo " + what + " >> " + ran}, "reason": "a try",
				}})
			}
			one, failed := dispatch("web-01", "web-01")
			if failed || !strings.HasPrefix(one, "Nothing was done: it waits for a second person") {
				t.Fatalf("a job on one peel: %v %s", failed, one)
			}
			many, failed := dispatch("web-*", "web-01", "web-02")
			if failed || !strings.HasPrefix(many, "Nothing was done: assistants may act on at most 1 peels") {
				t.Fatalf("a job above the limit: %v %s", failed, many)
			}
			open, err := api.HoldList.Ask(t.Context(), f.people["bob"], api.HoldQuery{})
			if err != nil || len(open.Actions) != 2 {
				t.Fatalf("%+v wait, %v", open, err)
			}
			if n := count(); n != 0 {
				t.Fatalf("it ran %d times before anybody approved", n)
			}
			runs := 0
			for _, a := range open.Actions {
				if text, _ := callTool(t, session, toolCall{"approvals", nil}); !strings.Contains(text, string(a.ID)) {
					t.Errorf("the assistant does not see that %s waits: %s", a.ID, text)
				}
				f.once(t, a.ID, refused, "bob")
				runs += a.Peels
				f.until(t, "the runs", func(context.Context) bool { return count() >= runs })
			}
			for _, a := range open.Actions { // once more does not run it again
				_ = f.approve(t.Context(), "bob", a.ID)
			}
			f.until(t, "the ends of the jobs", func(ctx context.Context) bool { return f.noJobRuns(ctx) })
			if n := count(); n != 3 {
				t.Errorf("it ran %d times on 3 peels", n)
			}
			if err := f.approve(t.Context(), "ann", open.Actions[0].ID); err == nil {
				t.Error("ann approves what bob has approved")
			}
		})
	}
	t.Run("a proposal", func(t *testing.T) { aProposalWaits(t, f, stdio, refused) })
	t.Run("no tool decides", func(t *testing.T) {
		tools, err := f.overHTTP(t, tokens["bob"]).ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range tools.Tools {
			for _, verb := range []string{"hold.approve", "hold.reject", "sync.approve"} {
				if len(toolsOf[verb]) > 0 || strings.HasPrefix(tool.Name, "approve") && tool.Name != "approvals" {
					t.Errorf("assistants have the tool %s, and send %s by %v", tool.Name, verb, toolsOf[verb])
				}
			}
		}
	})
}

// noJobRuns reports whether all jobs have ended.
func (f *fleet) noJobRuns(ctx context.Context) bool {
	page, err := api.JobList.Ask(ctx, f.local, job.Query{Status: job.Running, Asked: true})
	return err == nil && len(page.Jobs) == 0
}

// aProposalWaits holds that a change of the config repo that an assistant proposes waits for a second person.
func aProposalWaits(t *testing.T, f *fleet, session *sdk.ClientSession, refused map[string]string) {
	change := map[string]any{"action": "add", "fields": map[string]any{
		"name": "nightly", "function": "test.ping", "every": "1h", "target": "web-01",
	}}
	planned, failed := callTool(t, session, toolCall{"plan_change", change})
	_, hash, found := strings.Cut(planned, "hash: ")
	if failed || !found {
		t.Fatal(planned)
	}
	change = maps.Clone(change)
	change["hash"] = strings.Fields(hash)[0]
	said, failed := callTool(t, session, toolCall{"propose_change", change})
	if failed || !strings.HasPrefix(said, "Nothing was done: it waits for a second person") {
		t.Fatalf("%v %s", failed, said)
	}
	branches := func() string {
		out, err := f.git("for-each-ref", "--format=%(refname) %(objectname)")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := branches()
	held, err := api.HoldList.Ask(t.Context(), f.people["bob"], api.HoldQuery{})
	if err != nil || len(held.Actions) != 1 {
		t.Fatalf("%+v, %v", held, err)
	}
	f.once(t, held.Actions[0].ID, refused, "bob")
	if after := branches(); strings.Count(after, "\n") != strings.Count(before, "\n")+1 {
		t.Errorf("the branches were\n%sand are\n%s", before, after)
	}
}

// limited is a config repo whose limits hold a change of an entry.
func limited(text string) map[string][]byte {
	file := bytes.Replace(repo["settings/all.yaml"].Data, []byte("text: hello"), []byte("text: "+text), 1)
	return map[string][]byte{"settings/all.yaml": append(file, "a: 1\nb: 1\nc: 1\nd: 1\ne: 1\n"...)}
}

// TestAPlanGoesOutAfterTwoPersons: approvals of a plan, of a gate and of an order to try again wait for a second person,
// and are of the revision that the first saw.
func TestAPlanGoesOutAfterTwoPersons(t *testing.T) {
	f := theFleet(t)
	f.madeBy(t, f.local, "bob")
	f.madeBy(t, f.people["ann"], "child")
	commit := func(message string, files map[string][]byte) string {
		t.Helper()
		h, err := f.work.Commit(message, files, ada)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := api.SyncNow.Ask(t.Context(), f.local, api.None{}); err != nil {
			t.Fatal(err)
		}
		return h.String()
	}
	var seen status.Sync
	holds := func(what string, is func(*status.Sync) bool) {
		t.Helper()
		f.until(t, what, func(ctx context.Context) bool {
			s, err := api.SyncStatus.Ask(ctx, f.local, api.None{})
			if err == nil {
				seen = *s
			}
			return err == nil && is(s)
		})
	}
	inForce := func(commit string) {
		t.Helper()
		holds("a commit in force", func(s *status.Sync) bool { return string(s.LastGood.Commit) == commit && s.Rollout == nil })
	}
	waits := func(name string, q status.ApproveRequest) (id api.HoldID) {
		t.Helper()
		f.until(t, "the rule", func(ctx context.Context) bool {
			_, err := api.SyncApprove.Ask(ctx, f.people[name], q)
			var ok bool
			id, ok = api.HeldAs(err)
			return ok
		})
		return id
	}
	refused := map[string]string{"ann": "they are the same", "child": "ann made child", "lee": "", "eve": ""}
	inForce(commit("Limits are for ten settings or more", limited("hello")))
	old := commit("Go out in waves", map[string][]byte{
		"zester.yaml": []byte("limits: {change: 10%}\nwaves: [{name: canary, peels: 1, gate: manual}, {name: all, peels: 100%}]\n"),
	})
	inForce(old)
	f.setRole(t, "four-eyes", "two_persons: [{verbs: [sync.approve]}]\n")
	f.until(t, "the rule", func(ctx context.Context) bool {
		a, err := api.UserExplain.Ask(ctx, f.local, api.AccessRequest{Name: "ann", Verb: "sync.approve"})
		return err == nil && a.Second != ""
	})

	first := commit("Say more", limited("more"))
	holds("a plan that waits", func(s *status.Sync) bool { return s.Blocked != "" })
	was := waits("ann", status.ApproveRequest{Hash: seen.Blocked})
	if _, err := api.SyncApprove.Ask(t.Context(), f.people["ann"], status.ApproveRequest{Hash: "0123456789"}); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("what could not be approved now: %v", err)
	}
	hash := seen.Blocked
	sha := commit("Explain", map[string][]byte{"README.md": []byte("The text is longer.\n")})
	holds("the plan of the newer commit", func(s *status.Sync) bool { return string(s.LastAttempted) == sha && s.Blocked != "" })
	if seen.Blocked != hash {
		t.Errorf("the plan is another: %s, and was %s", seen.Blocked, hash) // else the hash alone refuses it
	}
	if err := f.approve(t.Context(), "bob", was); err == nil || !strings.Contains(err.Error(), "cannot approve for revision "+first) {
		t.Errorf("the approval of the old commit lets the new one out: %v", err)
	}
	now := waits("ann", status.ApproveRequest{Hash: seen.Blocked})
	holds("nothing else", func(s *status.Sync) bool { return s.Blocked == hash && string(s.LastGood.Commit) == old })
	f.once(t, now, refused, "bob")
	holds("a gate", func(s *status.Sync) bool { return s.Rollout != nil && s.Rollout.State == "gate" })
	if string(seen.Rollout.Commit) != sha {
		t.Errorf("%s goes out", seen.Rollout.Commit)
	}

	gate := waits("ann", status.ApproveRequest{Wave: "canary"})
	f.once(t, gate, refused, "bob")
	inForce(sha)
	another := commit("Say less", limited("less"))
	holds("a plan that waits", func(s *status.Sync) bool { return string(s.LastAttempted) == another && s.Blocked != "" })
	stale := waits("ann", status.ApproveRequest{Hash: seen.Blocked, Revision: another[:12]})
	f.once(t, stale, nil, "bob")
	holds("a gate", func(s *status.Sync) bool { return s.Rollout != nil && s.Rollout.State == "gate" })
	old = string(waits("ann", status.ApproveRequest{Wave: "canary"}))
	third := commit("Say nothing", limited("nothing"))
	holds("a plan that waits", func(s *status.Sync) bool { return string(s.LastAttempted) == third && s.Blocked != "" })
	next := waits("bob", status.ApproveRequest{Hash: seen.Blocked})
	if err := f.approve(t.Context(), "ann", next); err != nil {
		t.Error(err)
	}
	holds("a gate of the newest", func(s *status.Sync) bool {
		return s.Rollout != nil && s.Rollout.State == "gate" && string(s.Rollout.Commit) == third
	})
	if err := f.approve(t.Context(), "bob", api.HoldID(old)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("cannot approve for revision %s", another)) {
		t.Errorf("the approval of an old gate opens a new one: %v", err)
	}
}
