package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/settings/sops/sopstest"
)

// restAddress takes where REST is served from the log.
type restAddress struct {
	slog.Handler
	at chan string
}

func (l restAddress) Enabled(context.Context, slog.Level) bool { return true }
func (l restAddress) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l restAddress) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "REST is served" {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "listen" {
				l.at <- a.Value.String()
			}
			return true
		})
	}
	return nil
}

// plantedSettings hold secrets where they can be, beside two that a function is given and prints.
func plantedSettings(w *sopstest.Writer, secrets []string) fstest.MapFS {
	text := w.Encrypt("^(password|tokens|TOKEN|stdin)$", fmt.Sprintf(`
db: {password: %s}
tokens: [{name: a, value: %s}]
schedule:
  tell:
    module: cmd.run
    interval: 1h
    run_on_start: true
    return_job: true
    args: {command: 'echo "$TOKEN"; cat >&2; exit 1', env: {TOKEN: %s}, stdin: %s}
`, secrets[0], secrets[1], secrets[2], secrets[3]))
	return fstest.MapFS{
		"top.yaml":          {Data: []byte("base:\n  'db-*': [all]\n")},
		"settings/all.yaml": {Data: []byte(text)},
	}
}

// TestNoCommandOrRouteShowsASecret searches what people and programs can have printed for planted secrets.
func TestNoCommandOrRouteShowsASecret(t *testing.T) {
	t.Parallel()
	secrets := make([]string, 8)
	for i := range secrets {
		secrets[i] = rand.Text()
	}
	dir, w := t.TempDir(), sopstest.New(t)
	f := &fleet{dir: filepath.Join(dir, "master"), identities: []string{w.Identities}, rest: master.REST{Listen: "127.0.0.1:0"}}
	at := make(chan string, 1)
	f.log = slog.New(restAddress{slog.DiscardHandler, at})
	var err error
	if f.work, err = worktree.Init(filepath.Join(dir, "repo"), plantedSettings(w, secrets[:4]), "first", ada); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	g, ctx := errgroup.WithContext(ctx)
	defer func() {
		cancel()
		if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	if err := f.startMaster(ctx, g); err != nil {
		t.Fatal(err)
	}
	if _, err := f.startPeel(ctx, g, "db-01"); err != nil {
		t.Fatal(err)
	}
	if err := f.settle(ctx, "1"); err != nil {
		t.Fatal(err)
	}
	jid := awaitJob(ctx, t, f, "--schedule", "tell")

	changed := plantedSettings(w, secrets[4:])
	if _, err := f.work.Commit("second", map[string][]byte{"settings/all.yaml": changed["settings/all.yaml"].Data}, ada); err != nil {
		t.Fatal(err)
	}
	said := commandsSay(ctx, t, f, jid)
	said += routesSay(ctx, t, f, "https://"+<-at, jid)
	for _, secret := range secrets {
		if i := strings.Index(said, secret); i >= 0 {
			t.Errorf("a secret is told: %.300s", said[max(0, i-200):])
		}
	}
	for _, want := range []string{"•••", "(secret 1)", "zester_schedule_results_total", "tell"} {
		if !strings.Contains(said, want) {
			t.Errorf("nothing has %q: it was not looked at what was meant", want)
		}
	}
}

// awaitJob is the newest of the jobs that flags of job list select.
func awaitJob(ctx context.Context, t *testing.T, f *fleet, which ...string) string {
	t.Helper()
	for ctx.Err() == nil {
		var out, errOut bytes.Buffer
		if code := run(ctx, append([]string{"--data-dir", f.dir, "job", "list", "--limit", "1", "-o", "name"}, which...), &out, &errOut); code != exitOK {
			t.Fatalf("job list ended with %d: %s", code, &errOut)
		}
		if jid := strings.TrimSpace(out.String()); jid != "" {
			return jid
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatal(ctx.Err())
	return ""
}

// commandsSay is all that the commands print which look at settings, plans and runs.
func commandsSay(ctx context.Context, t *testing.T, f *fleet, jid string) string {
	t.Helper()
	var all bytes.Buffer
	repo := f.work.Dir()
	for _, command := range [][]string{
		{"plan", "--repo", repo, "--base", "HEAD~1", "--head", "HEAD"},
		{"plan", "--repo", repo, "--base", "HEAD~1", "--head", "HEAD", "-o", "json"},
		{"plan", "--repo", repo, "--base", "HEAD~1", "--head", "HEAD", "-o", "yaml"},
		{"plan", "--repo", repo, "--base", "HEAD~1", "--head", "HEAD", "-o", "markdown"},
		{"lint", repo, "-o", "json"},
		{"sync", "diff", "db-01"},
		{"sync", "diff", "db-01", "-o", "json"},
		{"sync", "status", "-o", "json"},
		{"sync", "peels", "-o", "json"},
		{"sync", "history", "-o", "json"},
		{"job", "show", jid},
		{"job", "show", jid, "-o", "json"},
		{"job", "list", "-o", "json"},
		{"db-01", "settings.items"},
		{"db-01", "settings.get", "db:password", "-o", "json"},
		{"db-01", "schedule.list", "-o", "json"},
		{"schedule", "list", "db-01", "-o", "json"},
		{"schedule", "history", "db-01", "tell", "-o", "json"},
		{"schedule", "run", "db-01", "tell"},
		{"audit", "list", "-o", "json"},
		{"target", "eval", "*", "-o", "json"},
		{"peel", "show", "db-01", "-o", "json"},
		{"doctor", "-o", "json"},
	} {
		var out, errOut bytes.Buffer
		if command[0] != "lint" {
			command = append([]string{"--data-dir", f.dir}, command...)
		}
		code := run(ctx, command, &out, &errOut)
		if code == exitUsage || out.Len() == 0 {
			t.Errorf("zester %s ended with %d: %s", strings.Join(command, " "), code, &errOut)
		}
		fmt.Fprintf(&all, "%s\n%s%s", command, &out, &errOut)
	}
	return all.String()
}

// routesSay is what programs are told over HTTP.
func routesSay(ctx context.Context, t *testing.T, f *fleet, url, jid string) string {
	t.Helper()
	var out, errOut, all bytes.Buffer
	if code := run(ctx, []string{"--data-dir", f.dir, "auth", "token", "create", "looker", "--scope", "admin", "-o", "name"}, &out, &errOut); code != exitOK {
		t.Fatalf("token create ended with %d: %s", code, &errOut)
	}
	client := natstest.HTTPS(t, f.ca)
	for _, path := range []string{
		"/metrics", "/api/v1/jobs", "/api/v1/jobs/" + jid, "/api/v1/jobs/" + jid + "/returns", "/api/v1/jobs/" + awaitJob(ctx, t, f, "--function", "settings.items") + "/events",
		"/api/v1/peels", "/api/v1/targets?expr=*", "/readyz", "/api/v1/openapi.json",
	} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(out.String()))
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s is answered with %d, %v: %.300s", path, resp.StatusCode, err, body)
		}
		fmt.Fprintf(&all, "%s %v\n%s", path, resp.Header, body)
	}
	return all.String()
}
