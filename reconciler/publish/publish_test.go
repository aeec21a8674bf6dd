package publish

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
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
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/blame"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

const commit = settings.Commit("1111111111111111111111111111111111111111")

// A bench is a bus and plans for a fleet of four peels.
type bench struct {
	t        *testing.T
	js       jetstream.JetStream
	rollout  jetstream.KeyValue
	fleet    *fleet.Fleet
	compiler *plan.Compiler
}

func inBubble(t *testing.T, f func(t *testing.T, b *bench)) {
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		nc := bus.Conn(t, grants.RoleMaster, "m1", nats.ReconnectBufSize(-1))
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		b := &bench{t: t, js: js, fleet: fleet.New(nc, slog.New(slog.DiscardHandler)), compiler: plan.NewCompiler()}
		if b.rollout, err = js.KeyValue(t.Context(), record.Bucket); err != nil {
			t.Fatal(err)
		}
		for _, id := range []target.PeelID{"a", "b", "c", "d"} {
			b.fleet.Index().Put(id, nil)
		}
		f(t, b)
	})
}

// load reads what was published, as a new leader does. If check is nil, this master leads.
func (b *bench) load(check func() error) *Published {
	b.t.Helper()
	if check == nil {
		check = func() error { return nil }
	}
	sealer, err := settings.NewSealer()
	if err != nil {
		b.t.Fatal(err)
	}
	p, err := Load(b.t.Context(), Options{
		JetStream: b.js, Rollout: b.rollout, Fleet: b.fleet, Blamer: blame.New(blame.History{}), Sealer: sealer, CheckLease: check,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// plan gives the peel a one setting and all others another.
func (b *bench) plan(a, others int) *plan.Plan {
	b.t.Helper()
	p, err := b.compiler.Compile(fstest.MapFS{
		"top.yaml":          {Data: []byte("base:\n  a: [a]\n  'not a': [all]\n")},
		"settings/a.yaml":   {Data: fmt.Appendf(nil, "v: %d\n", a)},
		"settings/all.yaml": {Data: fmt.Appendf(nil, "v: %d\n", others)},
	}, b.fleet.Index())
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func whole(p *plan.Plan) Portion { return Portion{Commit: commit, Peels: p.Peels, Plan: p} }

func inForce(generation uint64) record.Record {
	return record.Record{Commit: commit, Generation: generation}
}

func (b *bench) due(p *Published, portions ...Portion) *Due {
	b.t.Helper()
	d, err := p.Due(b.t.Context(), portions...)
	if err != nil {
		b.t.Fatal(err)
	}
	return d
}

// write writes what is due of a plan and returns the number of documents.
func (b *bench) write(p *Published, wanted *plan.Plan, generation uint64) int {
	b.t.Helper()
	n, err := p.Write(b.t.Context(), b.due(p, whole(wanted)), inForce(generation))
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// stored returns the generation of each peel's document in the bucket.
func (b *bench) stored() map[target.PeelID]uint64 {
	b.t.Helper()
	heads, err := settings.NewStore(b.js).Load(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	all := map[target.PeelID]uint64{}
	for _, h := range heads {
		all[h.Peel] = h.Generation
	}
	return all
}

func TestOnlyChangedDocumentsAreWritten(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		p := b.load(nil)
		first := b.plan(1, 1)
		if n := b.write(p, first, 10); n != 4 || p.plan != first || p.Generation() != 10 {
			t.Errorf("%d documents, generation %d", n, p.Generation())
		}
		if n := b.due(p, whole(first)).Len(); n != 0 {
			t.Errorf("%d documents are due of the same plan", n)
		}
		second := b.plan(2, 1)
		next := b.load(nil) // knows no plan, so that it looks at every peel
		for _, p := range []*Published{next, p} {
			if d := b.due(p, whole(second)); !slices.Equal(d.parts[0].due, []target.PeelID{"a"}) {
				t.Errorf("due: %v", d.parts[0].due)
			}
		}
		if n := b.write(p, second, 11); n != 1 || !maps.Equal(b.stored(), map[target.PeelID]uint64{"a": 11, "b": 10, "c": 10, "d": 10}) {
			t.Errorf("%d documents, %v", n, b.stored())
		}
		if base := p.Base(t.Context()); base.Plan != second || len(base.Digests) != 4 {
			t.Errorf("%+v", base)
		}
		if err := p.Remove(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if d := b.due(p, whole(second)); !slices.Equal(d.parts[0].due, []target.PeelID{"a"}) || len(b.stored()) != 3 {
			t.Errorf("after a was removed: %v, %v", d.parts[0].due, b.stored())
		}
	})
}

func TestPortionsOfTwoRevisions(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		p := b.load(nil)
		b.write(p, b.plan(1, 1), 10)
		next := b.plan(2, 2)
		wave := Portion{Commit: "2222222", Peels: map[target.PeelID]*plan.Effective{"b": next.Peels["b"]}}
		rest := Portion{Commit: commit, Peels: map[target.PeelID]*plan.Effective{"a": next.Peels["a"]}}
		r := inForce(11)
		r.Rollout = &record.Rollout{Commit: "2222222"}
		if n, err := p.Write(t.Context(), b.due(p, rest, wave), r); n != 2 || err != nil || p.plan != nil {
			t.Errorf("%d documents, %v", n, err)
		}
		if h := p.Heads(); h.Of("b").Commit != "2222222" || h.Of("a").Commit != commit || h.Of("c").Generation != 10 {
			t.Errorf("%+v", h)
		}
	})
}

// The intent is stored before the act: no document of a revision, or of a generation, that no record names.
func TestNothingIsWrittenWithoutItsRecord(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		p := b.load(nil)
		d := b.due(p, whole(b.plan(1, 1)))
		for name, r := range map[string]record.Record{
			"no record":        {},
			"another revision": {Commit: "2222222", Generation: 9},
			"no generation":    {Commit: commit},
		} {
			if n, err := p.Write(t.Context(), d, r); err == nil || n != 0 || len(b.stored()) != 0 {
				t.Errorf("%s: %d documents, %v", name, n, err)
			}
		}
		if n, err := p.Write(t.Context(), d, inForce(10)); n != 4 || err != nil {
			t.Errorf("%d documents, %v", n, err)
		}
		d = b.due(p, whole(b.plan(2, 2)))
		if n, err := p.Write(t.Context(), d, inForce(10)); err == nil || n != 0 {
			t.Errorf("with the generation of before: %d documents, %v", n, err)
		}
	})
}

// A leader that was stopped goes on after its lease has ended.
func TestNothingIsWrittenWithoutTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		renewed := time.Now()
		lost := errors.New("the lease is lost")
		check := func() error {
			if time.Since(renewed) > 10*time.Second {
				return lost
			}
			return nil
		}
		p := b.load(check)
		d := b.due(p, whole(b.plan(1, 1)))
		time.Sleep(11 * time.Second)
		if n, err := p.Write(t.Context(), d, inForce(10)); n != 0 || !errors.Is(err, lost) || len(b.stored()) != 0 {
			t.Errorf("%d documents, %v", n, err)
		}
		if err := p.WriteGroups(t.Context(), settings.NodeGroups{"front": {"a"}}); !errors.Is(err, lost) {
			t.Errorf("node groups: %v", err)
		}
		renewed = time.Now()
		if n, err := p.Write(t.Context(), d, inForce(10)); n != 4 || err != nil {
			t.Errorf("with the lease back: %d documents, %v", n, err)
		}
	})
}

