package rest_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// lead starts a reconciler on a master's connection, whose repo cannot be reached.
func (s *system) lead(name string) (stop func()) {
	s.t.Helper()
	return s.leadWith(name, "https://127.0.0.1:1/fleet.git")
}

func (s *system) leadWith(name, repo string) (stop func()) {
	s.t.Helper()
	r, err := reconciler.New(reconciler.Options{Repo: gitrepo.Options{URL: repo, Dir: s.t.TempDir()}, Owner: name})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	nc := s.bus.Conn(s.t, grants.RoleMaster, name, nats.ReconnectBufSize(-1))
	go func() { defer close(ended); _ = r.Run(ctx, nc, s.backend.Fleet) }()
	stop = func() { cancel(); <-ended }
	s.t.Cleanup(stop)
	s.backend.Collectors = append(s.backend.Collectors, r.Collector())
	time.Sleep(time.Second)
	synctest.Wait()
	return stop
}

// TestAnOrderIsOfTheTokenWhateverTheRequestSays goes through a master that does not lead.
func TestAnOrderIsOfTheTokenWhateverTheRequestSays(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.lead("m2")
		ops := s.token(credential.TokenRequest{Name: "ops", Scopes: []credential.Scope{credential.ScopeSync}})
		reader := s.reader()
		out := want[status.Sync](t, s.request("POST", "/api/v1/sync/pause", ops, map[string]string{"Nats-Request-Info": `{"host":"10.9.9.9"}`}, nil), 200)
		if out.Owner != "m2" || out.Paused == nil || out.Paused.By != "token:ops" {
			t.Errorf("%+v", out)
		}
		refused(t, s.ask(ops, "POST", "/api/v1/sync/pause", nil), 409, "token:ops")
		refused(t, s.ask(ops, "POST", "/api/v1/sync/approve", object{"hash": "01234567", "by": "eve"}), 400, "body.by")
		refused(t, s.ask(ops, "POST", "/api/v1/sync/approve", object{"hash": "01234567"}), 409, "no revision waits for approval")
		for _, unclear := range []object{{}, {"hash": "01234567", "wave": "canary"}} {
			refused(t, s.ask(ops, "POST", "/api/v1/sync/approve", unclear), 400, "either the hash of a plan or the name of a wave")
		}
		refused(t, s.ask(ops, "POST", "/api/v1/sync/approve", object{"wave": "canary"}), 409, "canary")
		refused(t, s.ask(ops, "POST", "/api/v1/sync/approve", object{"hash": "01234567", "override_freeze": true, "reason": "outage"}), 409, "freeze")
		refused(t, s.ask(ops, "GET", "/api/v1/sync", nil), 403, "the scope read")
		refused(t, s.ask(reader, "POST", "/api/v1/sync/resume", nil), 403, "the scope sync")
		refused(t, s.ask(reader, "GET", "/api/v1/sync/plan", nil), 404, "no revision has been read yet")
		if out := want[status.Sync](t, s.ask(reader, "GET", "/api/v1/sync", nil), 200); out.Paused == nil || !out.Is(status.FetchFailed) {
			t.Errorf("%+v", out)
		}
		want[status.Sync](t, s.ask(ops, "POST", "/api/v1/sync/resume", nil), 200)
		page, err := audit.OpenLog(s.bus.JetStream(t), slog.New(slog.DiscardHandler)).List(t.Context(), audit.Query{Action: "sync"})
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		for _, e := range slices.Backward(page.Entries) {
			if e.User != "token:ops" || e.Role != "" || e.From != "192.0.2.1" {
				t.Errorf("%s is of %s, %s, %s", e.Action, e.User, e.Role, e.From)
			}
			told = append(told, strings.TrimPrefix(e.Action, "sync.")+" "+string(e.Result))
		}
		if got := strings.Join(told, ", "); got != "pause done, pause refused, approve refused, approve refused, approve refused, resume done" {
			t.Errorf("the orders are %s", got)
		}
	})
}

func TestWithoutALeaderTheAnswerSaysWhenToAskAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		admin := s.admin()
		for i, want := range []string{"no master runs with a config repo", "no master leads just now"} {
			if i == 1 {
				stop := s.lead("m2")
				stop()
			}
			for _, r := range everyRoute {
				if !strings.HasPrefix(r.path, "/api/v1/sync") {
					continue
				}
				a := s.ask(admin, r.method, r.path, r.body)
				refused(t, a, 503, want)
				if a.header.Get("Retry-After") != "5" {
					t.Errorf("%s: try again after %q", r.pattern(), a.header.Get("Retry-After"))
				}
			}
			time.Sleep(time.Minute)
		}
	})
}

func TestMetricsOfAMasterThatLeads(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		stop := s.lead("m1")
		s.stop()
		s.serve() // with the metrics of the reconciler
		time.Sleep(time.Minute)
		reader := s.reader()
		has := func(lines ...string) {
			t.Helper()
			a := s.ask(reader, "GET", "/metrics", nil)
			for _, line := range lines {
				if !strings.Contains("\n"+string(a.body), "\n"+line+"\n") {
					t.Errorf("%d: no %s in\n%s", a.status, line, a.body)
				}
			}
		}
		has("zester_sync_leader 1", `zester_sync_condition{type="FetchFailed"} 1`, "zester_sync_up_to_date 0", `zester_peels{state="applied"} 0`)
		stop()
		has("zester_sync_leader 0")
	})
}

// A servedRepo is a repo on a server outside the bubble. A watch of a local repo would stop fake time.
type servedRepo struct {
	*worktree.Work
	url string
}

