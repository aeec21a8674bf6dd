package reconciler

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestTheBranchIsPolledAboutAsOftenAsIsAskedFor(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		b.start()
		last, polls := b.term.control.Status().Read, 0
		for range 6 * 60 {
			b.after(time.Second)
			read := b.term.control.Status().Read
			if read.Equal(last) {
				continue
			}
			if gap := read.Sub(last); gap < 27*time.Second || gap > 33*time.Second+100*time.Millisecond {
				t.Errorf("%v between two polls", gap)
			}
			last = read
			polls++
		}
		if polls < 10 {
			t.Errorf("%d polls in 6 min", polls)
		}
		head := b.commit("seen by a poll", map[string]string{"settings/web.yaml": xForW})
		b.after(34 * time.Second)
		if out := b.status(); out.LastGood.Commit != head || b.entries("web-01") != "abcdx" {
			t.Errorf("%+v", out)
		}
	})
}

func TestABranchThatCannotBeReadIsTriedLessAndLess(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		b.start()
		hidden := b.dir + ".hidden"
		if err := os.Rename(b.dir, hidden); err != nil {
			b.t.Fatal(err)
		}
		b.after(time.Hour)
		out := b.status()
		if c := conditionOf(out, status.FetchFailed); !c.Status || c.Reason != string(gitrepo.NotFound) || !out.Is(status.Ready) || out.Is(status.Stalled) {
			t.Errorf("%+v", out)
		}
		if n := b.failures("NotFound"); n < 15 || n > 100 {
			t.Errorf("%v looks in an hour", n)
		}
		if err := os.Rename(hidden, b.dir); err != nil {
			b.t.Fatal(err)
		}
		b.after(5*time.Minute + 2*time.Second)
		if out := b.status(); out.Is(status.FetchFailed) {
			t.Errorf("%+v", out)
		}
	})
}

// A thousand facts in three seconds are a few reconciles, each peel has its settings a second after the last, and those of
// the first do not wait for that.
func TestABurstOfFactsIsAFewReconciles(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-00", nil)
		b.start()
		began := b.record().Generation
		generations := map[uint64]bool{}
		for i := range 100 {
			id := target.PeelID(fmt.Sprintf("web-%03d", i))
			if err := b.facts(id); err != nil {
				b.t.Fatal(err)
			}
			b.after(30 * time.Millisecond)
			if i == 60 && b.document("web-000") == nil {
				t.Error("the first peel waits for the end of the burst")
			}
		}
		b.after(time.Second)
		for i := range 100 {
			doc := b.document(target.PeelID(fmt.Sprintf("web-%03d", i)))
			if doc == nil || doc.Generation <= began {
				t.Fatalf("peel %d has %+v", i, doc)
			}
			generations[doc.Generation] = true
		}
		if len(generations) < 3 || len(generations) > 5 {
			t.Errorf("%d reconciles", len(generations))
		}
	})
}

// facts has a master store the facts of a peel that says nothing else.
func (b *bench) facts(id target.PeelID) error {
	data, err := canon.Marshal(wire.Facts{Peel: id, V: wire.Version})
	if err != nil {
		return err
	}
	js, err := jetstream.New(b.nc)
	if err == nil {
		_, err = js.Publish(b.t.Context(), wire.Fact(id.Wire()), data)
	}
	return err
}

func TestTroubleWithTheBusIsNotOneOfTheBranch(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		b.start()
		head := b.commit("x", map[string]string{"settings/web.yaml": xForW})
		b.bus.Stop(b.t)
		b.after(2 * time.Minute)
		out := *b.term.control.Status()
		if c := conditionOf(out, status.Ready); out.Is(status.FetchFailed) || out.Is(status.Stalled) || c.Status || c.Reason != "PublishFailed" || out.Observed != head {
			t.Errorf("without the bus: %+v", out)
		}
		b.bus.Start(b.t)
		b.after(6 * time.Minute)
		if out := b.status(); !out.Is(status.Ready) || out.LastGood.Commit != head || b.entries("web-01") != "abcdx" {
			t.Errorf("with the bus: %+v", out)
		}
	})
}

