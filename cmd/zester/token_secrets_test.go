package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"html"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/cmd/zester/guide"
	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/mcp"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/sops/sopstest"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// newPlantedFleet starts a fleet with the peel db-01, whose settings have four secrets, and returns the address of its
// REST API.
func newPlantedFleet(t *testing.T) (f *fleet, url string, secrets []string) {
	t.Helper()
	for range 4 {
		secrets = append(secrets, rand.Text())
	}
	dir, w, at := t.TempDir(), sopstest.New(t), make(chan string, 1)
	f = &fleet{
		dir: filepath.Join(dir, "master"), identities: []string{w.Identities}, log: slog.New(restAddress{slog.DiscardHandler, at}),
		rest: master.REST{Listen: "127.0.0.1:0", MCP: &mcp.Options{Act: true, Limit: 100, Guide: guide.Pages}},
	}
	var err error
	if f.work, err = worktree.Init(filepath.Join(dir, "repo"), plantedSettings(w, secrets), "first", ada); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	g, ctx := errgroup.WithContext(ctx)
	t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	if err := f.startMaster(ctx, g); err != nil {
		t.Fatal(err)
	}
	if _, err := f.startPeel(ctx, g, "db-01"); err != nil {
		t.Fatal(err)
	}
	if err := f.settle(ctx, "1"); err != nil {
		t.Fatal(err)
	}
	return f, "https://" + <-at, secrets
}

// asking is what a token asks a peel to run, and whether that is refused: only then the reply would have a secret.
var asking = []struct {
	function, id string
	args         object
	sealed       bool // to a key of the token's bearer
}{
	{function: "settings.get", args: object{"key": "db:password"}},
	{function: "settings.get", args: object{"key": "db:password"}, sealed: true},
	{function: "settings.get", args: object{"key": "tokens"}, sealed: true},
	{function: "cron.tables", sealed: true},
	{function: "file.read", args: object{"path": "/etc/hostname"}, sealed: true},
	{function: "settings.items"},
	{function: "schedule.list"},
	{function: "schedule.history", args: object{"entry": "tell"}},
	{function: "schedule.run", args: object{"entry": "tell"}},
}

// TestATokenOfWhoSeesSecretsShowsNone: no token may have peels show secrets, not even one with all scopes that was made by
// a person who may see them.
func TestATokenOfWhoSeesSecretsShowsNone(t *testing.T) {
	t.Parallel()
	f, url, secrets := newPlantedFleet(t)
	creds := filepath.Join(t.TempDir(), "sue.creds")
	f.printed(t, "auth", "user", "add", "sue", "--secrets", "--out", creds)
	asSue := func(args ...string) string {
		t.Helper()
		var out, errOut bytes.Buffer
		if code := run(t.Context(), append([]string{"--url", f.url, "--ca", f.ca, "--creds", creds}, args...), &out, &errOut); code != exitOK {
			t.Fatalf("zester %v ended with %d: %s", args, code, &errOut)
		}
		return out.String()
	}
	if shown := asSue("db-01", "settings.get", "db:password", "--show-secrets"); !strings.Contains(shown, secrets[0]) {
		t.Fatalf("sue, who may see secrets, sees %s", shown)
	}
	awaitJob(t.Context(), t, f, "--schedule", "tell")

	for _, scopes := range []string{"admin", "read,dispatch"} {
		token := func(way string) string { // each may ask so often
			name := way + "-" + strings.ReplaceAll(scopes, ",", "-")
			return strings.TrimSpace(asSue("auth", "token", "create", name, "--scope", scopes))
		}
		said := f.askedByREST(t, url, token("rest")) + f.askedByTools(t, f.assistantAt(t, url, token("acts"))) +
			toldByTools(f.assistantAt(t, url, token("reads"))) + f.shownByPages(t, url, token("pages"))
		for i, secret := range secrets {
			if at := strings.Index(said, secret); at >= 0 {
				t.Errorf("the secret %d is told to a token with %s: %.300s", i, scopes, said[max(0, at-200):])
			}
		}
		if !strings.Contains(said, "•••") {
			t.Errorf("nothing is masked for a token with %s: it was not looked at what was meant", scopes)
		}
	}
}

// argsOf returns the arguments of a call, with a new key of the bearer if secrets are asked for.
func argsOf(t *testing.T, args object, sealed bool) object {
	t.Helper()
	all := object{}
	maps.Copy(all, args)
	if sealed {
		opener, err := settings.NewOpener()
		if err != nil {
			t.Fatal(err)
		}
		all[catalogue.SecretsTo] = string(opener.To)
	}
	return all
}

