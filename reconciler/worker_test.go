package reconciler_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/reconciler"
	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/content"
	"github.com/seed-c01c3da5/zester/reconciler/decide"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/reconciler/plan/blame"
	"github.com/seed-c01c3da5/zester/reconciler/progress"
	"github.com/seed-c01c3da5/zester/reconciler/publish"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/source"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

var workerAuthor = worktree.Author{Name: "Ada", Email: "ada@example.com"}

// A fixture is a worker with a repo and two peels, on a real bus.
type fixture struct {
	*reconciler.Worker
	t     *testing.T
	work  *worktree.Work
	store *settings.Store
	first settings.Commit

	bus      *natstest.Bus
	contents *content.Store
	archive  *archive.Archive
}

func withWorker(t *testing.T, o reconciler.WorkerOptions, f func(t *testing.T, x *fixture)) {
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		log := slog.New(slog.DiscardHandler)
		work, err := worktree.Init(filepath.Join(t.TempDir(), "repo"), fstest.MapFS{
			"top.yaml":          {Data: []byte("base:\n  '*': [all]\n")},
			"settings/all.yaml": {Data: []byte("schedule:\n  a: {module: test.ping, interval: 1h}\n")},
		}, "first", workerAuthor)
		must(t, err)
		nc := bus.Conn(t, grants.RoleMaster, "m1")
		js, err := jetstream.New(nc)
		must(t, err)
		bucket, err := js.KeyValue(t.Context(), record.Bucket)
		must(t, err)
		o.JetStream, o.Fleet = js, fleet.New(nc, log)
		for _, id := range []target.PeelID{"web-01", "web-02"} {
			o.Fleet.Index().Put(id, nil)
		}
		branch, err := source.New(gitrepo.Options{URL: work.Dir(), Dir: t.TempDir()}, 0)
		must(t, err)
		defer branch.Close()
		o.Contents, err = content.Open(t.Context(), js, func() error { return nil })
		must(t, err)
		o.Archive, err = archive.Open(t.Context(), js, o.Contents, "repo", log)
		must(t, err)
		o.Reader = branch.Reader(o.Archive)
		o.Blamer = blame.New(o.Reader.History())
		o.Progress = progress.New(o.Fleet, make(chan struct{}, 1), log)
		sealer, err := settings.NewSealer()
		must(t, err)
		o.Published, err = publish.Load(t.Context(), publish.Options{
			JetStream: js, Rollout: bucket, Fleet: o.Fleet, Blamer: o.Blamer, Sealer: sealer, CheckLease: func() error { return nil },
		})
		must(t, err)
		head, err := work.Head()
		must(t, err)
		storing, stop := context.WithCancel(t.Context())
		stored := make(chan struct{})
		go func() { defer close(stored); _ = o.Archive.Run(storing) }()
		defer func() { stop(); <-stored }()
		f(t, &fixture{reconciler.NewWorker(o), t, work, settings.NewStore(js), settings.Commit(head.String()), bus, o.Contents, o.Archive})
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// commit replaces settings/all.yaml.
func (x *fixture) commit(content string) settings.Commit {
	x.t.Helper()
	h, err := x.work.Commit("next", map[string][]byte{"settings/all.yaml": []byte(content)}, workerAuthor)
	must(x.t, err)
	return settings.Commit(h.String())
}

// do runs a task for a record.
func (x *fixture) do(kind decide.Kind, commit settings.Commit, r record.Record) reconciler.Result {
	return x.Do(x.t.Context(), reconciler.Task{Kind: kind, Commit: commit, Goal: decide.GoalOf(&r), Record: r})
}

// publish prepares the revision of a record and writes its documents as another record, and returns the result of the write.
func (x *fixture) publish(ctx context.Context, prepare, write record.Record) reconciler.Result {
	x.t.Helper()
	prepared := x.do(decide.DoPrepare, "", prepare)
	must(x.t, prepared.Err)
	return x.Do(ctx, reconciler.Task{Kind: decide.DoPublish, Goal: decide.GoalOf(&write), Record: write, Due: prepared.Prepared.Due})
}

// commitOf returns the commit of a peel's stored document, empty if there is none.
func (x *fixture) commitOf(id target.PeelID) settings.Commit {
	x.t.Helper()
	doc, _, err := x.store.Get(x.t.Context(), id)
	must(x.t, err)
	if doc == nil {
		return ""
	}
	return doc.Commit
}

func TestAMistakeInARevisionIsInItsJudgement(t *testing.T) {
	withWorker(t, reconciler.WorkerOptions{}, func(t *testing.T, x *fixture) {
		out := x.do(decide.DoJudge, x.first, record.Record{})
		if out.Err != nil || out.Judged.Refused != nil || out.Judged.Change == nil || out.Judged.Change.Change.Peels != 2 {
			t.Errorf("the first revision: %+v, %v", out.Judged, out.Err)
		}
		broken := x.commit("schedule: {a: {intervall: 1h}}\n")
		out = x.do(decide.DoJudge, broken, record.Record{Commit: x.first})
		if out.Err != nil || out.Judged.Refused == nil || out.Judged.Refused.Kind != status.CompileFailed || out.Judged.Change != nil {
			t.Errorf("a revision with a mistake: %+v, %v", out.Judged, out.Err)
		}
		if x.commitOf("web-01") != "" {
			t.Error("a judgement has written a document")
		}
	})
}

func TestARevisionThatCannotBeReadIsAnErrorAndNotRefused(t *testing.T) {
	withWorker(t, reconciler.WorkerOptions{}, func(t *testing.T, x *fixture) {
		missing := settings.Commit("00000000000000000000000000000000000000aa")
		if out := x.do(decide.DoJudge, missing, record.Record{}); out.Err == nil || out.Judged != nil {
			t.Errorf("judged: %+v, %v", out.Judged, out.Err)
		}
		if out := x.do(decide.DoPrepare, "", record.Record{Commit: missing}); out.Err == nil || out.Prepared != nil {
			t.Errorf("prepared: %+v, %v", out.Prepared, out.Err)
		}
	})
}

// A revision in force that is broken or lost is said to be, and an error of the bus is not taken for that.
func TestARevisionInForceThatCannotBeReadIsSaid(t *testing.T) {
	withWorker(t, reconciler.WorkerOptions{History: reconciler.HistoryAllow}, func(t *testing.T, x *fixture) {
		waves := policy.Safety{Waves: []policy.Wave{{Name: "canary", Peels: policy.AllPeels}}}
		h, err := x.work.Commit("broken", map[string][]byte{"zester.yaml": []byte("waves: 7\n")}, workerAuthor)
		must(t, err)
		broken := settings.Commit(h.String())
		next, err := x.work.Commit("next", map[string][]byte{"settings/all.yaml": []byte("a: 1\n"), "zester.yaml": []byte("waves: [{name: canary, peels: 100%}]\n")}, workerAuthor)
		must(t, err)
		head := settings.Commit(next.String())
		for _, c := range []struct {
			name string
			r    record.Record
			says bool
		}{
			{"broken", record.Record{Commit: broken, Safety: waves}, true},
			{"broken, without waves", record.Record{Commit: broken}, false},
			{"lost", record.Record{Commit: "00000000000000000000000000000000000000aa", Safety: waves}, true},
			{"readable", record.Record{Commit: x.first, Safety: waves}, false},
			{"none", record.Record{}, false},
		} {
			out := x.do(decide.DoJudge, head, c.r)
			if out.Err != nil || out.Judged.Refused != nil || (out.Judged.Guard.Unreadable != "") != c.says || out.Judged.Guard.Weakened != "" {
				t.Errorf("%s: %+v, %v", c.name, out.Judged, out.Err)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		lost := record.Record{Commit: "00000000000000000000000000000000000000aa", Safety: waves}
		if out := x.Do(ended, reconciler.Task{Kind: decide.DoJudge, Commit: head, Goal: decide.GoalOf(&lost), Record: lost}); out.Err == nil {
			t.Errorf("the bus did not answer: %+v", out.Judged)
		}
	})
}

func TestHistoryDecidesAboutARewrittenBranch(t *testing.T) {
	for _, c := range []struct {
		history            reconciler.History
		refused, rewritten bool
	}{{"", false, true}, {reconciler.HistoryApprove, false, true}, {reconciler.HistoryForbid, true, false}, {reconciler.HistoryAllow, false, false}} {
		withWorker(t, reconciler.WorkerOptions{History: c.history}, func(t *testing.T, x *fixture) {
			newer := x.commit("x: 1\n")
			out := x.do(decide.DoJudge, x.first, record.Record{Commit: newer})
			must(t, out.Err)
			if (out.Judged.Refused != nil) != c.refused || (out.Judged.Guard.Rewritten != "") != c.rewritten {
				t.Errorf("history %q: %+v", c.history, out.Judged)
			}
			compared := x.do(decide.DoCompare, newer, record.Record{Pinned: &record.Pin{Commit: x.first}})
			if compared.Err != nil || !compared.Compared.Descends {
				t.Errorf("history %q: %+v, %v", c.history, compared.Compared, compared.Err)
			}
		})
	}
}

func TestOnlyDocumentsOfTheRecordAreWritten(t *testing.T) {
	withWorker(t, reconciler.WorkerOptions{}, func(t *testing.T, x *fixture) {
		r := record.Record{Commit: x.first, Generation: 1}
		if out := x.publish(t.Context(), r, record.Record{Commit: x.commit("x: 1\n"), Generation: 1}); out.Err == nil || out.Writes != 0 {
			t.Errorf("with a record of another revision: %d documents, %v", out.Writes, out.Err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if out := x.publish(ended, r, r); out.Err == nil || out.Writes != 0 || x.commitOf("web-01") != "" {
			t.Errorf("after the end of the context: %d documents, %v", out.Writes, out.Err)
		}
		if out := x.publish(t.Context(), r, r); out.Err != nil || out.Writes != 2 || x.commitOf("web-02") != x.first {
			t.Errorf("%d documents, %v", out.Writes, out.Err)
		}
		if out := x.do(decide.DoPrepare, "", r); out.Err != nil || out.Prepared.Lacking != 0 {
			t.Errorf("%d documents lack after all were written, %v", out.Prepared.Lacking, out.Err)
		}
	})
}

func TestARolloutGivesTheNewRevisionToItsMembersOnly(t *testing.T) {
	withWorker(t, reconciler.WorkerOptions{}, func(t *testing.T, x *fixture) {
		r := record.Record{Commit: x.first, Generation: 1}
		must(t, x.publish(t.Context(), r, r).Err)
		next := x.commit("schedule:\n  a: {module: test.ping, interval: 2h}\n")
		r.Generation = 2
		r.Rollout = &record.Rollout{Commit: next, Members: record.NewMarks([]record.Mark{record.MarkPeel("web-02")})}
		if out := x.publish(t.Context(), r, r); out.Err != nil || out.Writes != 1 {
			t.Errorf("%d documents, %v", out.Writes, out.Err)
		}
		if x.commitOf("web-01") != x.first || x.commitOf("web-02") != next {
			t.Errorf("web-01 has %s, web-02 has %s", x.commitOf("web-01"), x.commitOf("web-02"))
		}
		out := x.do(decide.DoPrepare, "", r)
		must(t, out.Err)
		if watched := out.Prepared.Watched; len(watched) != 1 || watched["web-02"]["a"] != next {
			t.Errorf("the runs of %v are watched", watched)
		}
	})
}

// A peel has a revision that was rolled back, and a change of its facts waited before: the revision has to go all the same.
func TestFactsDoNotHoldBackARevisionThatWasRolledBack(t *testing.T) {
	withWorker(t, reconciler.WorkerOptions{}, func(t *testing.T, x *fixture) {
		bad := record.Record{Commit: x.commit("schedule:\n  a: {module: test.ping, interval: 2h}\n"), Generation: 2}
		must(t, x.publish(t.Context(), bad, bad).Err)
		r := record.Record{Commit: x.first, Generation: 2, Served: 1, Skipped: []record.Skipped{{Commit: bad.Commit}}}
		r.Facts = record.Facts{Hash: "f", Reason: "waits", Peels: record.NewMarks([]record.Mark{record.MarkPeel("web-01")})}
		out := x.do(decide.DoPrepare, "", r)
		must(t, out.Err)
		if p := out.Prepared; len(p.Facts.Keep) > 0 || p.Lacking != 2 {
			t.Errorf("%d peels keep what was rolled back, %d get the revision in force", len(p.Facts.Keep), p.Lacking)
		}
	})
}

func TestRemoveReportsWhetherThereWereSettings(t *testing.T) {
	withWorker(t, reconciler.WorkerOptions{}, func(t *testing.T, x *fixture) {
		r := record.Record{Commit: x.first, Generation: 1}
		must(t, x.publish(t.Context(), r, r).Err)
		var held []bool
		for range 2 {
			had, err := x.Remove(t.Context(), "web-01")
			must(t, err)
			held = append(held, had)
		}
		if !slices.Equal(held, []bool{true, false}) || x.commitOf("web-01") != "" || x.commitOf("web-02") == "" {
			t.Errorf("had settings: %v", held)
		}
	})
}
