package reconciler

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/rollout"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// What people see and order between two revisions.

// A newer head that waits does not end the attempt whose waves go on.
func TestAHeadThatWaitsSupersedesNoRollout(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 10m}]", func(r *rollingBench) {
		first := r.good
		c := r.next()
		r.moveTo(first)
		sibling := r.commit("a sibling", map[string]string{"settings/web.yaml": xForW + "# more\n"})
		if out := r.now(); out.Blocked == "" {
			t.Fatalf("%+v", out)
		}
		r.after(11 * time.Minute)
		if out := r.status(); out.LastGood.Commit != c {
			t.Fatalf("%+v", out)
		}
		past := r.record().History
		if len(past) != 3 || past[1].Commit != c || past[1].Outcome != status.OutcomeApplied || past[1].Ended.Sub(past[1].Began) < 10*time.Minute || past[2].Commit != sibling || past[2].Outcome != status.OutcomeBlocked {
			t.Errorf("%+v", past)
		}
	})
}

// The same with a rollout that fails: the row of the revision says so, and the head that waits still does.
func TestARolloutFailsUnderAHeadThatWaits(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 10m}]", func(r *rollingBench) {
		first := r.good
		c := r.next()
		r.moveTo(first)
		sibling := r.commit("a sibling", map[string]string{"zester.yaml": "waves: []\n"})
		r.now()
		r.alter(away, r.ids[0])
		r.after(4 * time.Minute)
		past := r.record().History
		if len(past) != 3 || past[1].Commit != c || past[1].Outcome != status.OutcomeRolledBack || past[2].Commit != sibling || past[2].Outcome != status.OutcomeBlocked {
			t.Errorf("%+v", past)
		}
		if out := r.status(); out.Blocked == "" || conditionOf(out, status.GuardBlocked).Reason != "SafetyWeakened" {
			t.Errorf("%+v", out) // it descends from the revision in force, and was judged anew
		}
	})
}

// An approval that was meant for one revision opens the gate of no other.
func TestAGateOpensForTheRevisionThatWasShown(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, gate: manual}]", func(r *rollingBench) {
		c := r.next()
		seen := r.at(1, rollout.AtGate)
		if !strings.Contains(seen.Rollout.Reason, "zester sync approve canary --revision "+c.Short()) {
			t.Errorf("%s", seen.Rollout.Reason)
		}
		newer := r.commit("newer", map[string]string{"settings/web.yaml": xForW + "# newer\n  v: {module: test.ping, interval: 1h}\n"})
		r.now()
		if out := r.at(1, rollout.AtGate); out.Rollout.Commit != newer {
			t.Fatalf("%+v", out.Rollout)
		}
		if why := r.ask("approve", status.ApproveRequest{Wave: "canary", Revision: c.Short()}, new(status.Sync)); !strings.Contains(why, newer.Short()) {
			t.Errorf("%q", why)
		}
		r.at(1, rollout.AtGate)
		r.told("approve", status.ApproveRequest{Wave: "canary", Revision: newer.Short()})
		r.inForce(newer)
	})
}

// A freeze holds a half sent revision and its fix. Either can be let through, and the one that is not stays.
func TestTheFixOfAFrozenRolloutCanBeLetThrough(t *testing.T) {
	rules := "calendars: {c: ['2026-01-01T00:05:00Z/2026-01-02T00:00:00Z']}\nwaves: [{name: canary, peels: 1, soak: 10m}]\nfreeze: [{calendar: c}]\n"
	withRules(t, rules, func(r *rollingBench) {
		bad := r.next()
		r.after(11 * time.Minute)
		r.at(1, rollout.Passed)
		fix := r.commit("the fix", map[string]string{"settings/web.yaml": xForW + "# fixed\n  v: {module: test.ping, interval: 1h}\n"})
		r.now()
		if out := r.status(); out.Rollout == nil || out.Rollout.Commit != bad {
			t.Fatalf("%+v", out)
		}
		if out := r.told("approve", status.ApproveRequest{Hash: string(fix), Override: true, Reason: "outage"}); out.Rollout == nil || out.Rollout.Commit != fix {
			t.Errorf("%+v", out)
		}
	})
}

// A rollout that is paused does not end because the branch goes back.
func TestABranchThatGoesBackWaitsForAPause(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 1h}]", func(r *rollingBench) {
		c := r.next()
		r.told("pause", nil)
		r.moveTo(r.good)
		r.now()
		if out := r.at(1, rollout.Soaks); out.Rollout.Commit != c {
			t.Errorf("%+v", out)
		}
		r.reached(0)
		r.told("resume", nil)
		r.now()
		r.inForce(r.good)
		r.reached()
	})
}
