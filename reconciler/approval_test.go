package reconciler

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/reconciler/control"
	"github.com/seed-c01c3da5/zester/settings/status"
)

const emptyTop = "base: {}\n"

// wiped has a commit wait that leaves nothing of three peels' settings.
func (b *bench) wiped() status.Sync {
	b.t.Helper()
	b.commit("nothing is left", map[string]string{"top.yaml": emptyTop})
	out := b.now()
	if out.Blocked == "" || b.entries("web-00") != "abcdw" {
		b.t.Fatalf("web-00 has %s, %+v", b.entries("web-00"), out)
	}
	return out
}

// restored brings back what wiped took.
func (b *bench) restored() {
	b.t.Helper()
	b.commit("back again", map[string]string{"top.yaml": string(siteFiles()["top.yaml"].Data)})
	if b.now(); b.entries("web-00") != "abcdw" {
		b.t.Fatalf("web-00 has %s", b.entries("web-00"))
	}
}

func threeWebs(t *testing.T, f func(b *bench)) {
	t.Helper()
	inBubble(t, siteFiles(), func(b *bench) {
		for _, id := range webs(3) {
			b.peel(id, nil)
		}
		b.start()
		f(b)
	})
}

func TestAnApprovalLetsOneChangeOut(t *testing.T) {
	threeWebs(t, func(b *bench) {
		first := b.wiped()
		b.told("approve", status.ApproveRequest{Hash: first.Blocked})
		if b.entries("web-00") != "" {
			t.Fatalf("approved, and web-00 has %s", b.entries("web-00"))
		}
		if r := b.record(); r.Approved != nil {
			t.Errorf("the approval that was used is kept: %+v", r.Approved)
		}
		b.restored()
		second := b.wiped()
		if second.Blocked != first.Blocked {
			t.Errorf("the same change of the same peels is plan %s, then %s", first.Blocked, second.Blocked)
		}
		b.stop()
		b.start()
		b.now()
		if b.entries("web-00") != "abcdw" {
			t.Errorf("in the next term web-00 has %s", b.entries("web-00"))
		}
		var h status.History
		if why := b.ask("history", nil, &h); why != "" {
			t.Fatal(why)
		}
		var by []string
		for _, a := range h.Attempts {
			by = append(by, string(a.Outcome)+" "+a.By)
		}
		if want := []string{"blocked ", "applied ", "applied op", "applied "}; !slices.Equal(by, want) {
			t.Errorf("history has %q, want %q", by, want)
		}
	})
}

func TestAnApprovalEndsWhenTheBranchMovesOn(t *testing.T) {
	threeWebs(t, func(b *bench) {
		waits := b.wiped()
		b.told("pause", nil)
		b.told("approve", status.ApproveRequest{Hash: waits.Blocked})
		b.commit("back again", map[string]string{"top.yaml": string(siteFiles()["top.yaml"].Data)})
		b.now()
		b.moveTo(waits.LastAttempted)
		b.now()
		if out := b.told("resume", nil); out.Blocked == "" || b.entries("web-00") != "abcdw" {
			t.Errorf("web-00 has %s, %+v", b.entries("web-00"), out)
		}
	})
}

func TestAnApprovalIsKeptByTheNextTermUntilItIsUsed(t *testing.T) {
	threeWebs(t, func(b *bench) {
		waits := b.wiped()
		b.told("pause", nil)
		if out := b.told("approve", status.ApproveRequest{Hash: waits.Blocked}); out.Blocked != "" || out.Is(status.GuardBlocked) || b.entries("web-00") != "abcdw" {
			t.Errorf("paused: web-00 has %s, %+v", b.entries("web-00"), out)
		}
		b.stop()
		b.start()
		b.now()
		if out := b.told("resume", nil); out.Blocked != "" || b.entries("web-00") != "" {
			t.Errorf("web-00 has %s, %+v", b.entries("web-00"), out)
		}
	})
}

func TestAnApprovalEndsWhenThePlanChanges(t *testing.T) {
	threeWebs(t, func(b *bench) {
		waits := b.wiped()
		b.told("pause", nil)
		b.told("approve", status.ApproveRequest{Hash: waits.Blocked})
		b.peel("web-98", nil)
		b.after(2 * burstMost)
		out := b.told("resume", nil)
		if r := b.record(); out.Blocked == "" || r.Approved != nil {
			t.Errorf("%+v waits, %+v is approved", r.Blocked, r.Approved)
		}
	})
}

func TestAPinEndsAnApproval(t *testing.T) {
	threeWebs(t, func(b *bench) {
		waits := b.wiped()
		b.told("pause", nil)
		b.told("approve", status.ApproveRequest{Hash: waits.Blocked})
		b.told("pin", status.PinRequest{Revision: string(waits.LastGood.Commit)})
		b.told("resume", nil)
		if out := b.told("unpin", nil); out.Blocked == "" || b.entries("web-00") != "abcdw" {
			t.Errorf("web-00 has %s, %+v", b.entries("web-00"), out)
		}
	})
}

