package reconciler

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// withBad runs f when a second revision, x for w, is in force and turns out to be bad.
func withBad(t *testing.T, f func(b *bench, good, bad settings.Commit)) {
	t.Helper()
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		b.start()
		good := b.status().LastGood.Commit
		bad := b.commit("x for w", map[string]string{"settings/web.yaml": xForW})
		if out := b.now(); out.LastGood.Commit != bad || b.entries("web-01") != "abcdx" {
			b.t.Fatalf("%+v", out)
		}
		f(b, good, bad)
	})
}

func TestAPinHoldsWhateverTheBranchSays(t *testing.T) {
	withBad(t, func(b *bench, good, bad settings.Commit) {
		out := b.told("pin", status.PinRequest{Revision: string(good[:8])})
		c := conditionOf(out, status.Suspended)
		if out.LastGood.Commit != good || out.Pinned == nil || out.Pinned.By != "op" || c.Reason != "Pinned" || b.entries("web-01") != "abcdw" {
			b.t.Fatalf("web-01 has %s, %+v", b.entries("web-01"), out)
		}
		if out.LastGood.Author != "Ada <ada@example.com>" || out.LastGood.Message != "first" || !out.LastGood.Time.Equal(ada.When) {
			b.t.Errorf("the stored revision tells %+v", out.LastGood)
		}
		newer := b.commit("newer", map[string]string{"settings/web.yaml": xForW + "  y: {module: test.ping, interval: 1h}\n"})
		b.after(5 * time.Minute)
		b.stop()
		b.start()
		b.peel("web-02", nil)
		b.after(5 * time.Second)
		if out := b.status(); out.LastGood.Commit != good || out.Observed != newer || b.entries("web-02") != "abcdw" {
			b.t.Errorf("web-02 has %s, %+v", b.entries("web-02"), out)
		}
		if out := b.told("unpin", nil); out.LastGood.Commit != newer || out.Pinned != nil || out.Is(status.Suspended) || b.entries("web-01") != "abcdxy" {
			b.t.Errorf("web-01 has %s, %+v", b.entries("web-01"), out)
		}
		if why := b.ask("unpin", nil, new(status.Sync)); !strings.Contains(why, "nothing is pinned") {
			b.t.Errorf("again: %q", why)
		}
	})
}

func TestAPinUntilNewerEndsWithTheFirstCommitAfterIt(t *testing.T) {
	withBad(t, func(b *bench, good, bad settings.Commit) {
		b.told("pin", status.PinRequest{Revision: string(good), UntilNewer: true})
		b.after(10 * time.Minute)
		if out := b.status(); out.LastGood.Commit != good || out.Observed != bad {
			b.t.Fatalf("what was known ends it: %+v", out)
		}
		fix := b.commit("fix", map[string]string{"settings/web.yaml": "schedule:\n  y: {module: test.ping, interval: 1h}\n"})
		if out := b.now(); out.LastGood.Commit != fix || out.Pinned != nil || b.entries("web-01") != "abcdy" {
			b.t.Errorf("web-01 has %s, %+v", b.entries("web-01"), out)
		}
	})
}

func TestAPinUntilNewerOutlastsABranchThatGoesElsewhere(t *testing.T) {
	withBad(t, func(b *bench, good, second settings.Commit) {
		b.told("pin", status.PinRequest{Revision: string(second), UntilNewer: true})
		b.moveTo(good)
		if out := b.now(); out.Observed != good || out.LastGood.Commit != second || out.Pinned == nil {
			b.t.Errorf("%+v", out)
		}
	})
}

func TestAPinUntilNewerOutlastsWhatWasRolledBack(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 1h}]", func(r *rollingBench) {
		bad := r.next()
		r.runs(r.ids[0], "x", wire.Result{})
		r.takenBack(bad, "of x failed")
		newer := r.commit("y", map[string]string{"settings/web.yaml": xForW + "# again\n"})
		r.now()
		r.told("pin", status.PinRequest{Revision: string(r.good), UntilNewer: true})
		r.moveTo(bad)
		if out := r.now(); out.Pinned == nil || out.LastGood.Commit != r.good || out.Rollout != nil {
			r.t.Errorf("after %s: %+v", newer, out)
		}
		r.reached()
	})
}

func TestAPinServesWithTheRepoGone(t *testing.T) {
	withBad(t, func(b *bench, good, bad settings.Commit) {
		b.stop()
		if err := os.RemoveAll(b.dir); err != nil {
			b.t.Fatal(err)
		}
		b.start() // on a master that has never read the repo
		b.peel("web-02", nil)
		b.after(5 * time.Second)
		out := b.status()
		if !out.Is(status.FetchFailed) || !out.Is(status.Ready) || out.LastGood.Commit != bad || b.entries("web-02") != "abcdx" {
			b.t.Errorf("before the pin: web-02 has %s, %+v", b.entries("web-02"), out)
		}
		out = b.told("pin", status.PinRequest{Revision: string(good)})
		if out.LastGood.Commit != good || !out.Is(status.Ready) || b.entries("web-01") != "abcdw" || b.entries("web-02") != "abcdw" {
			b.t.Errorf("web-01 has %s, %+v", b.entries("web-01"), out)
		}
		if o := b.document("web-01").Origins["w"]; o.Commit != good || o.Author != "Ada <ada@example.com>" || o.File != "settings/web.yaml" || o.Line != 2 {
			b.t.Errorf("origin of w: %+v", o)
		}
	})
}