// Whatever ends a write, documents that were stored count as given, and those that were not stay due.
func TestAWriteThatEndsEarlyIsContinued(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		for i, end := range []string{"lease", "context"} {
			ctx, cancel := context.WithCancel(t.Context())
			sent := 0
			p := b.load(func() error {
				if sent++; sent == 3 && end == "context" {
					cancel()
				}
				if sent > 2 && end == "lease" {
					return errors.New("the lease is lost")
				}
				return nil
			})
			wanted := b.plan(i+1, i+1)
			n, err := p.Write(ctx, b.due(p, whole(wanted)), inForce(uint64(10*i+10)))
			if want := 2 + i; err == nil || n != want || p.plan != nil {
				t.Errorf("%s: %d documents, want %d, %v", end, n, want, err)
			}
			if left := b.due(p, whole(wanted)).Len(); left != 4-n {
				t.Errorf("%s: %d documents are left", end, left)
			}
			sent = -100
			if rest := b.write(p, wanted, uint64(10*i+11)); rest != 4-n {
				t.Errorf("%s: %d documents were written then", end, rest)
			}
			cancel()
		}
	})
}

func TestTheNextLeaderIsNotOverwritten(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		before := b.load(nil)
		b.write(before, b.plan(1, 1), 10)
		d := b.due(before, whole(b.plan(2, 1)))
		b.write(b.load(nil), b.plan(3, 1), 11)
		n, err := before.Write(t.Context(), d, inForce(12))
		if _, conflict := errors.AsType[*settings.ConflictError](err); !conflict || n != 0 || b.stored()["a"] != 11 {
			t.Errorf("%d documents, %v", n, err)
		}
	})
}

