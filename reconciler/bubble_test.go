package reconciler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

// A bench is a reconciler with a repo and a fleet in fake time, on a real bus. The local repo is polled and not watched,
// because fake time stands still while the system is waited for.
type bench struct {
	t    *testing.T
	bus  *natstest.Bus
	work *worktree.Work
	dir  string // of the repo
	poll time.Duration
	keys gitrepo.Trust // that heads have to be signed by

	identities []string // files
	history    History
	mayAllow   []string
	ownKey     string
	notify     []*notify.Place
	checkLease func() error // if nil, the lease is held

	mu    sync.Mutex
	peels map[target.PeelID]*actor

	nc   *nats.Conn // of a master
	ops  *nats.Conn
	term *term // of the reconciler that runs, for what only a loop can see
	stop func()
}

// An actor speaks as a peel.
type actor struct {
	nc     *nats.Conn
	away   bool     // it sends no heartbeats
	takes  bool     // it reports each document as applied
	errors []string // that it reports with it
}

// inBubble runs f with a repo that holds files.
func inBubble(t *testing.T, files fstest.MapFS, f func(b *bench)) {
	t.Helper()
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		b := &bench{t: t, bus: bus, dir: filepath.Join(t.TempDir(), "repo"), poll: 30 * time.Second, peels: map[target.PeelID]*actor{}}
		var err error
		if b.work, err = worktree.Init(b.dir, files, "first", ada); err != nil {
			t.Fatal(err)
		}
		b.nc = bus.Conn(t, grants.RoleMaster, "m1", nats.ReconnectBufSize(-1))
		b.ops = bus.Conn(t, grants.RoleOperator, "op")
		t.Cleanup(func() {
			if b.stop != nil {
				b.stop()
			}
		})
		f(b)
		if b.stop != nil {
			b.stop() // before the connections of the peels close
			synctest.Wait()
		}
	})
}

var ada = worktree.Author{Name: "Ada", Email: "ada@example.com", When: time.Unix(1_700_000_000, 0)}

// start runs a reconciler, in a store of its own, until stop or the end of the test.
func (b *bench) start() {
	b.t.Helper()
	b.startIn(b.t.TempDir())
}

func (b *bench) startIn(store string) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	log := slog.New(slog.DiscardHandler)
	r, err := New(Options{Repo: gitrepo.Options{URL: b.dir, Dir: store, Verify: b.keys}, Owner: "m1", Poll: b.poll, Identities: b.identities, History: b.history, MayAllow: b.mayAllow, OwnKey: b.ownKey, Notify: b.notify, Log: log})
	if err != nil {
		b.t.Fatal(err)
	}
	js, err := jetstream.New(b.nc)
	if err != nil {
		b.t.Fatal(err)
	}
	fleet := fleet.New(b.nc, log)
	ended := make(chan struct{}, 2)
	go func() { _ = fleet.Run(ctx); ended <- struct{}{} }()
	if err := fleet.WaitReady(ctx); err != nil {
		b.t.Fatal(err)
	}
	check := alwaysLeads
	if b.checkLease != nil {
		check = b.checkLease
	}
	if b.term, err = r.newTerm(ctx, b.nc, js, fleet, check); err != nil {
		b.t.Fatal(err)
	}
	t := b.term
	go func() {
		if err := errors.Join(t.run(ctx, nil), t.source.Close()); !errors.Is(err, context.Canceled) {
			b.t.Errorf("the term ended: %v", err)
		}
		ended <- struct{}{}
	}()
	go b.beat(ctx)
	b.stop = func() {
		if cancel != nil {
			cancel()
			<-ended
			<-ended
		}
		cancel = nil
	}
	b.after(time.Second)
}

// alwaysLeads stands for the check of a lease that is held.
func alwaysLeads() error { return nil }