func serveRepo(t *testing.T) *servedRepo {
	t.Helper()
	path, err := exec.Command("git", "--exec-path").Output()
	backend := filepath.Join(strings.TrimSpace(string(path)), "git-http-backend")
	if _, missing := os.Stat(backend); err != nil || missing != nil {
		t.Skip("needs git-http-backend")
	}
	root := t.TempDir()
	work, err := worktree.Init(filepath.Join(root, "fleet"), fstest.MapFS{
		"top.yaml": {Data: []byte("base:\n  '*': [all]\n")}, "settings/all.yaml": {Data: []byte(tenEntries("1h"))},
		"zester.yaml": {Data: []byte("waves: [{name: canary, peels: 1}]\n")},
	}, "first", worktree.Author{Name: "Ada", Email: "ada@example.com", When: time.Unix(1_700_000_000, 0)})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&cgi.Handler{Path: backend, Root: "/", Stderr: io.Discard, Env: []string{
		"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
	}})
	server.Config.SetKeepAlivesEnabled(false) // a connection that is kept would stop fake time
	t.Cleanup(server.Close)
	return &servedRepo{work, server.URL + "/fleet/.git"}
}

func tenEntries(every string) string {
	var text strings.Builder
	text.WriteString("schedule:\n")
	for i := range 10 {
		fmt.Fprintf(&text, "  e%d: {module: test.ping, interval: %s}\n", i, every)
	}
	return text.String()
}

// provokeSync has the routes about the config repo answer in every way that needs a repo: a revision waits for approval, is
// rolled back, because the peel never applies it, tried again, and the first one is pinned.
func (s *system) provokeSync(check func(method, path string, a answer), repo *servedRepo) {
	const base = "/api/v1/sync"
	peel := s.peel("sync-01", nil, nil)
	beat := func(d time.Duration) {
		for range d / (30 * time.Second) {
			_ = peel.Publish(wire.Heartbeat("sync-01"), nil)
			time.Sleep(30 * time.Second)
		}
	}
	beat(time.Minute)
	s.leadWith("m1", repo.url)
	admin := s.admin()
	get := func(path string) answer {
		a := s.ask(admin, "GET", base+path, nil)
		check("GET", base+path, a)
		return a
	}
	post := func(verb string, body any) answer {
		a := s.ask(admin, "POST", base+"/"+verb, body)
		check("POST", base+"/"+verb, a)
		return a
	}
	first := want[status.Sync](s.t, get(""), 200).LastGood.Commit
	want[status.History](s.t, get("/history"), 200)
	get("/plan") // nothing waits
	for revision, code := range map[settings.Commit]int{first: 200, "0123abcd": 404} {
		a := s.ask(admin, "GET", base+"/commits/"+string(revision), nil)
		if check("GET", base+"/commits/{revision}", a); a.status != code {
			s.t.Errorf("%s: %d\n%s", revision, a.status, a.body)
		}
	}
	for _, path := range []string{"/approve", "/pin", "/retry"} {
		check("POST", base+path, s.slowBody(admin, base+path))
		check("POST", base+path, s.otherType(admin, base+path))
		check("POST", base+path, s.ask(admin, "POST", base+path, strings.Repeat(" ", 2<<20)))
	}
	if _, err := repo.Commit("all of them change", map[string][]byte{"settings/all.yaml": []byte(tenEntries("2h"))}, worktree.Author{Name: "Ada", Email: "ada@example.com", When: time.Unix(1_700_000_001, 0)}); err != nil {
		s.t.Fatal(err)
	}
	blocked := want[status.Sync](s.t, post("now", nil), 200)
	if p := want[status.Plan](s.t, get("/plan"), 200); p.Hash != blocked.Blocked || p.Change == nil || p.Change.Changed != 10 {
		s.t.Errorf("%+v", p)
	}
	refused(s.t, post("approve", object{"hash": "0123456789"}), 409, blocked.Blocked)
	want[status.Sync](s.t, post("approve", object{"hash": blocked.Blocked}), 200)
	get("") // in waves
	beat(6 * time.Minute)
	if out := want[status.Sync](s.t, get(""), 200); !out.RolledBack() {
		s.t.Fatalf("%+v", out)
	}
	refused(s.t, post("retry", object{"revision": "0123"}), 409, "no such revision was rolled back")
	want[status.Sync](s.t, post("retry", nil), 200)
	want[status.Sync](s.t, post("pin", object{"revision": first}), 200)
	refused(s.t, post("pin", object{"revision": "0123"}), 409, "no such revision is stored")
	for _, verb := range []string{"unpin", "pause", "resume"} {
		want[status.Sync](s.t, post(verb, nil), 200)
		if verb == "pause" {
			refused(s.t, post(verb, nil), 409, "token:admin")
			continue
		}
		refused(s.t, post(verb, nil), 409, "nothing is p")
	}
	if h := want[status.History](s.t, get("/history"), 200); h.Attempts[0].Master != "m1" || len(h.Attempts) < 3 {
		s.t.Errorf("%+v", h.Attempts)
	}
	if p := want[status.SyncPeelsPage](s.t, get("/peels"), 200); len(p.Peels) != 1 || p.Peels[0].Peel != "sync-01" {
		s.t.Errorf("%+v", p)
	}
	all := want[api.PeelsPage](s.t, s.ask(admin, "GET", "/api/v1/peels?target=sync-*", nil), 200)
	if len(all.Peels) != 1 || all.Peels[0].State == "" {
		s.t.Errorf("the list of peels has no state: %+v", all)
	}
	if g := want[status.StateGroups](s.t, get("/states/groups"), 200); g.Groups == nil || len(g.Groups) != 0 || g.Left != 0 {
		s.t.Errorf("%+v", g)
	}
	if p := want[status.SyncStatesPage](s.t, get("/states"), 200); p.Peels == nil || len(p.Peels) != 0 || p.Next != "" {
		s.t.Errorf("%+v", p)
	}
}