// Two peels may share a key in the bucket. Then one of them never has its document, and the plan is never complete.
func TestPeelsThatShareAKeyAreNeverComplete(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.fleet.Index().Put("web.1", nil)
		p := b.load(nil)
		b.write(p, b.plan(1, 1), 10)
		b.fleet.Index().Put("web_1", nil)
		if n := b.write(p, b.plan(1, 1), 11); n != 1 || p.plan != nil || p.Heads().Of("web.1").Peel != "web_1" {
			t.Errorf("%d documents, that of %s was written last", n, p.Heads().Of("web.1").Peel)
		}
	})
}

// A leader that was stopped and does not know yet that another leads must not bring its groups back.
func TestGroupsAreNotWrittenOverThoseOfTheNextLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		groups := func(peel string) settings.NodeGroups { return settings.NodeGroups{"front": {peel}} }
		holds := func(want string) {
			t.Helper()
			words, _, err := settings.LoadNodeGroups(t.Context(), b.rollout)
			if err != nil || !slices.Equal(words["front"], []string{want}) {
				t.Errorf("%v, %v, want %s", words, err, want)
			}
		}
		before := b.load(nil)
		if err := before.WriteGroups(t.Context(), groups("a")); err != nil {
			t.Fatal(err)
		}
		next := b.load(nil)
		if err := next.WriteGroups(t.Context(), groups("b")); err != nil {
			t.Fatal(err)
		}
		if err := before.WriteGroups(t.Context(), groups("c")); !errors.Is(err, record.ErrConflict) {
			t.Errorf("the leader of before goes on: %v", err)
		}
		holds("b")
		if err := next.WriteGroups(t.Context(), groups("d")); err != nil {
			t.Error(err)
		}
		holds("d")
		stream, err := b.js.Stream(t.Context(), "KV_"+record.Bucket)
		if err != nil {
			t.Fatal(err)
		}
		writes := stream.CachedInfo().State.LastSeq
		if err := b.load(nil).WriteGroups(t.Context(), groups("d")); err != nil {
			t.Error(err)
		}
		if info, err := stream.Info(t.Context()); err != nil || info.State.LastSeq != writes {
			t.Errorf("the same groups are written again: %v, %v", info.State.LastSeq, err)
		}
		if _, err := b.rollout.PutString(t.Context(), "nodegroups", "something else"); err != nil {
			t.Fatal(err)
		}
		if err := b.load(nil).WriteGroups(t.Context(), groups("a")); err != nil {
			t.Error(err)
		}
		holds("a")
	})
}

