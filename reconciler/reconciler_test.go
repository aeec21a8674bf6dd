package reconciler_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

var author = worktree.Author{Name: "Ada", Email: "ada@example.com", When: time.Unix(1_700_000_000, 0)}

// A site is a reconciler with a repo to follow, on a real bus. Everything waits for events: for the end of an attempt
// that the test asked for, or for a document.
type site struct {
	t    *testing.T
	bus  *natstest.Bus
	work *worktree.Work
	dir  string // of the repo
	url  string // where the reconciler reads it; "" is dir
	nc   *nats.Conn
	ops  *nats.Conn
	stop func()

	asked   int // times, by now
	history reconciler.History
	stores  string // directory for stores of repos; "" is a new one at each start
}

func newSite(t *testing.T, files fstest.MapFS) *site {
	s := &site{t: t, bus: natstest.Listen(t), dir: filepath.Join(t.TempDir(), "repo")}
	var err error
	if s.work, err = worktree.Init(s.dir, files, "first", author); err != nil {
		t.Fatal(err)
	}
	s.nc = s.bus.Conn(t, grants.RoleMaster, "m1", nats.ReconnectBufSize(-1))
	s.ops = s.bus.Conn(t, grants.RoleOperator, "op")
	return s
}

// start runs a reconciler until the test or stop ends it.
func (s *site) start() {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	log := slog.New(slog.DiscardHandler)
	r, err := reconciler.New(reconciler.Options{Repo: gitrepo.Options{URL: cmp.Or(s.url, s.dir), Dir: cmp.Or(s.stores, filepath.Join(s.t.TempDir(), "store"))}, Owner: "m1", Poll: time.Hour, History: s.history, Log: log})
	if err != nil {
		s.t.Fatal(err)
	}
	fleet := fleet.New(s.nc, log)
	done := make(chan struct{})
	go func() {
		defer close(done)
		fed := make(chan struct{})
		go func() { defer close(fed); _ = fleet.Run(ctx) }()
		if fleet.WaitReady(ctx) == nil {
			if err := r.Run(ctx, s.nc, fleet); !errors.Is(err, context.Canceled) {
				s.t.Errorf("the reconciler ended: %v", err)
			}
		}
		<-fed
	}()
	s.stop = func() { cancel(); <-done }
	s.t.Cleanup(s.stop)
}

// peel makes a peel known by its facts.
func (s *site) peel(id target.PeelID, facts target.Facts) {
	s.t.Helper()
	s.publish(id, wire.Fact(id.Wire()), wire.Facts{Peel: id, Facts: facts, V: wire.Version})
}

// publish speaks as a peel and waits for the stream.
func (s *site) publish(id target.PeelID, subject string, v any) {
	s.t.Helper()
	data, err := canon.Marshal(v)
	if err != nil {
		s.t.Fatal(err)
	}
	nc := s.bus.Conn(s.t, grants.RolePeel, id.Wire())
	defer nc.Close()
	if _, err := nc.Request(subject, data, time.Minute); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) commit(message string, changes map[string]string) gitrepo.Hash {
	s.t.Helper()
	bytes := map[string][]byte{}
	for name, text := range changes {
		if bytes[name] = []byte(text); text == "" {
			bytes[name] = nil
		}
	}
	h, err := s.work.Commit(message, bytes, author)
	if err != nil {
		s.t.Fatal(err)
	}
	return gitrepo.Hash(h)
}

// now has the branch asked and returns what that came to.
func (s *site) now() status.Sync {
	s.t.Helper()
	if s.asked++; s.asked > 5000 {
		s.t.Fatal("asked 5000 times, and what is waited for does not come")
	}
	var out status.Sync
	s.ask("now", nil, &out)
	return out
}

func (s *site) ask(verb string, question, answer any) {
	s.t.Helper()
	data, err := canon.Marshal(question)
	if err != nil {
		s.t.Fatal(err)
	}
	for {
		msg, err := s.ops.Request(wire.API("sync", verb, "op"), data, time.Minute)
		starting := errors.Is(err, nats.ErrNoResponders) || err == nil && msg.Header.Get("Nats-Service-Error-Code") == "503"
		if starting && s.t.Context().Err() == nil {
			continue
		}
		if err != nil {
			s.t.Fatal(err)
		}
		if text := msg.Header.Get("Nats-Service-Error"); text != "" {
			s.t.Fatalf("sync %s: %s", verb, text)
		}
		if err := canon.Unmarshal(msg.Data, answer); err != nil {
			s.t.Fatal(err)
		}
		return
	}
}

