package reconciler

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/status"
)

// TestARewrittenBranchWaits resets the branch to its first commit, which nobody has to sign.
func TestARewrittenBranchWaits(t *testing.T) {
	for _, c := range []struct {
		policy   History
		reason   string
		approved bool // it can be
	}{
		{"", "HistoryRewritten", true},
		{HistoryApprove, "HistoryRewritten", true},
		{HistoryForbid, "HistoryForbidden", false},
	} {
		inBubble(t, siteFiles(), func(b *bench) {
			b.history = c.policy
			b.peel("web-01", nil)
			b.start()
			first := b.status().LastGood.Commit
			second := b.commit("x", map[string]string{"settings/web.yaml": xForW})
			b.now()
			b.moveTo(first)
			out := b.now()
			if got := conditionOf(out, status.GuardBlocked); out.LastGood.Commit != second || b.entries("web-01") != "abcdx" || got.Reason != c.reason || (out.Blocked != "") != c.approved {
				t.Fatalf("%q: web-01 has %s, %+v", c.policy, b.entries("web-01"), out)
			}
			if c.approved {
				if out = b.told("approve", status.ApproveRequest{Hash: out.Blocked}); out.LastGood.Commit != first || b.entries("web-01") != "abcdw" {
					t.Errorf("%q: web-01 has %s, %+v", c.policy, b.entries("web-01"), out)
				}
				return
			}
			b.moveTo(second)
			if out = b.now(); out.LastGood.Commit != second || out.Is(status.GuardBlocked) {
				t.Errorf("put back: %+v", out)
			}
		})
	}
}

// TestTheHashOfARewriteNamesItsRevision rewrites the branch twice to the same files.
func TestTheHashOfARewriteNamesItsRevision(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		b.start()
		first := b.status().LastGood.Commit
		b.commit("x", map[string]string{"settings/web.yaml": xForW})
		b.now()
		b.moveTo(first)
		waits := b.now().Blocked
		b.commit("the same files", map[string]string{"settings/web.yaml": string(siteFiles()["settings/web.yaml"].Data)})
		if other := b.now().Blocked; other == "" || other == waits {
			t.Errorf("the plan is %s, then %s", waits, other)
		}
	})
}

func TestABranchThatIsRewrittenDuringARolloutWaits(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 10m}]", func(r *rollingBench) {
		c := r.next()
		r.reached(0)
		r.moveTo(r.good)
		r.commit("beside it", map[string]string{"settings/web.yaml": "schedule:\n  y: {module: test.ping, interval: 1h}\n"})
		out := r.now()
		if got := conditionOf(out, status.GuardBlocked); got.Reason != "HistoryRewritten" || out.Rollout == nil || out.Rollout.Commit != c {
			t.Errorf("%+v", out)
		}
	})
}

// TestAPinHidesNoRewrite pins the first revision, and then has the branch go on from there without the second.
func TestAPinHidesNoRewrite(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		b.start()
		first := b.status().LastGood.Commit
		second := b.commit("x", map[string]string{"settings/web.yaml": xForW})
		b.now()
		b.after(2 * time.Second)
		b.told("pin", status.PinRequest{Revision: string(first)})
		b.moveTo(first)
		third := b.commit("y", map[string]string{"settings/web.yaml": "schedule:\n  y: {module: test.ping, interval: 1h}\n"})
		b.now()
		out := b.told("unpin", nil)
		if got := conditionOf(out, status.GuardBlocked); out.LastGood.Commit != first || got.Reason != "HistoryRewritten" || !strings.Contains(got.Message, second.Short()) {
			t.Fatalf("the branch lost %s: %+v", second.Short(), out)
		}
		if out = b.told("approve", status.ApproveRequest{Hash: out.Blocked}); out.LastGood.Commit != third {
			t.Errorf("approved: %+v", out)
		}
	})
}
