package reconciler

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestAnEmptyRepoRemovesNothing(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		ref := filepath.Join(b.dir, ".git", "refs", "heads", "main")
		head, err := os.ReadFile(ref)
		if err != nil {
			b.t.Fatal(err)
		}
		empty := func() status.Sync {
			b.t.Helper()
			if err := os.Remove(ref); err != nil {
				b.t.Fatal(err)
			}
			out := b.now()
			if c := conditionOf(out, status.FetchFailed); !c.Status || c.Reason != string(gitrepo.EmptyRemote) {
				b.t.Errorf("%+v", out)
			}
			return out
		}
		b.start()
		if err := os.WriteFile(ref, head, 0o644); err != nil {
			b.t.Fatal(err)
		}
		if out := empty(); !out.Is(status.Ready) || b.entries("web-01") != "abcdw" {
			t.Errorf("web-01 has %s, %+v", b.entries("web-01"), out)
		}
	})
}

func TestAnEmptyRepoAtTheFirstStartIsWaitedFor(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		ref := filepath.Join(b.dir, ".git", "refs", "heads", "main")
		head, err := os.ReadFile(ref)
		if err == nil {
			err = os.Remove(ref)
		}
		if err != nil {
			b.t.Fatal(err)
		}
		b.peel("web-01", nil)
		b.start()
		out := b.now()
		if c := conditionOf(out, status.FetchFailed); !c.Status || c.Reason != string(gitrepo.EmptyRemote) || out.Is(status.Ready) || b.document("web-01") != nil {
			t.Errorf("%+v", out)
		}
		if err := os.WriteFile(ref, head, 0o644); err != nil {
			b.t.Fatal(err)
		}
		if out := b.now(); !out.Is(status.Ready) || b.entries("web-01") != "abcdw" {
			t.Errorf("%+v", out)
		}
	})
}

func TestAnEmptyCommitAdvancesTheRevisionAlone(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		b.start()
		writes := b.writes()
		c := b.commit("nothing", nil)
		if out := b.now(); out.LastGood.Commit != c || b.writes() != writes || out.Counts.Applied != 1 {
			t.Errorf("%d writes, %+v", b.writes()-writes, out)
		}
	})
}

// A master is killed after each of the writes that a revision takes. Whoever leads next makes those that are missing and
// no other, and at no time does a peel hold a mixture.
func TestAPublishThatWasCutOffIsFinished(t *testing.T) {
	for done := range 4 {
		inBubble(t, siteFiles(), func(b *bench) {
			b.history = HistoryAllow
			ids := webs(3)
			slices.Sort(ids)
			for _, id := range ids {
				b.peel(id, nil)
			}
			b.start()
			c := b.commit("x for w", map[string]string{"settings/web.yaml": xForW})
			b.now()
			whole := b.document(ids[0])
			b.moveTo(b.parent(c))
			b.now()
			b.stop()
			b.moveTo(c)

			// What a master leaves that is killed: the record, and some of the documents.
			records := record.NewStore(b.term.rollout, "m1", b.term.loop.state.Own)
			r, err := records.Read(b.t.Context())
			if err != nil {
				b.t.Fatal(err)
			}
			r.Commit, r.Done, r.Generation = c, false, r.Generation+1
			if _, err := records.Write(b.t.Context(), r); err != nil {
				b.t.Fatal(err)
			}
			store := settings.NewStore(b.term.js)
			heads, err := store.Load(b.t.Context())
			if err != nil {
				b.t.Fatal(err)
			}
			var writes []settings.Write
			for _, id := range ids[:done] {
				doc := *whole
				doc.Peel, doc.Generation = id, r.Generation
				writes = append(writes, settings.Write{Document: &doc, Revision: heads.Of(id).Revision})
			}
			if _, err := store.Publish(b.t.Context(), slices.Values(writes)); err != nil {
				b.t.Fatal(err)
			}
			before := b.writes()
			b.start()
			b.after(5 * time.Second)
			if got := b.writes() - before; got != uint64(len(ids)-done) {
				t.Errorf("%d of %d were written: %d more", done, len(ids), got)
			}
			for _, id := range ids {
				if doc := b.document(id); doc.Commit != c || settings.DigestOf(canon.Raw(doc.Settings)) != whole.Digest || b.entries(id) != "abcdx" {
					t.Errorf("%d of %d were written: %s has %s of %s", done, len(ids), id, b.entries(id), doc.Commit)
				}
			}
			if out := b.status(); out.LastGood.Commit != c || !b.record().Done || out.Counts.Applied != len(ids) {
				t.Errorf("%+v", out)
			}
		})
	}
}

