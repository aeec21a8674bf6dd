package reconciler

import (
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/rollout"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// An approved revision removes a setting from every peel. A commit that comes during its waves is compared with the revision in
// force before them, and waits. Once they have passed it removes nothing.
func TestACommitIsJudgedAnewAfterARollout(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 10m}]", func(r *rollingBench) {
		fewer := r.commit("without w", map[string]string{"settings/web.yaml": "{}\n"})
		out := r.now()
		if c := conditionOf(out, status.GuardBlocked); out.Blocked == "" || c.Reason != "TooManyChanges" {
			t.Fatalf("%+v", out)
		}
		r.told("approve", status.ApproveRequest{Hash: out.Blocked})
		r.at(1, rollout.Soaks)
		next := r.commit("a comment", map[string]string{"settings/web.yaml": "{}\n# nothing\n"})
		if out = r.now(); out.Blocked == "" || out.LastAttempted != next {
			t.Fatalf("during the rollout: %+v", out)
		}
		r.after(10*time.Minute + 5*time.Second)
		if out = r.status(); out.LastGood.Commit != next || out.Blocked != "" || out.Is(status.GuardBlocked) {
			t.Errorf("after the rollout of %s: %+v", fewer.Short(), out)
		}
	})
}

// The same with an approved rewritten branch: a child of the revision under way does not descend from the one in force.
func TestAChildOfARewrittenBranchIsJudgedAnewAfterItsRollout(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 10m}]", func(r *rollingBench) {
		first := r.good
		y := r.commit("y for w", map[string]string{"settings/web.yaml": "schedule:\n  y: {module: test.ping, interval: 1h}\n"})
		r.now()
		r.after(11 * time.Minute)
		r.inForce(y)
		r.moveTo(first)
		sibling := r.commit("x for w", map[string]string{"settings/web.yaml": xForW})
		out := r.now()
		if c := conditionOf(out, status.GuardBlocked); c.Reason != "HistoryRewritten" {
			t.Fatalf("%+v", out)
		}
		r.told("approve", status.ApproveRequest{Hash: out.Blocked})
		child := r.commit("a comment", map[string]string{"settings/web.yaml": xForW + "# more\n"})
		r.now()
		r.after(11 * time.Minute)
		if out = r.status(); out.LastGood.Commit != child || out.Is(status.GuardBlocked) {
			t.Errorf("the child of %s: %+v", sibling.Short(), out)
		}
	})
}