func TestAlertRulesAreWrittenOnceAndNotOverThoseOfTheNextLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		rules := func(name string) []policy.Alert {
			return []policy.Alert{{Name: name, On: []policy.Trouble{policy.Failed}}}
		}
		holds := func(want []policy.Alert) {
			t.Helper()
			if got, _, err := policy.LoadAlerts(t.Context(), b.rollout); err != nil || !policy.EqualAlerts(got, want) {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
		}
		before := b.load(nil)
		if err := before.WriteAlerts(t.Context(), rules("a")); err != nil {
			t.Fatal(err)
		}
		next := b.load(nil)
		if err := next.WriteAlerts(t.Context(), rules("b")); err != nil {
			t.Fatal(err)
		}
		if err := before.WriteAlerts(t.Context(), rules("c")); !errors.Is(err, record.ErrConflict) {
			t.Errorf("the leader of before goes on: %v", err)
		}
		holds(rules("b"))
		_, revision, err := policy.LoadAlerts(t.Context(), b.rollout)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.load(nil).WriteAlerts(t.Context(), rules("b")); err != nil {
			t.Error(err)
		}
		if _, after, err := policy.LoadAlerts(t.Context(), b.rollout); after != revision || err != nil {
			t.Errorf("the same rules are written again: revision %d, %v", after, err)
		}
		if _, err := b.rollout.PutString(t.Context(), "alerts", "something else"); err != nil {
			t.Fatal(err)
		}
		if err := b.load(nil).WriteAlerts(t.Context(), nil); err != nil {
			t.Error(err)
		}
		holds(nil)
		if err := b.load(func() error { return errors.New("no lease") }).WriteAlerts(t.Context(), rules("d")); err == nil {
			t.Error("written without the lease")
		}
	})
}

func TestWhatIsDue(t *testing.T) {
	e := &plan.Effective{Digest: "d1"}
	held := func(change func(*settings.Held)) settings.Held {
		h := settings.Held{Peel: "a", Digest: "d1", ProvenBy: "key", SealedTo: "peel"}
		change(&h)
		return h
	}
	for _, c := range []struct {
		name string
		held settings.Held
		to   settings.Key
		want bool
	}{
		{"the same", held(func(*settings.Held) {}), "peel", false},
		{"without secrets", held(func(h *settings.Held) { h.SealedTo = "" }), "", false},
		{"nothing", settings.Held{}, "", true},
		{"other settings", held(func(h *settings.Held) { h.Digest = "d2" }), "peel", true},
		{"proofs by another key", held(func(h *settings.Held) { h.ProvenBy = "other" }), "peel", true},
		{"sealed to another key", held(func(h *settings.Held) { h.SealedTo = "other" }), "peel", true},
	} {
		if got := isDue(c.held, e, "key", c.to); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestAPeelIsStaleOnceAfterThreeMinutes(t *testing.T) {
	type minute = map[target.PeelID]settings.Digest
	var w pendingFor
	var got []string
	for i, pending := range []minute{
		{"a": "1", "b": "1"},
		{"a": "1", "b": "1"},
		{"a": "1", "b": "2"}, // a is stale; b is to run something else
		{"a": "1", "b": "2"},
		{"a": "1", "b": "2"}, // b is stale
		{},
		{"a": "1"},
		{"a": "1"},
		{"a": "1"}, // a is stale again
	} {
		var stale []target.PeelID
		w, stale = w.next(pending)
		for _, id := range stale {
			got = append(got, fmt.Sprint(i, id))
		}
	}
	if want := "2a 4b 8a"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestAStaleDocumentIsPublishedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		p := b.load(nil)
		wanted := b.plan(1, 1)
		b.write(p, wanted, 10)
		pending := map[target.PeelID]settings.Digest{"a": wanted.Peels["a"].Digest, "b": "of another revision"}
		var stale []target.PeelID
		for range republishAfter {
			stale = p.RepublishStale(pending)
		}
		if !slices.Equal(stale, []target.PeelID{"a"}) {
			t.Errorf("%v", stale)
		}
		if base := p.Base(t.Context()); base.Digests["a"] != wanted.Peels["a"].Digest { // plan and guard compare with what is stored
			t.Errorf("base: %v", base.Digests)
		}
		if n := b.write(p, wanted, 11); n != 1 || b.stored()["a"] != 11 {
			t.Errorf("%d documents, %v", n, b.stored())
		}
		for range 2 {
			if n := b.due(p, whole(wanted)).Len(); n != 0 {
				t.Errorf("%d documents are due again", n)
			}
			p.plan = nil // so that every peel is looked at
		}
	})
}