// parent is the commit before one.
func (b *bench) parent(c settings.Commit) settings.Commit {
	b.t.Helper()
	parents, err := b.term.source.Reader(b.term.archive).History().Parents(c)
	if err != nil || len(parents) == 0 {
		b.t.Fatal(parents, err)
	}
	return parents[0]
}

// A peel that is online and does not come to run what it was given is given it once more, and not again and again.
func TestAPeelThatRunsSomethingElseIsGivenItsSettingsOnceMore(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		b.peel("web-02", nil)
		b.peel("web-03", nil)
		b.start()
		b.alter(silent, "web-01")
		b.alter(away, "web-03")
		b.after(2 * time.Minute)
		b.commit("x", map[string]string{"settings/web.yaml": xForW})
		b.now()
		first, writes := b.document("web-01"), b.writes()
		b.after(100 * time.Second)
		if b.writes() != writes {
			t.Error("it is given to it again before it had the time to apply it")
		}
		b.alter(func(p *actor) { p.takes = true }, "web-01")
		b.after(2 * time.Minute)
		if again := b.document("web-01"); b.writes() != writes+1 || again.Generation <= first.Generation || again.Digest != first.Digest {
			t.Errorf("%d writes", b.writes()-writes)
		}
		if out := b.status(); out.Counts != (status.Counts{Peels: 3, Applied: 2, Offline: 1}) {
			t.Errorf("%+v", out.Counts)
		}
		b.alter(silent, "web-02")
		b.commit("y", map[string]string{"settings/web.yaml": "schedule:\n  y: {module: test.ping, interval: 1h}\n"})
		b.now()
		writes = b.writes()
		b.after(time.Hour)
		if got := b.writes() - writes; got != 1 {
			t.Errorf("%d writes in an hour for a peel that never applies them", got)
		}
	})
}

// The link comes back without a new connection, at which the peel would ask for its settings itself.
func TestAPeelWhoseLinkWasCutDuringACommitComesToRunIt(t *testing.T) {
	for _, c := range []struct {
		name    string
		cut     time.Duration
		offline int
	}{
		{"for less than it takes to be offline", time.Minute, 0},
		{"until it was offline", 10 * time.Minute, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, siteFiles(), func(b *bench) {
				b.peel("web-01", nil)
				b.peel("web-02", nil)
				b.start()
				b.alter(away, "web-01")
				b.commit("x", map[string]string{"settings/web.yaml": xForW})
				b.now()
				b.after(c.cut)
				if out := b.status(); out.Counts != (status.Counts{Peels: 2, Applied: 1, Offline: c.offline, Pending: 1 - c.offline}) {
					b.t.Errorf("while it is cut: %+v", out.Counts)
				}
				b.alter(func(p *actor) { p.away, p.takes = false, true }, "web-01")
				back := time.Now()
				for b.status().Counts.Applied < 2 && time.Since(back) < 10*time.Minute {
					b.after(time.Second)
				}
				b.t.Logf("it runs them %v after the link is back", time.Since(back))
				if took := time.Since(back); took > 4*time.Minute || b.entries("web-01") != "abcdx" {
					b.t.Errorf("web-01 has %s, %v after the link is back", b.entries("web-01"), took)
				}
			})
		})
	}
}

func TestTheStatusNamesPeelsWhoseIDTwoProcessesShare(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web.1", nil)
		b.start()
		for _, process := range []string{"AAAA", "BBBB", "AAAA"} {
			if err := b.peels["web.1"].nc.Publish(wire.Heartbeat("web_1"), []byte(process)); err != nil {
				b.t.Fatal(err)
			}
			b.after(time.Second)
		}
		if got := b.status().Duplicates; !slices.Equal(got, []target.PeelID{"web.1"}) {
			b.t.Errorf("duplicates are %v", got)
		}
	})
}