// after lets time pass, and all that follows happen.
func (b *bench) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// record reads the record as it is stored.
func (b *bench) record() record.Record {
	b.t.Helper()
	r, err := record.NewStore(b.term.rollout, "", record.Source{}).Read(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// beat is the heartbeats of all peels that are not away.
func (b *bench) beat(ctx context.Context) {
	for tick := time.NewTicker(30 * time.Second); ; {
		b.mu.Lock()
		for id, p := range b.peels {
			if !p.away {
				_ = p.nc.Publish(wire.Heartbeat(id.Wire()), nil)
			}
		}
		b.mu.Unlock()
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
	}
}

// peel adds a peel that is online and takes what it is given.
func (b *bench) peel(id target.PeelID, facts target.Facts) {
	b.t.Helper()
	p := &actor{nc: b.bus.Conn(b.t, grants.RolePeel, id.Wire()), takes: true}
	_, err := p.nc.Subscribe(wire.Settings(id.Wire()), func(m *nats.Msg) {
		doc, err := settings.Decode(m.Data, id)
		b.mu.Lock()
		takes, errs := p.takes, p.errors
		b.mu.Unlock()
		if err == nil && takes {
			b.say(id, wire.SettingsApplied(id.Wire()), reportOn(doc, errs...))
		}
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.mu.Lock()
	b.peels[id] = p
	b.mu.Unlock()
	b.say(id, wire.Fact(id.Wire()), wire.Facts{Peel: id, Facts: facts, V: wire.Version})
	if err := p.nc.Publish(wire.Heartbeat(id.Wire()), nil); err != nil {
		b.t.Fatal(err)
	}
	synctest.Wait()
}

// alter changes how peels behave from now on.
func (b *bench) alter(change func(*actor), ids ...target.PeelID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		change(b.peels[id])
	}
}

func silent(p *actor) { p.takes = false }

func away(p *actor) { p.away, p.takes = true, false }

func reportOn(doc *settings.Document, errs ...string) wire.Applied {
	return wire.Applied{
		Peel: doc.Peel, Commit: string(doc.Commit), Generation: doc.Generation, Digest: string(doc.Digest), Errors: errs, V: wire.Version,
	}
}

// say publishes as a peel.
func (b *bench) say(id target.PeelID, subject string, v any) {
	data, err := canon.Marshal(v)
	if raw, ok := v.([]byte); ok {
		data, err = raw, nil
	}
	b.mu.Lock()
	nc := b.peels[id].nc
	b.mu.Unlock()
	if err == nil {
		err = nc.Publish(subject, data)
	}
	if err != nil {
		b.t.Error(err)
	}
}

// applies has a peel report that it runs what it was given.
func (b *bench) applies(id target.PeelID, errs ...string) {
	b.t.Helper()
	b.say(id, wire.SettingsApplied(id.Wire()), reportOn(b.document(id), errs...))
	b.after(2 * time.Second)
}

// runs has a peel report a run of an entry in the version that it was given.
func (b *bench) runs(id target.PeelID, entry string, result wire.Result) {
	b.t.Helper()
	jid := wire.NewJID()
	b.say(id, wire.ScheduledOf(jid, id.Wire()), wire.ScheduledResult{
		JID: jid, Peel: id, Entry: entry, Function: "test.ping", Result: result, Commit: string(b.document(id).Origins[entry].Commit), V: wire.Version,
	})
	b.after(2 * time.Second)
}

func (b *bench) document(id target.PeelID) *settings.Document {
	b.t.Helper()
	js, err := jetstream.New(b.nc)
	if err != nil {
		b.t.Fatal(err)
	}
	doc, _, err := settings.NewStore(js).Get(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return doc
}

// entries are the names of what a peel is to run.
func (b *bench) entries(id target.PeelID) string {
	b.t.Helper()
	doc := b.document(id)
	if doc == nil {
		return "no document"
	}
	values, err := doc.Values()
	if err != nil {
		b.t.Fatal(err)
	}
	entries, _ := values["schedule"].(map[string]any)
	return strings.Join(slices.Sorted(maps.Keys(entries)), "")
}

func (b *bench) commit(message string, changes map[string]string) settings.Commit {
	b.t.Helper()
	files := map[string][]byte{}
	for name, text := range changes {
		if files[name] = []byte(text); text == "" {
			files[name] = nil
		}
	}
	h, err := b.work.Commit(message, files, ada)
	if err != nil {
		b.t.Fatal(err)
	}
	return settings.Commit(h.String())
}

// ask asks the reconciler and returns its answer, or why it refuses.
func (b *bench) ask(verb string, question, answer any) (refusal string) {
	b.t.Helper()
	data, err := canon.Marshal(question)
	if err != nil {
		b.t.Fatal(err)
	}
	msg, err := b.ops.Request(wire.API("sync", verb, "op"), data, 3*time.Minute)
	if err != nil {
		b.t.Fatalf("sync %s: %v", verb, err)
	}
	if text := msg.Header.Get("Nats-Service-Error"); text != "" {
		return text
	}
	if err := canon.Unmarshal(msg.Data, answer); err != nil {
		b.t.Fatal(err)
	}
	return ""
}

func (b *bench) told(verb string, question any) (out status.Sync) {
	b.t.Helper()
	if why := b.ask(verb, question, &out); why != "" {
		b.t.Fatalf("sync %s: %s", verb, why)
	}
	b.after(2 * time.Second)
	return b.status()
}

func (b *bench) status() (out status.Sync) {
	b.t.Helper()
	if why := b.ask("status", nil, &out); why != "" {
		b.t.Fatal(why)
	}
	return out
}

// now has the branch asked and returns what that came to.
func (b *bench) now() status.Sync { b.t.Helper(); return b.told("now", nil) }

// writes is how many documents the bucket has ever stored.
func (b *bench) writes() uint64 {
	b.t.Helper()
	stream, err := b.bus.JetStream(b.t).Stream(b.t.Context(), "KV_settings")
	if err != nil {
		b.t.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}

// moveTo points the branch at a commit, as a force push would.
func (b *bench) moveTo(commit settings.Commit) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, ".git", "refs", "heads", "main"), []byte(commit+"\n"), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func text(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s), Mode: 0o644} }

// site is a fleet's repo: every peel has a, b, c and d, and those of web w as well.
func siteFiles() fstest.MapFS {
	return fstest.MapFS{
		"top.yaml":             text("base:\n  '*': [common]\n  'web-*': [web]\n"),
		"settings/common.yaml": text("schedule:\n  a: {module: test.ping, interval: 1h}\n  b: {module: test.ping, interval: 1h}\n  c: {module: test.ping, interval: 1h}\n  d: {module: test.ping, interval: 1h}\n"),
		"settings/web.yaml":    text("schedule:\n  w: {module: test.ping, interval: 1h}\n"),
	}
}

const xForW = "schedule:\n  x: {module: test.ping, interval: 30m}\n"

// webs names n peels in the order of the waves.
func webs(n int) (ids []target.PeelID) {
	for i := range n {
		ids = append(ids, target.PeelID(fmt.Sprintf("web-%02d", i)))
	}
	slices.SortFunc(ids, func(a, b target.PeelID) int { return bytes.Compare(mark(a), mark(b)) })
	return ids
}

// mark is the mark of a peel, by which waves are ordered.
func mark(id target.PeelID) []byte {
	m := record.MarkPeel(id)
	return m[:]
}