func TestARolloutUsesUpTheApproval(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 10m}]", func(r *rollingBench) {
		waits := r.wiped()
		r.told("approve", status.ApproveRequest{Hash: waits.Blocked})
		if rec := r.record(); rec.Rollout == nil || rec.Approved != nil || rec.Blocked != nil {
			t.Errorf("during the rollout the record is %+v", rec)
		}
	})
}

// TestAnApprovalRightAfterAChangeOfTheFleetIsRefused sends the approval before the loop has acted on the new peel. The
// pause would let an approval of the old plan be stored.
func TestAnApprovalRightAfterAChangeOfTheFleetIsRefused(t *testing.T) {
	threeWebs(t, func(b *bench) {
		seen := b.wiped().Blocked
		b.told("pause", nil)
		b.peel("web-98", nil)
		b.after(burstPause / 2)
		if why := b.ask("approve", status.ApproveRequest{Hash: seen}, new(status.Sync)); !strings.Contains(why, "that waits is now ") {
			t.Errorf("the approval of the plan before the change: %q, now %s", why, b.status().Blocked)
		}
	})
}

// TestAPlanThatWaitsIsMadeAgainWhenTheFleetChanges also holds that the next term does so.
func TestAPlanThatWaitsIsMadeAgainWhenTheFleetChanges(t *testing.T) {
	threeWebs(t, func(b *bench) {
		seen := b.wiped().Blocked
		for i, change := range []func(){
			func() { b.peel("web-98", nil) },
			func() { b.stop(); b.peel("web-99", nil); b.start() },
		} {
			change()
			b.after(2 * burstMost)
			now := b.status().Blocked
			if now == "" || now == seen {
				t.Errorf("%d: the plan is %s after %s", i, now, seen)
			}
			if why := b.ask("approve", status.ApproveRequest{Hash: seen}, nil); !strings.Contains(why, now) || b.entries("web-00") != "abcdw" {
				t.Errorf("%d: the plan of before: %q", i, why)
			}
			seen = now
		}
		if b.told("approve", status.ApproveRequest{Hash: seen}); b.entries("web-99") != "" {
			t.Errorf("web-99 has %s", b.entries("web-99"))
		}
	})
}

// limitsFiles is a site whose zester.yaml has limits.
func limitsFiles(limits string) fstest.MapFS {
	files := siteFiles()
	files["zester.yaml"] = text("limits: " + limits + "\n")
	return files
}

// The limits of the revision in force count for the next one, and a commit that raises them waits by itself.
func TestTheLimitsInForceCount(t *testing.T) {
	const less = "schedule:\n  a: {module: test.ping, interval: 1h}\n"
	const off = "limits: {change: off, remove: off, peels: off}\n"
	for _, c := range []struct {
		name    string
		limits  string
		commits []map[string]string
		kind    string // of the wait for approval
		goes    bool   // the settings of peels
	}{
		{"raised by the commit itself", "{}", []map[string]string{{"zester.yaml": off, "settings/common.yaml": less}}, "SafetyWeakened", false},
		{"raised by the commit before", "{}", []map[string]string{{"zester.yaml": off}, {"settings/common.yaml": less}}, "SafetyWeakened", false},
		{"off", "{change: off, remove: off, peels: off}", []map[string]string{{"settings/common.yaml": less}}, "", true},
		{"lowered by the commit itself", "{change: off, remove: off, peels: off}", []map[string]string{{"zester.yaml": "limits: {remove: 0%}\n", "settings/common.yaml": less}}, "", true},
		{"lowered by the commit before", "{change: off, remove: off, peels: off}", []map[string]string{{"zester.yaml": "limits: {remove: 0%}\n"}, {"settings/common.yaml": less}}, "TooManyChanges", false},
	} {
		inBubble(t, limitsFiles(c.limits), func(b *bench) {
			for _, id := range webs(3) {
				b.peel(id, nil)
			}
			b.start()
			for _, changes := range c.commits {
				b.commit("a change", changes)
				b.now()
				b.stop()
				b.start() // the limits are known to the next term too
				b.now()
			}
			if out := b.status(); conditionOf(out, status.GuardBlocked).Reason != c.kind || (b.entries("web-00") == "aw") != c.goes {
				t.Errorf("%s: web-00 has %s, %+v", c.name, b.entries("web-00"), out)
			}
		})
	}
}

// After an order the next write may take seconds. Its answer must not read the state of before.
func TestTheAnswerToAnOrderReadsTheRecordWithTheOrder(t *testing.T) {
	threeWebs(t, func(b *bench) {
		waits := b.wiped()
		b.stop() // the test takes the place of the loop, which does nothing more
		l := b.term.loop
		if err := l.onOrder(b.t.Context(), control.NewOrder("approve", "op", false, control.Approve(status.ApproveRequest{Hash: waits.Blocked}, "op"))); err != nil {
			t.Fatal(err)
		}
		if out := l.newest.Load().Sync; out.Blocked != "" {
			t.Errorf("the plan is approved, and the answer says that it waits: %+v", out)
		}
		if err := l.onOrder(b.t.Context(), control.NewOrder("pause", "op", false, control.Pause("op"))); err != nil {
			t.Fatal(err)
		}
		if out := l.newest.Load().Sync; out.Paused == nil || out.Paused.By != "op" {
			t.Errorf("new commits are paused, and the answer does not say so: %+v", out)
		}
	})
}