// settled waits until the reconciler has seen all peels.
func (s *site) settled(peels int) status.Sync {
	s.t.Helper()
	for {
		if out := s.now(); out.Counts.Peels == peels || s.t.Context().Err() != nil {
			return out
		}
	}
}

func (s *site) store() *settings.Store {
	s.t.Helper()
	js, err := jetstream.New(s.nc)
	if err != nil {
		s.t.Fatal(err)
	}
	return settings.NewStore(js)
}

func (s *site) held(id target.PeelID) (*settings.Document, uint64) {
	s.t.Helper()
	doc, revision, err := s.store().Get(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return doc, revision
}

func (s *site) document(id target.PeelID) *settings.Document {
	s.t.Helper()
	doc, _ := s.held(id)
	return doc
}

func (s *site) entries(id target.PeelID) []string {
	s.t.Helper()
	doc := s.document(id)
	if doc == nil {
		return nil
	}
	values, err := doc.Values()
	if err != nil {
		s.t.Fatal(err)
	}
	entries, _ := values["schedule"].(map[string]any)
	var names []string
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o644} }

func fleetFiles() fstest.MapFS {
	return fstest.MapFS{
		"top.yaml": file("base:\n  '*': [common]\n  'web-*': [web]\n  'G@os:debian': [deb]\n"),
		"settings/common.yaml": file("schedule:\n  a: {module: test.ping, interval: 1h}\n  b: {module: test.ping, interval: 1h}\n" +
			"  c: {module: test.ping, interval: 1h}\n  d: {module: test.ping, interval: 1h}\n"),
		"settings/web.yaml": file("schedule:\n  w: {module: test.ping, interval: 1h}\n"),
		"settings/deb.yaml": file("schedule:\n  deb: {module: test.ping, cron: '@daily'}\n"),
	}
}

func TestACommitReachesThePeelsThatItConcerns(t *testing.T) {
	s := newSite(t, fleetFiles())
	s.peel("web-01", target.Facts{"os": "ubuntu"})
	s.peel("db.01", target.Facts{"os": "debian"})
	s.start()
	first := s.settled(2)
	if !first.Is(status.Ready) || first.LastGood.Author != "Ada <ada@example.com>" || first.LastGood.Message != "first" || first.Writes != 2 {
		t.Errorf("%+v", first)
	}
	if got := s.entries("web-01"); !slices.Equal(got, []string{"a", "b", "c", "d", "w"}) {
		t.Errorf("web-01 has %v", got)
	}
	if got := s.entries("db.01"); !slices.Equal(got, []string{"a", "b", "c", "d", "deb"}) {
		t.Errorf("db.01 has %v", got)
	}
	before := s.document("db.01")

	head := s.commit("web checks twice as often", map[string]string{"settings/web.yaml": "schedule:\n  x: {module: test.ping, interval: 30m}\n"})
	second := s.now()
	if second.LastGood.Commit != settings.Commit(head.String()) || second.Writes != 1 {
		t.Errorf("%+v", second)
	}
	doc := s.document("web-01")
	if doc.Commit != settings.Commit(head.String()) || doc.Generation <= before.Generation {
		t.Errorf("web-01 runs %s at %d", doc.Commit, doc.Generation)
	}
	x := doc.Origins["x"]
	if x.File != "settings/web.yaml" || x.Line != 2 || x.Commit != doc.Commit || x.Author != "Ada <ada@example.com>" {
		t.Errorf("origin of x: %+v", x)
	}
	if a := doc.Origins["a"]; a.Commit != first.LastGood.Commit {
		t.Errorf("origin of a: %+v", a)
	}
	if after := s.document("db.01"); after.Generation != before.Generation || after.Commit != before.Commit {
		t.Error("db.01 was written though nothing changed for it")
	}
}

func TestACommitForOnePeelOfAHundredIsOneWrite(t *testing.T) {
	s := newSite(t, fstest.MapFS{
		"top.yaml":           file("base:\n  '*': [all]\n  peel-042: [one]\n"),
		"settings/all.yaml":  file("schedule:\n  a: {module: test.ping, interval: 1h}\n"),
		"settings/one.yaml":  file("schedule:\n  b: {module: test.ping, interval: 1h}\n"),
		"settings/none.yaml": file("schedule:\n  c: {module: test.ping, interval: 1h}\n"),
	})
	for i := range 100 {
		s.peel(target.PeelID(fmt.Sprintf("peel-%03d", i)), nil)
	}
	s.start()
	s.settled(100)
	writes := s.writes()
	if out := s.now(); writes != 100 || out.Writes != 100 {
		t.Errorf("%d writes for the first revision", writes)
	}
	s.commit("one", map[string]string{"settings/one.yaml": "schedule:\n  b: {module: test.ping, interval: 2h}\n"})
	if out := s.now(); s.writes() != writes+1 || out.Writes != 1 {
		t.Errorf("%d writes for one peel", s.writes()-writes)
	}
}