func TestAPinPutsAnEndToARollout(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 1h}]", func(r *rollingBench) {
		c := r.next()
		r.reached(0)
		r.told("pause", nil) // does not hold it up
		if out := r.told("pin", status.PinRequest{Revision: string(r.good)}); out.Rollout != nil || out.LastGood.Commit != r.good {
			r.t.Errorf("%+v", out)
		}
		r.reached()
		var h status.History
		r.ask("history", nil, &h)
		if len(h.Attempts) != 3 || h.Attempts[1].Commit != c || h.Attempts[1].Outcome != status.OutcomeSuperseded {
			r.t.Errorf("%+v", h.Attempts)
		}
	})
}

func TestWhatCannotBePinned(t *testing.T) {
	withBad(t, func(b *bench, good, bad settings.Commit) {
		refused := b.commit("broken", map[string]string{"top.yaml": "base: ["})
		b.now()
		for revision, why := range map[string]string{
			"abc":                        "name 4 digits",
			"0000000000":                 "no such revision is stored",
			string(refused):              "no such revision is stored",
			strings.Repeat("f", 1<<10):   "cannot pin " + strings.Repeat("f", 64) + ": ",
			strings.ToUpper(string(bad)): "no such revision",
		} {
			if got := b.ask("pin", status.PinRequest{Revision: revision}, new(status.Sync)); !strings.Contains(got, why) {
				b.t.Errorf("%.20s: %q, want %q", revision, got, why)
			}
		}
		if out := b.status(); out.Pinned != nil || out.LastGood.Commit != bad {
			b.t.Errorf("%+v", out)
		}
	})
}

func TestHistoryShowsTheOutcomesOfRevisions(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		for _, id := range []target.PeelID{"web-01", "web-02", "web-03"} {
			b.peel(id, nil)
		}
		b.start()
		first := b.status().LastGood.Commit
		broken := b.commit("broken", map[string]string{"top.yaml": "base: ["})
		b.now()
		b.peel("web-04", nil) // has it judged again
		b.after(time.Minute)
		passed := b.commit("never seen", map[string]string{"top.yaml": string(siteFiles()["top.yaml"].Data)})
		large := b.commit("too much", map[string]string{"settings/common.yaml": "{}\n"})
		blocked := b.now().Blocked
		b.after(time.Hour)
		b.told("approve", status.ApproveRequest{Hash: blocked})
		b.stop()
		b.start()
		var h status.History
		b.ask("history", nil, &h)
		slices.Reverse(h.Attempts)
		for i, want := range []status.Attempt{
			{Commit: first, Outcome: status.OutcomeApplied, Message: "first", Stored: true},
			{Commit: broken, Outcome: status.OutcomeRejected, Message: "broken", Reason: "top.yaml:1:"},
			{Commit: passed, Outcome: status.OutcomeSuperseded, Message: "never seen", Reason: "by " + large.Short()},
			{Commit: large, Outcome: status.OutcomeApplied, Message: "too much", By: "op", Stored: true},
		} {
			if i >= len(h.Attempts) {
				b.t.Fatalf("there are %d", len(h.Attempts))
			}
			got := h.Attempts[i]
			if !strings.HasPrefix(got.Reason, want.Reason) || (want.Reason == "") != (got.Reason == "") || got.Began.IsZero() || got.Ended.Before(got.Began) || got.Author != "Ada <ada@example.com>" || got.Master != "m1" {
				b.t.Errorf("%s: %+v", want.Message, got)
			}
			if got.Commit != want.Commit || got.Outcome != want.Outcome || got.Message != want.Message || got.By != want.By || got.Stored != want.Stored {
				b.t.Errorf("%+v, want %+v", got, want)
			}
		}
		if len(h.Attempts) != 4 || h.Attempts[3].Ended.Sub(h.Attempts[3].Began) < time.Hour {
			b.t.Errorf("%d attempts, the last took %v", len(h.Attempts), h.Attempts[3].Ended.Sub(h.Attempts[3].Began))
		}
	})
}

// The archive no longer has a revision that was in force, and the copy of the repo has it.
func TestARevisionThatIsNoLongerStoredIsPinnedFromTheRepo(t *testing.T) {
	withRules(t, "", func(r *rollingBench) {
		c := r.commit("x for w", map[string]string{"settings/web.yaml": xForW})
		r.now()
		r.inForce(c)
		kv, err := r.bus.JetStream(r.t).KeyValue(r.t.Context(), "revisions")
		if err != nil {
			r.t.Fatal(err)
		}
		keys, err := kv.Keys(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		for _, key := range keys {
			if err := kv.Purge(r.t.Context(), key); err != nil {
				r.t.Fatal(err)
			}
		}
		if out := r.told("pin", status.PinRequest{Revision: string(r.good)}); out.LastGood.Commit != r.good || out.Pinned == nil {
			r.t.Errorf("%+v", out)
		}
		if r.entries(r.ids[0]) != "abcdw" {
			r.t.Errorf("a peel has %s", r.entries(r.ids[0]))
		}
	})
}