// askedByREST is what a token is told over HTTP, in the jobs that it dispatches and on the other routes.
func (f *fleet) askedByREST(t *testing.T, url, token string) string {
	t.Helper()
	client, all := f.web(t, token), new(bytes.Buffer)
	ask := func(method, path string, body any) (code int, text []byte) {
		t.Helper()
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), method, url+"/api/v1"+path, bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		reply, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		if text, err = io.ReadAll(reply.Body); err != nil {
			t.Fatal(err)
		}
		_, _ = all.Write(text)
		return reply.StatusCode, text
	}
	for _, c := range asking {
		code, text := ask(http.MethodPost, "/jobs", object{"target": "db-01", "function": c.function, "args": argsOf(t, c.args, c.sealed)})
		if c.sealed {
			if code != http.StatusForbidden {
				t.Errorf("%s with secrets is answered with %d: %s", c.function, code, text)
			}
			continue
		}
		var j struct{ JID string }
		if err := json.Unmarshal(text, &j); err != nil || code != http.StatusAccepted {
			t.Fatalf("%s is answered with %d, %v: %s", c.function, code, err, text)
		}
		f.awaitEnd(t, j.JID)
		for _, path := range []string{"/jobs/" + j.JID, "/jobs/" + j.JID + "/returns", "/jobs/" + j.JID + "/groups", "/jobs/" + j.JID + "/events"} {
			if code, text := ask(http.MethodGet, path, nil); code != http.StatusOK {
				t.Errorf("%s is answered with %d: %s", path, code, text)
			}
		}
	}
	for _, path := range []string{"/peels/db-01", "/sync/states", "/sync/peels", "/jobs", "/problems", "/coverage/tell", "/targets?expr=I@db:password:x"} {
		if code, text := ask(http.MethodGet, path, nil); code >= http.StatusInternalServerError {
			t.Errorf("%s is answered with %d: %s", path, code, text)
		}
	}
	return all.String()
}

// awaitEnd waits until a job has ended.
func (f *fleet) awaitEnd(t *testing.T, jid string) {
	t.Helper()
	var out, errOut bytes.Buffer
	for end := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		out.Reset()
		code := run(t.Context(), []string{"--data-dir", f.dir, "job", "show", jid, "-o", "json"}, &out, &errOut)
		var j struct{ Status job.Status }
		if code == exitOK && json.Unmarshal(out.Bytes(), &j) == nil && j.Status.Final() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the job has not ended: %s %s", &out, &errOut)
		}
	}
}

// askedByTools is what an assistant is told of what it has peels run.
func (f *fleet) askedByTools(t *testing.T, a *assistant) string {
	t.Helper()
	var all bytes.Buffer
	hash := audit.PeelsHash([]target.PeelID{"db-01"})
	for _, c := range asking {
		text, failed := a.call("dispatch", object{
			"target": "db-01", "hash": hash, "expect": 1, "function": c.function, "id": c.id, "args": argsOf(t, c.args, c.sealed), "reason": "r",
		})
		if failed != c.sealed {
			t.Errorf("%s, secrets asked for %v: failed %v: %s", c.function, c.sealed, failed, text)
		}
		all.WriteString(text)
		if !failed {
			jid := awaitJob(t.Context(), t, f, "--function", c.function)
			f.awaitEnd(t, jid)
			for _, tool := range []string{"job_get", "job_groups"} {
				text, failed := a.call(tool, object{"jid": jid})
				if failed {
					t.Errorf("%s: %s", tool, text)
				}
				all.WriteString(text)
			}
		}
	}
	return all.String()
}

// toldByTools is what an assistant is told of what there is.
func toldByTools(a *assistant) (all string) {
	for tool, args := range map[string]object{
		"peel_get": {"peel": "db-01"}, "entries": {}, "blame": {"peel": "db-01", "entry": "tell"}, "problems": {},
		"why": {"peel": "db-01", "entry": "tell"}, "next_fires": {"entry": "tell", "target": "db-01"}, "fleet_status": {},
		"audit_search": {"action": "job.dispatch"}, "explain": {"target": "I@db:password:x"}, "approvals": {},
	} {
		text, _ := a.call(tool, args)
		all += text
	}
	return all
}

// shownByPages is what the console shows in a session that a token has opened: the lists, and all pages of the peel, its
// entry, the jobs and the commits that they lead to.
func (f *fleet) shownByPages(t *testing.T, at, token string) string {
	t.Helper()
	client, all := f.web(t, ""), new(strings.Builder)
	var err error
	if client.Jar, err = cookiejar.New(nil); err != nil {
		t.Fatal(err)
	}
	client.Transport = client.Transport.(bearer).RoundTripper // the cookie says who asks
	open := func(r *http.Request) (int, string) {
		t.Helper()
		r.Header.Set("Origin", at)
		reply, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		text, err := io.ReadAll(reply.Body)
		if err != nil {
			t.Fatal(err)
		}
		return reply.StatusCode, string(text)
	}
	form := url.Values{"token": {token}, "next": {"/me"}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+"/login", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if code, text := open(r); code != http.StatusOK || !strings.Contains(text, "token:") {
		t.Fatalf("the token opens no session: %d %s", code, text)
	}
	paths := []string{"/", "/peels", "/peels/db-01", "/jobs?who=all", "/entries/tell", "/states", "/timeline", "/commits", "/search?q=tell", "/approvals", "/system/audit"}
	seen := map[string]bool{}
	for ; len(paths) > 0; paths = paths[1:] {
		path := paths[0]
		if seen[path] || len(seen) > 60 {
			continue
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		code, text := open(r)
		if code == http.StatusTooManyRequests { // again, when the session may ask again
			<-time.After(100 * time.Millisecond)
			paths = append(paths, path)
			continue
		}
		if seen[path] = true; code == http.StatusInternalServerError {
			t.Errorf("%s is answered with %d", path, code)
		}
		all.WriteString(text)
		for _, found := range linked.FindAllStringSubmatch(text, -1) {
			paths = append(paths, html.UnescapeString(found[1]))
		}
	}
	if len(seen) < 20 || !strings.Contains(all.String(), "schedule.history") {
		t.Errorf("%d pages were seen, without what ran: %v", len(seen), seen)
	}
	return all.String()
}

// linked are links to pages that may show something of the peel, of its entry and of what it ran.
var linked = regexp.MustCompile(`href="(/(?:peels/db-01|entries/tell|jobs/|commits/)[^"]*)"`)