// writes is how many documents the bucket has ever stored.
func (s *site) writes() uint64 {
	s.t.Helper()
	stream, err := s.bus.JetStream(s.t).Stream(s.t.Context(), "KV_settings")
	if err != nil {
		s.t.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}

func TestTheSameCommitAgainWritesNothing(t *testing.T) {
	s := newSite(t, fleetFiles())
	s.peel("web-01", nil)
	s.start()
	s.settled(1)
	before := s.document("web-01")
	s.now()
	s.stop()
	s.start() // a new term, from what is stored alone
	s.settled(1)
	s.commit("outside of what counts", map[string]string{"README.md": "hello"})
	if out := s.now(); out.LastGood.Message != "outside of what counts" || out.Writes != 0 {
		t.Errorf("%+v", out)
	}
	if after := s.document("web-01"); after.Generation != before.Generation {
		t.Error("web-01 was written again")
	}
}

func TestABadCommitIsRefusedAsAWhole(t *testing.T) {
	s := newSite(t, fleetFiles())
	s.peel("web-01", nil)
	s.peel("db-01", nil)
	s.start()
	first := s.settled(2)
	before := s.document("web-01")
	s.commit("two mistakes", map[string]string{
		"settings/web.yaml": "schedule:\n  w: {module: test.ping, intervall: 1h}\n",
		"settings/deb.yaml": "schedule:\n  deb: {module: test.ping, cron: '0 0 31 2 *'}\n",
		"settings/new.yaml": "schedule:\n  fine: {module: test.ping, interval: 1h}\n",
	})
	out := s.now()
	if !out.Is(status.CompileFailed) || !out.Is(status.Ready) || out.LastGood.Commit != first.LastGood.Commit {
		t.Errorf("%+v", out)
	}
	all := strings.Join(out.Errors, "\n")
	for _, want := range []string{"settings/deb.yaml:2:", "settings/web.yaml:2:26: schedule.w.intervall: ", `did you mean "interval"?`} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if after := s.document("web-01"); after.Generation != before.Generation {
		t.Error("web-01 was written")
	}
	s.commit("mended", map[string]string{
		"settings/web.yaml": "schedule:\n  w: {module: test.ping, interval: 1h}\n",
		"settings/deb.yaml": "schedule:\n  deb: {module: test.ping, cron: '@daily'}\n",
	})
	if out := s.now(); out.Is(status.CompileFailed) || out.Errors != nil || out.LastGood.Message != "mended" {
		t.Errorf("%+v", out)
	}
}

func TestARevisionThatRemovesTooMuchWaits(t *testing.T) {
	s := newSite(t, fleetFiles())
	for _, id := range []target.PeelID{"web-01", "web-02", "web-03"} {
		s.peel(id, nil)
	}
	s.start()
	s.settled(3)
	s.commit("too much", map[string]string{"settings/common.yaml": "schedule:\n  a: {module: test.ping, interval: 1h}\n"})
	if out := s.now(); !out.Is(status.GuardBlocked) || len(s.entries("web-01")) != 5 {
		t.Errorf("%+v", out)
	}
	s.commit("everything", map[string]string{"top.yaml": "base: {}\n"})
	if out := s.now(); !out.Is(status.GuardBlocked) || len(s.entries("web-01")) != 5 {
		t.Errorf("%+v", out)
	}
}

func TestPeelsAreServedFromTheLastGoodRevisionWhileTheNewestIsBad(t *testing.T) {
	s := newSite(t, fleetFiles())
	s.peel("web-01", nil)
	s.start()
	s.settled(1)
	s.commit("broken", map[string]string{"top.yaml": "base: ["})
	s.now()
	s.peel("web-02", nil)
	out := s.settled(2)
	if !out.Is(status.CompileFailed) || !slices.Equal(s.entries("web-02"), []string{"a", "b", "c", "d", "w"}) {
		t.Errorf("web-02 has %v, %+v", s.entries("web-02"), out)
	}
}

func TestAChangedFactRetargetsWithoutACommit(t *testing.T) {
	s := newSite(t, fleetFiles())
	s.peel("db-01", target.Facts{"os": "ubuntu"})
	s.start()
	s.settled(1)
	watch := s.bus.Conn(t, grants.RolePeel, "db-01")
	sub, err := watch.SubscribeSync(wire.Settings("db-01"))
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Flush(); err != nil {
		t.Fatal(err)
	}
	s.peel("db-01", target.Facts{"os": "debian"})
	msg, err := sub.NextMsg(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := settings.Decode(msg.Data, "db-01")
	if err != nil || doc.Origins["deb"].File != "settings/deb.yaml" {
		t.Errorf("%+v, %v", doc, err)
	}
}

func TestWarningsAreAboutTheFleetAsItIs(t *testing.T) {
	s := newSite(t, fleetFiles())
	s.start()
	if warnings := s.settled(0).Warnings; len(warnings) == 0 {
		t.Fatal("no warning that nobody is matched")
	}
	s.peel("web-01", target.Facts{"os": "debian"})
	for len(s.now().Warnings) > 0 { // now gives up in the end
	}
}

func TestAPeelThatNothingMatchesGetsAnEmptyDocument(t *testing.T) {
	s := newSite(t, fleetFiles())
	s.peel("web-01", nil)
	for _, id := range []target.PeelID{"db-01", "db-02", "db-03", "db-04"} {
		s.peel(id, nil)
	}
	s.start()
	s.settled(5)
	s.commit("all but web-01\n\nZester-Allow: remove", map[string]string{"top.yaml": "base:\n  'not web-01': [common]\n"})
	if out := s.now(); out.Is(status.GuardBlocked) {
		t.Fatalf("%+v", out)
	}
	if doc := s.document("web-01"); doc == nil || len(s.entries("web-01")) != 0 {
		t.Errorf("web-01 has %v", s.entries("web-01"))
	}
}

func TestABranchThatCannotBeReadChangesNothing(t *testing.T) {
	s := newSite(t, fleetFiles())
	s.peel("web-01", nil)
	s.start()
	s.settled(1)
	before := s.document("web-01")
	head := filepath.Join(s.dir, ".git", "refs", "heads", "main")
	ref, err := os.ReadFile(head)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(head); err != nil {
		t.Fatal(err)
	}
	out := s.now()
	if !out.Is(status.FetchFailed) || !out.Is(status.Ready) {
		t.Errorf("without the branch: %+v", out)
	}
	if after := s.document("web-01"); after.Generation != before.Generation {
		t.Error("web-01 was written")
	}
	if err := os.WriteFile(head, ref, 0o644); err != nil {
		t.Fatal(err)
	}
	if out := s.now(); out.Is(status.FetchFailed) {
		t.Errorf("with the branch back: %+v", out)
	}
}

func TestReportsSayHowFarPeelsAre(t *testing.T) {
	s := newSite(t, fleetFiles())
	s.peel("web-01", nil)
	s.peel("web-02", nil)
	s.start()
	s.settled(2)
	doc := s.document("web-01")
	s.publish("web-01", wire.SettingsApplied("web-01"), wire.Applied{
		Peel: "web-01", Commit: string(doc.Commit), Generation: doc.Generation, Digest: string(doc.Digest), Started: 5, V: wire.Version,
	})
	for {
		out := s.now()
		if out.Counts == (status.Counts{Peels: 2, Applied: 1, Pending: 1}) {
			break
		}
		if out.Counts.Applied > 1 || t.Context().Err() != nil {
			t.Fatalf("%+v", out.Counts)
		}
	}
	var page status.SyncPeelsPage
	s.ask("peels", status.PeelsRequest{Cursor: "web-00"}, &page)
	if len(page.Peels) != 2 || page.Peels[0].State != status.Applied || page.Peels[0].Started != 5 || page.Peels[1].State != status.Pending {
		t.Errorf("%+v", page)
	}
}

func TestARewoundBranchIsFollowedAndShownWhereThatIsAllowed(t *testing.T) {
	s := newSite(t, fleetFiles())
	s.history = reconciler.HistoryAllow
	s.peel("web-01", nil)
	s.start()
	first := s.settled(1)
	s.commit("newer", map[string]string{"settings/web.yaml": "schedule:\n  w: {module: test.ping, interval: 2h}\n"})
	s.now()
	if err := os.WriteFile(filepath.Join(s.dir, ".git", "refs", "heads", "main"), []byte(first.LastGood.Commit+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := s.now()
	if c := condition(out, status.HistoryRewritten); out.LastGood.Commit != first.LastGood.Commit || !c.Status || c.Reason != "Rewound" {
		t.Errorf("%+v", out)
	}
	if doc := s.document("web-01"); doc.Commit != first.LastGood.Commit {
		t.Errorf("web-01 runs %s", doc.Commit)
	}
}

func TestARevisionWithoutATopFileIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		changes map[string]string
		want    status.Type
		reason  string
	}{
		"no top file":   {map[string]string{"top.yaml": ""}, status.CompileFailed, "TopMissing"},
		"an empty tree": {map[string]string{"top.yaml": "", "settings/common.yaml": "", "settings/web.yaml": "", "settings/deb.yaml": ""}, status.GuardBlocked, "TooManyChanges"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, fleetFiles())
			s.peel("web-01", nil)
			s.start()
			s.settled(1)
			before := s.document("web-01")
			s.commit(name, c.changes)
			out := s.now()
			i := slices.IndexFunc(out.Conditions, func(o status.Condition) bool { return o.Type == c.want && o.Status })
			if i < 0 || out.Conditions[i].Reason != c.reason {
				t.Errorf("%+v", out.Conditions)
			}
			if after := s.document("web-01"); after.Generation != before.Generation {
				t.Error("web-01 was written")
			}
		})
	}
}

