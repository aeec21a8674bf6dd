package console_test

import (
	"context"
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// edited is a fleet on which somebody has edited a file that Git describes.
func edited(t *testing.T) (f *fleet, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "motd")
	f = newFleetOf(t, fstest.MapFS{
		"top.yaml": {Data: []byte("base:\n  '*': [all]\n")},
		"settings/all.yaml": {Data: []byte("states:\n  motd: {file.managed: {path: " + path + ", content: \"ours\\n\", makedirs: true}}\n" +
			"schedule:\n  drift: {module: state.highstate, args: {test: true}, interval: 3s, return_job: failures}\n")},
	}, "web-01")
	f.repo = f.work.Dir()
	f.start(t)
	f.highstate(t)
	f.hasStates(t, status.HostClean)
	if err := os.WriteFile(path, []byte("theirs\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.hasStates(t, status.HostDrifted)
	return f, path
}

// highstate applies all states, as somebody does who has read the commit.
func (f *fleet) highstate(t *testing.T) {
	t.Helper()
	jid := wire.NewJID()
	if _, err := api.JobDispatch.Ask(t.Context(), f.people["ann"], job.Spec{
		JID: jid, Function: "state.highstate", Targets: f.hosts, TargetExpr: "*",
	}); err != nil {
		t.Fatal(err)
	}
	f.ends(t, jid, job.Complete)
}

func (f *fleet) hasStates(t *testing.T, want status.HostState) {
	t.Helper()
	f.until(t, "all hosts are "+string(want), func(ctx context.Context) bool {
		s, err := api.SyncStatus.Ask(ctx, f.local, api.None{})
		return err == nil && s.HostCounts[want] == len(f.hosts)
	})
}

func (f *fleet) problems(t *testing.T, what string, ok func(*api.Problems) bool) {
	t.Helper()
	f.until(t, what, func(ctx context.Context) bool {
		p, err := api.ProblemList.Ask(ctx, f.local, api.ProblemsRequest{})
		return err == nil && ok(p)
	})
}

// inForce returns the commit in force.
func (f *fleet) inForce(t *testing.T) string {
	t.Helper()
	s, err := api.SyncStatus.Ask(t.Context(), f.local, api.None{})
	if err != nil {
		t.Fatal(err)
	}
	return string(s.LastGood.Commit)
}

// link returns the address of the first link in an answer that a pattern matches.
func (a answer) link(t *testing.T, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(`href="(` + pattern + `)"`).FindStringSubmatch(a.body)
	if m == nil {
		t.Fatalf("no link to %s:\n%s", pattern, a.body)
	}
	return html.UnescapeString(m[1])
}

// TestPutBack runs the job of "Put back…": from the list of states by its form to a host that is as Git says.
func TestPutBack(t *testing.T) {
	f, path := edited(t)
	ann := f.login(t, "ann")
	test := ann.get(ann.get("/states").link(t, `/states/apply\?[^"]*test=true`))
	test.has(t, "Run state.apply on 1 peel?", "nothing is changed", "test=true")
	form := ann.get(ann.get("/states").link(t, `/states/apply\?[^"]*state=motd`))
	form.has(t, "Run state.apply on 1 peel?", "the states of settings/all.yaml run")
	filled := url.Values{}
	for _, name := range []string{"jid", "peels_hash", "target", "function", "reason"} {
		filled.Set(name, form.field(t, name))
	}
	filled.Set("args", "all")
	if text := `<textarea[^>]*>\s*all\s*</textarea>`; !regexp.MustCompile(text).MatchString(form.body) {
		t.Errorf("the form does not name the file:\n%s", form.body)
	}
	if got := ann.post("/jobs/new", filled); got.status != http.StatusSeeOther {
		t.Fatalf("%d\n%s", got.status, got.body)
	}
	jid := wire.JID(filled.Get("jid"))
	f.ends(t, jid, job.Complete)
	if text, err := os.ReadFile(path); err != nil || string(text) != "ours\n" {
		t.Errorf("the file has %q, %v", text, err)
	}
	ann.get("/jobs/"+string(jid)).has(t, "1 peel ok", "“put back motd”")
	f.hasStates(t, status.HostClean) // by the next run of the schedule
	ann.get("/states").has(t, "No host is known to differ from Git")
}

// TestAPeelThatNeverReported has a peel that the reconciler knows by its facts alone.
func TestAPeelThatNeverReported(t *testing.T) {
	f := theFleet(t)
	const silent target.PeelID = "web-09"
	creds, err := f.keys.Creds(grants.RolePeel, silent.Wire(), 0)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(f.bus, nats.UserCredentialBytes(creds), nats.RootCAs(f.ca()))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	facts, err := wire.Facts{Peel: silent, Facts: target.Facts{"os": "debian"}, V: wire.Version}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	send(t, nc, wire.Fact(silent.Wire()), facts)
	ann := f.login(t, "ann")
	var got answer
	f.until(t, "the settings of the peel", func(context.Context) bool {
		got = ann.get("/peels/web-09")
		return got.status == http.StatusOK && strings.Contains(got.body, "hello")
	})
	got.has(t, "web-09 does not run its newest settings", "newer settings wait", "not run yet", "never", "no entries", "not known yet",
		"It has none.", "Nothing ran on it.")
	f.until(t, "the peel among those that lack the commit", func(context.Context) bool {
		got = ann.get("/commits/" + f.inForce(t))
		return strings.Contains(got.body, "peels that have not applied it")
	})
	got.has(t, "How it went out", `data-testid="peel" data-id="web-09"`)
}