// The newest of what was judged is what counts: an answer about an older one never puts it back in force.
func TestACommitOfTheFutureAndAClockThatGoesBackChangeNoOrder(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		b.start()
		before := b.document("web-01").Generation
		future := ada
		future.When = time.Now().Add(10 * 365 * 24 * time.Hour)
		if _, err := b.work.Commit("in ten years", map[string][]byte{"settings/web.yaml": []byte(xForW)}, future); err != nil {
			b.t.Fatal(err)
		}
		b.now()
		past := ada
		past.When = time.Unix(1, 0)
		h, err := b.work.Commit("in 1970", map[string][]byte{"settings/web.yaml": []byte("schedule:\n  y: {module: test.ping, interval: 1h}\n")}, past)
		if err != nil {
			b.t.Fatal(err)
		}
		if out := b.now(); out.LastGood.Commit != settings.Commit(h.String()) || out.Is(status.HistoryRewritten) || b.entries("web-01") != "abcdy" {
			t.Errorf("%+v", out)
		}
		if after := b.document("web-01").Generation; after <= before {
			t.Errorf("generation %d after %d", after, before)
		}
	})
}

func TestABranchThatIsDeletedAndMadeAgainIsFollowed(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.history = HistoryAllow
		b.peel("web-01", nil)
		b.start()
		first := b.status().LastGood.Commit
		second := b.commit("x", map[string]string{"settings/web.yaml": xForW})
		b.now()
		ref := filepath.Join(b.dir, ".git", "refs", "heads", "main")
		if err := os.Remove(ref); err != nil {
			b.t.Fatal(err)
		}
		writes := b.writes()
		out := b.now()
		if c := conditionOf(out, status.FetchFailed); !c.Status || c.Reason != string(gitrepo.EmptyRemote) && c.Reason != string(gitrepo.RefNotFound) || out.LastGood.Commit != second {
			t.Errorf("without the branch: %+v", out)
		}
		b.after(time.Hour)
		if b.entries("web-01") != "abcdx" || b.writes() != writes {
			t.Errorf("%d writes without the branch", b.writes()-writes)
		}
		b.moveTo(first)
		if out := b.now(); out.LastGood.Commit != first || out.Is(status.FetchFailed) || conditionOf(out, status.HistoryRewritten).Reason != "Rewound" {
			t.Errorf("made again: %+v", out)
		}
	})
}

// 30 commits are taken back at once, as a force push does.
func TestAForcePushThatRewindsIsFollowedWhereThatIsAllowed(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.history = HistoryAllow
		b.peel("web-01", nil)
		b.start()
		first := b.status().LastGood.Commit
		for i := range 30 {
			b.commit("one more", map[string]string{"settings/web.yaml": fmt.Sprintf("schedule:\n  w: {module: test.ping, interval: %dm}\n", i+2)})
		}
		b.now()
		b.moveTo(first)
		out := b.now()
		if c := conditionOf(out, status.HistoryRewritten); out.LastGood.Commit != first || !c.Status || c.Reason != "Rewound" || b.document("web-01").Commit != first {
			t.Errorf("%+v", out)
		}
	})
}

func TestARevertGivesPeelsWhatTheyHad(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		b.start()
		before := b.document("web-01")
		b.commit("x", map[string]string{"settings/web.yaml": xForW})
		b.now()
		b.commit("Revert \"x\"", map[string]string{"settings/web.yaml": string(siteFiles()["settings/web.yaml"].Data)})
		b.now()
		if after := b.document("web-01"); after.Digest != before.Digest || after.Generation <= before.Generation {
			t.Errorf("%s after %s", after.Digest, before.Digest)
		}
	})
}