func TestARepoThatIsNotThereYetIsWaitedFor(t *testing.T) {
	s := newSite(t, fleetFiles())
	hidden := s.dir + ".hidden"
	if err := os.Rename(s.dir, hidden); err != nil {
		t.Fatal(err)
	}
	s.peel("web-01", nil)
	s.start()
	if out := s.now(); !out.Is(status.FetchFailed) || out.Is(status.Ready) || s.document("web-01") != nil {
		t.Errorf("without a repo: %+v", out)
	}
	if err := os.Rename(hidden, s.dir); err != nil {
		t.Fatal(err)
	}
	s.now()
	if out := s.settled(1); !out.Is(status.Ready) || len(s.entries("web-01")) != 5 {
		t.Errorf("with the repo: %+v", out)
	}
}

func TestAWriteOfAnotherLeaderIsNeverOverwrittenBlindly(t *testing.T) {
	s := newSite(t, fleetFiles())
	s.peel("web-01", nil)
	s.start()
	s.settled(1)
	doc, revision := s.held("web-01")
	doc.Generation++
	if _, err := s.store().Publish(t.Context(), slices.Values([]settings.Write{{Document: doc, Revision: revision}})); err != nil {
		t.Fatal(err)
	}
	head := s.commit("newer", map[string]string{"settings/web.yaml": "schedule:\n  w: {module: test.ping, interval: 2h}\n"})
	for s.now().LastGood.Commit != settings.Commit(head.String()) && t.Context().Err() == nil {
	}
	if after := s.document("web-01"); after.Generation <= doc.Generation || after.Commit != settings.Commit(head.String()) {
		t.Errorf("web-01 runs %s at %d after %d", after.Commit, after.Generation, doc.Generation)
	}
}

