package reconciler

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/push"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/reconciler/propose"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A writer is a bus with masters that follow a bare repository and write to it, and with real peels.
type writer struct {
	t         *testing.T
	bus       *natstest.Bus
	dir, repo string
	keys      gitrepo.Trust // that commits have to be signed by
	key       string        // of masters
}

// run runs a process until the test ends or the result is called.
func (w *writer) run(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := run(ctx); ctx.Err() == nil {
			w.t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	w.t.Cleanup(stop)
	return stop
}

func (w *writer) master(name string) (stop func()) {
	w.t.Helper()
	at := func(part string) gitrepo.Options {
		return gitrepo.Options{URL: w.repo, Dir: filepath.Join(w.dir, name, part), Verify: w.keys}
	}
	r, err := New(Options{Repo: at("repo"), Owner: name, Poll: time.Minute, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	writes, err := propose.New(propose.Options{
		Mode: propose.Direct, Path: ".", Branch: "main", Max: 10, Target: "*",
		Write: push.Options{Repo: at("write"), Committer: push.Person{Name: "zester", Email: "zester@example.com"}, Key: w.key},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ready := make(chan struct{})
	m, err := master.New(master.Options{
		ID: name, DataDir: filepath.Join(w.dir, name), NATS: w.bus.URL(), Connect: w.bus.Options(grants.RoleMaster, name),
		Services: []master.Service{r.unwatched, writes.Run}, Ready: func(master.Info) { close(ready) },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	stop = w.run(m.Run)
	<-ready
	return stop
}

func (w *writer) peel(id target.PeelID) (stop func()) {
	w.t.Helper()
	p, err := peel.New(peel.Options{
		ID: id, DataDir: filepath.Join(w.dir, string(id)), URL: w.bus.URL(), Connect: w.bus.Options(grants.RolePeel, id.Wire()), Zone: time.UTC, Simulated: true,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.run(p.Run)
}

// commits returns the subjects of the commits of the branch, the newest first.
func (w *writer) commits() (all []string) {
	w.t.Helper()
	repo, err := git.PlainOpen(w.repo)
	if err != nil {
		w.t.Fatal(err)
	}
	log, err := repo.Log(&git.LogOptions{})
	if err == nil {
		err = log.ForEach(func(c *object.Commit) error { all = append(all, c.Author.Name+": "+c.Message); return nil })
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// newWriter makes the repository with one commit.
func newWriter(t *testing.T, files fstest.MapFS) *writer {
	t.Helper()
	w := &writer{dir: t.TempDir()}
	w.repo = filepath.Join(w.dir, "fleet.git")
	_, err := worktree.Init(filepath.Join(w.dir, "work"), files, "first", worktree.Author{Name: "Bob", Email: "bob@example.com", When: time.Now()})
	if err == nil {
		_, err = git.PlainClone(w.repo, true, &git.CloneOptions{URL: filepath.Join(w.dir, "work")})
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// ask sends a request about schedules as the operator ann.
func (w *writer) ask(verb string, q any) error {
	data, err := canon.Marshal(q)
	if err != nil {
		w.t.Fatal(err)
	}
	msg, err := w.bus.Conn(w.t, grants.RoleOperator, "ann").Request(wire.API("schedule", verb, "ann"), data, time.Minute)
	if err == nil {
		err = api.ReplyError(msg)
	}
	return err
}

// once adds an entry that runs once, in an hour.
func (w *writer) once(name string) (at time.Time) {
	w.t.Helper()
	at = time.Now().Add(time.Hour).Truncate(time.Second)
	err := w.ask("add", api.ScheduleAddRequest{Name: name, Fields: map[string]any{"module": "test.ping", "at": at.UTC().Format(time.RFC3339), "delete_after_run": true, "start_deadline": "30m"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return at
}

// TestAnEntryThatRealPeelsRanIsRemoved has real masters and peels: a peel is down when the entry is due, and the master that leads
// dies while the entry waits for that peel.
func TestAnEntryThatRealPeelsRanIsRemoved(t *testing.T) {
	if testing.Short() {
		t.Skip("hours of a bus")
	}
	w := newWriter(t, fstest.MapFS{"top.yaml": {Data: []byte("base: {}\n")}})
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		w.t, w.bus = t, b
		stop := w.master("m1")
		w.master("m2")
		w.peel("a")
		away := w.peel("b")
		time.Sleep(2 * time.Minute)
		at := w.once("once")
		time.Sleep(30 * time.Minute)
		away()
		time.Sleep(time.Until(at) + 10*time.Minute)
		if got := w.commits(); len(got) != 2 {
			t.Errorf("b could still run the entry: %q", got)
		}
		stop()
		time.Sleep(30 * time.Minute)
		if got := w.commits(); len(got) != 3 || got[0] != "zester: schedules: remove once\n\ndelete_after_run: it ran on 1 of 2 peels.\n" {
			t.Errorf("%q", got)
		}
	})
}

// TestWhatMastersRemoveIsNotHeldBack has enough settings that the guard counts. Entries that a request made go without an approval,
// when they ran and when a person asks; the same change in a commit of a person waits.
func TestWhatMastersRemoveIsNotHeldBack(t *testing.T) {
	if testing.Short() {
		t.Skip("days of a bus in fake time")
	}
	var entries strings.Builder
	entries.WriteString("schedule:\n")
	for i := range 12 {
		entries.WriteString(fmt.Sprintf("  e%d: {module: test.ping, interval: 1h}\n", i))
	}
	w := newWriter(t, fstest.MapFS{"top.yaml": {Data: []byte("base: {'*': [all]}\n")}, "settings/all.yaml": {Data: []byte(entries.String())}})
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		w.t, w.bus = t, b
		w.master("m1")
		w.peel("a")
		time.Sleep(2 * time.Minute)
		at := w.once("once")
		for _, name := range []string{"kept", "other"} {
			if err := w.ask("add", api.ScheduleAddRequest{Name: name, Target: "a", Fields: map[string]any{"module": "test.ping", "interval": "1h"}}); err != nil {
				t.Fatal(err)
			}
		}
		settled := func(what string) {
			t.Helper()
			time.Sleep(3 * time.Minute)
			if r := w.record(); string(r.Commit) != w.head() || r.Blocked != nil {
				t.Errorf("%s: %.7s is in force, not the head; waits: %+v", what, r.Commit, r.Blocked)
			}
		}
		settled("entries of requests")
		time.Sleep(time.Until(at) + 40*time.Minute)
		if got := w.commits()[0]; !strings.HasPrefix(got, "zester: schedules: remove once") {
			t.Fatalf("the newest commit is %q", got)
		}
		settled("an entry that ran")
		if err := w.ask("remove", api.ScheduleChange{Ref: "kept"}); err != nil {
			t.Fatal(err)
		}
		settled("an entry that a person no longer wants")

		clone := filepath.Join(w.dir, "clone")
		run := func(args ...string) {
			t.Helper()
			if out, err := exec.Command("git", append([]string{"-C", clone, "-c", "user.name=zester", "-c", "user.email=zester@example.com"}, args...)...).CombinedOutput(); err != nil {
				t.Fatalf("git %q: %v: %s", args, err, out)
			}
		}
		if err := os.Mkdir(clone, 0o700); err != nil {
			t.Fatal(err)
		}
		run("clone", "-q", w.repo, ".")
		run("rm", "-q", "settings/api/other.yaml", "top.d/api.yaml")
		run("commit", "-q", "-m", "schedules: remove other")
		run("push", "-q", "origin", "HEAD:main")
		time.Sleep(3 * time.Minute)
		if r := w.record(); r.Blocked == nil || !strings.Contains(r.Blocked.Reason, "no peel would have schedule.other any longer") {
			t.Errorf("a commit that only looks like one of a master: %+v", r.Blocked)
		}
	})
}

func (w *writer) record() (r record.Record) {
	w.t.Helper()
	kv, err := w.bus.JetStream(w.t).KeyValue(w.t.Context(), record.Bucket)
	if err == nil {
		r, err = record.NewStore(kv, "", record.Source{}).Read(w.t.Context())
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// head returns the newest commit of the branch.
func (w *writer) head() string {
	w.t.Helper()
	out, err := exec.Command("git", "-C", w.repo, "rev-parse", "main").Output()
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
