package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	git "github.com/go-git/go-git/v5"
	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/rest"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/push"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/reconciler/propose"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// writes serves the requests for changes of a bare repository in dir, which it makes. The result stops that.
func (s *system) writes(dir string) (stop func()) {
	s.t.Helper()
	work, repo := filepath.Join(dir, "work"), filepath.Join(dir, "fleet.git")
	_, err := worktree.Init(work, fstest.MapFS{
		"top.yaml":          {Data: []byte("base:\n  '*': [all]\n")},
		"settings/all.yaml": {Data: []byte("schedule:\n  by-hand:\n    module: test.ping\n    interval: 1h\n")},
	}, "first", worktree.Author{Name: "Bob", Email: "bob@example.com", When: time.Now()})
	if err == nil {
		_, err = git.PlainClone(repo, true, &git.CloneOptions{URL: work})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	service, err := propose.New(propose.Options{
		Mode: propose.Direct, Branch: "main", Path: ".", Max: 5, Target: "web-*",
		Write: push.Options{Repo: gitrepo.Options{URL: repo, Dir: filepath.Join(dir, "store")}, Committer: push.Person{Name: "zester", Email: "zester@example.com"}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	nc := s.bus.Conn(s.t, grants.RoleMaster, "m9")
	var running sync.WaitGroup
	running.Go(func() { _ = service.Run(ctx, nc, s.backend.Fleet) })
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	s.t.Cleanup(stop)
	time.Sleep(time.Second)
	return stop
}

// reports has a peel report the only entry of its settings.
func (s *system) reports(nc *nats.Conn, id target.PeelID, name string, e ledger.EntryReport) {
	s.t.Helper()
	d := s.schedule(id, name)
	r := ledger.Report{Peel: id, Digest: string(d.Digest), Time: time.Now(), Started: time.Now(), Entries: []ledger.EntryReport{e}}
	data, err := ledger.Encode(&r)
	if err == nil {
		_, err = nc.Request(wire.ScheduleStateOf(id.Wire()), data, time.Minute)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(time.Second)
}

// TestTheRequestsOfThePrintedAPI sends each request that the API's document prints, and compares the answer with the printed one.
func TestTheRequestsOfThePrintedAPI(t *testing.T) {
	dir := t.TempDir()
	bubble(t, func(t *testing.T, s *system) {
		s.writes(dir)
		var asked []wire.Request
		no := wire.Result{} // what the peel refuses to do, if it has an error
		peel := s.peel("web-01", nil, func(nc *nats.Conn, r wire.Request) {
			if asked = append(asked, r); no.Error == "" {
				echo("web-01")(nc, r)
				return
			}
			ack(nc, "web-01", r)
			say(nc, wire.ReturnOf(r.JID, "web-01"), wire.Return{JID: r.JID, Peel: "web-01", Result: no, Epoch: r.Epoch, V: wire.Version})
		})
		admin, base := s.admin(), "/api/v1/schedules"
		due := time.Now().Add(time.Hour).Truncate(time.Second)
		for i, body := range []object{
			{"name": "Daily health check", "prompt": "Check system health and report any issues", "cron": "0 9 * * *", "model": "glm-5.1", "opts": object{}},
			{"name": "Monitor queue depth", "prompt": "Check ZMQ queue depth and alert if > 100", "every": 300_000, "model": "glm-5.1"},
			{"name": "Deploy notification", "prompt": "Announce deployment completion", "at": due.UnixMilli(), "delete_after_run": true},
			{"name": "Weekly report", "prompt": "Generate weekly system report", "schedule": "every monday at 9am"},
		} {
			a := want[rest.Added](t, s.ask(admin, "POST", base, body), 200)
			if a.Status != "ok" || a.ID != i+1 || a.NextRun <= time.Now().UnixMilli() || len(a.Commit) != 40 || a.Branch != "main" {
				t.Errorf("%+v", a)
			}
			if i == 2 && a.NextRun != due.UnixMilli() {
				t.Errorf("it runs at %d, want %d", a.NextRun, due.UnixMilli())
			}
		}
		page := want[rest.Page](t, s.ask(admin, "GET", base+"?page=1&per_page=50", nil), 200)
		if page.Total != 5 || page.Page != 1 || page.PerPage != 50 || len(page.Items) != 5 {
			t.Fatalf("%+v", page)
		}
		if i := page.Items[0]; i.ID != 1 || i.Name != "Daily health check" || i.Type != "cron" || i.Cron != "0 9 * * *" || !i.Enabled || i.NextRun == 0 || i.CreatedAt == 0 || i.UserUUID != "token:admin" || i.ManagedBy != "api" {
			t.Errorf("%+v", i)
		}
		if i := page.Items[1]; i.Type != "every" || i.Interval != 300_000 {
			t.Errorf("%+v", i)
		}
		if i := page.Items[4]; i.ID != 0 || i.Entry != "by-hand" || i.ManagedBy != "git" {
			t.Errorf("%+v", i)
		}
		want[object](t, s.ask(admin, "GET", base+"?page=9223372036854775807", nil), 400) // times per_page it is below 0
		if two := want[rest.Page](t, s.ask(admin, "GET", base+"?page=3&per_page=2", nil), 200); len(two.Items) != 1 || two.Total != 5 {
			t.Errorf("%+v", two)
		}
		for names, cursor := []string(nil), ""; ; {
			p := want[rest.Page](t, s.ask(admin, "GET", base+"?per_page=2&cursor="+url.QueryEscape(cursor), nil), 200)
			for _, i := range p.Items {
				names = append(names, i.Entry)
			}
			if cursor = p.Next; cursor == "" {
				if want := []string{"daily-health-check", "monitor-queue-depth", "deploy-notification", "weekly-report", "by-hand"}; !slices.Equal(names, want) {
					t.Errorf("%q", names)
				}
				break
			}
		}
		dispatcher := s.token(credential.TokenRequest{Name: "dispatcher", Scopes: []credential.Scope{credential.ScopeDispatch}})
		for _, token := range []string{s.reader(), dispatcher} {
			if none := want[rest.Page](t, s.ask(token, "GET", base, nil), 200); none.Items == nil || len(none.Items) != 0 {
				t.Errorf("%+v", none)
			}
		}
		ran := time.Now().Add(-time.Minute).Truncate(time.Second)
		entry := ledger.EntryReport{State: "active", Next: ran.Add(time.Hour)}
		entry.InRow, entry.Error, entry.Started, entry.Ended = 3, "exit code 1", ran, ran.Add(time.Second)
		s.reports(peel, "web-01", "daily-health-check", entry)
		one := want[rest.Schedule](t, s.ask(admin, "GET", base+"/1", nil), 200)
		if one.Prompt != "Check system health and report any issues" || one.Model != "glm-5.1" || one.LastRun != ran.UnixMilli() || one.LastResult != "exit code 1" || one.ConsecutiveErrors != 3 || one.Peels != 1 || one.NextRun != entry.Next.UnixMilli() {
			t.Errorf("%+v", one)
		}
		for path, status := range map[string]string{"/1/pause?reason=noise": "paused", "/daily-health-check/unpause": "active", "/1/run": "dispatched"} {
			if d := want[rest.Done](t, s.ask(admin, "POST", base+path, nil), 200); d.Status != status || d.JID == "" {
				t.Errorf("%s: %+v", path, d)
			}
		}
		time.Sleep(5 * time.Second)
		var functions []string
		for _, r := range asked {
			functions = append(functions, fmt.Sprint(r.Function, " ", r.Args["entry"], " ", r.User))
		}
		slices.Sort(functions)
		if want := []string{"schedule.pause daily-health-check token:admin", "schedule.resume daily-health-check token:admin", "schedule.run daily-health-check token:admin"}; !slices.Equal(functions, want) {
			t.Errorf("%q", functions)
		}
		entry.State = "paused_errors"
		s.reports(peel, "web-01", "daily-health-check", entry)
		if one := want[rest.Schedule](t, s.ask(admin, "GET", base+"/1", nil), 200); one.Enabled || one.NextRun != 0 {
			t.Errorf("paused after errors: %+v", one)
		}
		no.Error = `cannot run "daily-health-check": the entry is not active`
		refused(t, s.ask(admin, "POST", base+"/1/run", nil), 400, "unpause it first")
		no.Error = "" // the peel ended the pause, and its report does not say so yet
		if d := want[rest.Done](t, s.ask(admin, "POST", base+"/1/run", nil), 200); d.Status != "dispatched" {
			t.Errorf("%+v", d)
		}
		entry.State, entry.Why = "paused_invalid", "no prompts in peel.yaml"
		s.reports(peel, "web-01", "daily-health-check", entry)
		if one := want[rest.Schedule](t, s.ask(admin, "GET", base+"/1", nil), 200); one.State != "paused_invalid" || !strings.Contains(one.Why, "no prompts in peel.yaml") {
			t.Errorf("an entry that its peel cannot run: %+v", one)
		}
		for _, verb := range []string{"run", "unpause"} {
			refused(t, s.ask(admin, "POST", base+"/1/"+verb, nil), 409, "web-01 cannot run daily-health-check: no prompts in peel.yaml")
		}
		entry.State, entry.Running = "active", 1
		s.reports(peel, "web-01", "daily-health-check", entry)
		no.Error = "the entry runs already"
		refused(t, s.ask(admin, "POST", base+"/1/run", nil), 409, "web-01: the entry runs already")
		no.Error = ""
		refused(t, s.ask(admin, "DELETE", base+"/1", nil), 409, "is running on web-01")
		entry.Running = 0
		s.reports(peel, "web-01", "daily-health-check", entry)
		if d := want[rest.Done](t, s.ask(admin, "POST", base+"/2/pause?commit=true", nil), 200); len(d.Commit) != 40 {
			t.Errorf("%+v", d)
		}
		if two := want[rest.Schedule](t, s.ask(admin, "GET", base+"/2", nil), 200); two.Enabled {
			t.Errorf("%+v", two)
		}
		if d := want[rest.Done](t, s.ask(admin, "DELETE", base+"/1", nil), 200); d.Status != "deleted" {
			t.Errorf("%+v", d)
		}
		refused(t, s.ask(admin, "GET", base+"/1", nil), 404, "no schedule")
	})
}

func TestWhatAScheduleCannotBe(t *testing.T) {
	dir := t.TempDir()
	bubble(t, func(t *testing.T, s *system) {
		s.writes(dir)
		admin, base := s.admin(), "/api/v1/schedules"
		for text, body := range map[string]object{
			"prompt is missing":                     {"name": "x", "cron": "0 9 * * *"},
			"0 timings":                             {"name": "x", "prompt": "p"},
			"2 timings":                             {"name": "x", "prompt": "p", "cron": "0 9 * * *", "every": 5000},
			"61":                                    {"name": "x", "prompt": "p", "cron": "61 9 * * *"},
			"every: 0 ms":                           {"name": "x", "prompt": "p", "every": 0},
			"every: -5 ms":                          {"name": "x", "prompt": "p", "every": -5},
			"at: 5 is not a time":                   {"name": "x", "prompt": "p", "at": 5},
			"is over, so the entry would never run": {"name": "x", "prompt": "p", "at": time.Now().Add(-time.Hour).UnixMilli(), "delete_after_run": true},
			"delete_after_run is for":               {"name": "x", "prompt": "p", "every": 5000, "delete_after_run": true},
			"settings/api/x.yaml":                   {"name": "x", "prompt": "p", "schedule": "whenever it suits"},
			`did you mean \"interval\"?`:            {"name": "x", "prompt": "p", "every": 5000, "intervall": 5},
			"the field api is written":              {"name": "x", "prompt": "p", "every": 5000, "api": object{"id": 7}},
		} {
			refused(t, s.ask(admin, "POST", base, body), 400, text)
		}
		want[rest.Added](t, s.ask(admin, "POST", base, object{"name": "fixed", "prompt": "p", "every": 5000}), 200)
		want[rest.Added](t, s.ask(admin, "POST", base, object{"name": "own", "prompt": "p", "every": 5000, "interval_from": "end", "catch_up": "skip"}), 200)
		for name, lines := range map[string][]string{
			"fixed": {"interval_from: start", "catch_up: run_once", "catch_up_max: 1"}, "own": {"interval_from: end", "catch_up: skip"},
		} {
			out, err := exec.Command("git", "-C", filepath.Join(dir, "fleet.git"), "show", "main:settings/api/"+name+".yaml").CombinedOutput()
			if err != nil {
				t.Fatal(err, string(out))
			}
			for _, line := range lines {
				if !strings.Contains(string(out), line+"\n") {
					t.Errorf("%s has no %s:\n%s", name, line, out)
				}
			}
		}
		good := object{"prompt": "Check the queue", "every": "5m"}
		first := want[rest.Added](t, s.request("POST", base, admin, map[string]string{"Content-Type": "application/json", "Idempotency-Key": "k1"}, body(good)), 200)
		again := want[rest.Added](t, s.request("POST", base, admin, map[string]string{"Content-Type": "application/json", "Idempotency-Key": "k1"}, body(good)), 200)
		if first.Entry != "check-the-queue" || !again.Repeated || again.Commit != first.Commit || again.ID != first.ID {
			t.Errorf("%+v and %+v", first, again)
		}
		refused(t, s.request("POST", base, admin, map[string]string{"Content-Type": "application/json", "Idempotency-Key": "k1"}, body(object{"prompt": "another", "every": "5m"})), 409, "used for another request")
		refused(t, s.ask(admin, "POST", base, good), 409, "settings/api/check-the-queue.yaml")
		refused(t, s.ask(admin, "GET", base+"/0", nil), 400, "neither the number nor the name")
		refused(t, s.ask(admin, "GET", base+"/a*b", nil), 400, "neither the number nor the name")
		refused(t, s.ask(admin, "POST", base+"/check-the-queue/run", nil), 409, "no peel reports the entry")
	})
}

// TestARevisionThatWaitsIsNamed has a reconciler that holds a revision back.
func TestARevisionThatWaitsIsNamed(t *testing.T) {
	dir := t.TempDir()
	bubble(t, func(t *testing.T, s *system) {
		s.writes(dir)
		var sync status.Sync
		sync.LastAttempted, sync.Blocked, sync.Errors = settings.Commit(strings.Repeat("a", 40)), strings.Repeat("0c29800e", 8), []string{"too much would go"}
		for _, verb := range []string{"status", "now"} {
			_, err := s.bus.Conn(t, grants.RoleMaster, "m8").Subscribe(wire.API("sync", verb, "*"), func(m *nats.Msg) {
				data, err := canon.Marshal(sync)
				if err != nil || m.Respond(data) != nil {
					t.Error("no reply")
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		admin, base := s.admin(), "/api/v1/schedules"
		const text = "revision aaaaaaaa waits for approval, and later commits with it: too much would go; zester sync approve 0c29800e0c29 lets it out"
		if a := want[rest.Added](t, s.ask(admin, "POST", base, object{"name": "x", "function": "test.ping", "every": 5000}), 200); a.Waits != text {
			t.Errorf("added: %q", a.Waits)
		}
		refused(t, s.ask(admin, "POST", base+"/x/run", nil), 409, text)
		if d := want[rest.Done](t, s.ask(admin, "DELETE", base+"/x", nil), 200); d.Waits != text {
			t.Errorf("removed: %q", d.Waits)
		}
		y := object{"name": "y", "function": "test.ping", "every": 5000}
		header := map[string]string{"Content-Type": "application/json", "Idempotency-Key": "k"}
		added := want[rest.Added](t, s.request("POST", base, admin, header, body(y)), 200)
		sync.LastAttempted = settings.Commit(added.Commit)
		refused(t, s.request("POST", base+"?wait=20s", admin, header, body(y)), 409, "waits for approval")
	})
}

func body(o object) io.Reader {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return bytes.NewReader(data)
}

// provokeSchedules asks in every way that has an answer of its own.
func (s *system) provokeSchedules(check func(method, path string, a answer)) {
	const base, one = "/api/v1/schedules", "/api/v1/schedules/{id}"
	s.writes(s.t.TempDir())
	admin := s.token(credential.TokenRequest{Name: "scheduler", Scopes: []credential.Scope{credential.ScopeAdmin}})
	peel := s.peel("web-09", nil, echo("web-09"))
	entry := ledger.EntryReport{State: "active"}
	s.reports(peel, "web-09", "by-hand", entry)
	post := object{"name": "x", "function": "test.ping", "every": 60_000, "target": "*"}
	check("POST", base, s.ask(admin, "POST", base, post))
	check("POST", base, s.ask(admin, "POST", base, post)) // the name is taken
	check("POST", base, s.slowBody(admin, base))
	check("POST", base, s.otherType(admin, base))
	check("POST", base, s.ask(admin, "POST", base, strings.Repeat(" ", 2<<20)))
	check("GET", base, s.ask(admin, "GET", base, nil))
	scraper := s.token(credential.TokenRequest{Name: "scraper", Scopes: []credential.Scope{credential.ScopeMetrics}})
	check("GET", base, s.ask(scraper, "GET", base, nil))
	check("GET", one, s.ask(admin, "GET", base+"/by-hand", nil))
	check("GET", one, s.ask(admin, "GET", base+"/nothing", nil))
	for _, verb := range []string{"/pause", "/unpause", "/run"} {
		check("POST", one+verb, s.ask(admin, "POST", base+"/by-hand"+verb, nil))
		check("POST", one+verb, s.ask(admin, "POST", base+"/nothing"+verb, nil))
		check("POST", one+verb, s.ask(admin, "POST", base+"/x"+verb, nil)) // no peel reports it
	}
	check("DELETE", one, s.ask(admin, "DELETE", base+"/x", nil))
	check("DELETE", one, s.ask(admin, "DELETE", base+"/x", nil))
	entry.Running = 1
	s.reports(peel, "web-09", "by-hand", entry)
	check("DELETE", one, s.ask(admin, "DELETE", base+"/by-hand", nil))
}