func TestTheSameContentOnAnotherHistoryWritesNothing(t *testing.T) {
	s := newSite(t, fleetFiles())
	s.history = reconciler.HistoryAllow
	s.peel("web-01", nil)
	s.start()
	s.settled(1)
	before := s.document("web-01")
	other, err := worktree.Init(s.dir+".orphan", fleetFiles(), "another beginning", author)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{".git/objects", ".git/refs"} {
		if err := os.RemoveAll(filepath.Join(s.dir, dir)); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(filepath.Join(s.dir, dir), os.DirFS(filepath.Join(other.Dir(), dir))); err != nil {
			t.Fatal(err)
		}
	}
	out := s.now()
	if c := condition(out, status.HistoryRewritten); out.LastGood.Message != "another beginning" || !c.Status || c.Reason != "ForcePushed" || out.Writes != 0 {
		t.Errorf("%+v", out)
	}
	if after := s.document("web-01"); after.Generation != before.Generation {
		t.Error("web-01 was written")
	}
}

// The poll is an hour away.
func TestACommitToALocalRepoIsSeenAtOnce(t *testing.T) {
	s := newSite(t, fleetFiles())
	s.peel("web-01", nil)
	s.start()
	s.settled(1)
	watch := s.bus.Conn(t, grants.RolePeel, "web-01")
	sub, err := watch.SubscribeSync(wire.Settings("web-01"))
	if err == nil {
		err = watch.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	head := s.commit("x", map[string]string{"settings/web.yaml": "schedule:\n  x: {module: test.ping, interval: 30m}\n"})
	msg, err := sub.NextMsg(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if doc, err := settings.Decode(msg.Data, "web-01"); err != nil || doc.Commit != settings.Commit(head.String()) {
		t.Errorf("%+v, %v", doc, err)
	}
}
