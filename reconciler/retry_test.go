package reconciler

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/rollout"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// rolledBack is a revision that its first wave has rolled back.
func (r *rollingBench) rolledBack() settings.Commit {
	r.t.Helper()
	c := r.next()
	r.runs(r.ids[0], "x", wire.Result{})
	r.takenBack(c, "of x failed")
	return c
}

func TestARolledBackRevisionIsTriedAgain(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 10m}]", func(r *rollingBench) {
		bad := r.rolledBack()
		out := r.told("retry", status.RetryRequest{Revision: string(bad[:8])})
		if out.RolledBack() || out.Skipped != "" || len(out.Errors) > 0 || conditionOf(out, status.RolloutProgressing).Reason == "WaveFailed" {
			r.t.Errorf("it still counts as rolled back: %+v", out)
		}
		r.at(1, rollout.Soaks)
		r.reached(0)
		r.stop()
		r.start() // and the next leader goes on with it
		r.after(11 * time.Minute)
		r.inForce(bad)
		r.reached(0, 1, 2, 3)
		var h status.History
		r.ask("history", nil, &h)
		if len(h.Attempts) != 3 || h.Attempts[0].Outcome != status.OutcomeApplied || h.Attempts[0].By != "op" || h.Attempts[1].Outcome != status.OutcomeRolledBack || h.Attempts[1].By != "" {
			r.t.Errorf("the history is %+v", h.Attempts)
		}
		if why := r.ask("retry", nil, new(status.Sync)); !strings.Contains(why, "no revision was rolled back") {
			r.t.Errorf("again: %q", why)
		}
	})
}

// A retry counts for one attempt: what failed again is rolled back again.
func TestARetryThatFailsIsRolledBackAgain(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 10m}]", func(r *rollingBench) {
		bad := r.rolledBack()
		r.told("retry", nil)
		r.at(1, rollout.Soaks)
		r.runs(r.ids[0], "x", wire.Result{})
		r.takenBack(bad, "of x failed")
		r.after(time.Hour)
		r.takenBack(bad, "of x failed")
		r.told("retry", nil)
		r.at(1, rollout.Soaks)
	})
}

// A retry is held to the guard, as a new commit is.
func TestARetryWaitsForApprovalIfTheGuardSaysSo(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 10m}]", func(r *rollingBench) {
		bad := r.commit("too much", map[string]string{"settings/web.yaml": xForW, "settings/common.yaml": "schedule:\n  a: {module: test.ping, interval: 1h}\n"})
		hash := r.now().Blocked
		r.told("approve", status.ApproveRequest{Hash: hash})
		r.runs(r.ids[0], "x", wire.Result{})
		if out := r.status(); !out.RolledBack() || out.Skipped != bad {
			r.t.Fatalf("%+v", out)
		}
		if out := r.told("retry", nil); out.Blocked == "" || out.Rollout != nil || out.LastGood.Commit != r.good {
			r.t.Errorf("an approval was used twice: %+v", out)
		}
		r.reached()
	})
}

func TestWhatCannotBeRetried(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 10m}]", func(r *rollingBench) {
		refused := func(revision, why string) {
			r.t.Helper()
			if got := r.ask("retry", status.RetryRequest{Revision: revision}, new(status.Sync)); !strings.Contains(got, why) {
				r.t.Errorf("%.20s: %q, want %q", revision, got, why)
			}
		}
		refused("", "no revision was rolled back")
		bad := r.rolledBack()
		refused("abc", "give 4 digits")
		refused(string(r.good), "no such revision was rolled back")
		refused(strings.Repeat("f", 1<<10), "cannot retry "+strings.Repeat("f", 64)+": ")
		r.told("pause", nil)
		refused("", "op has paused new commits: run zester sync resume first")
		r.told("pin", status.PinRequest{Revision: string(r.good)})
		refused("", "op has pinned "+r.good.Short()+": run zester sync unpin first")
		r.told("unpin", nil)
		r.told("resume", nil)
		r.takenBack(bad, "of x failed") // no refusal has changed that
		newer := r.commit("newer", map[string]string{"settings/web.yaml": xForW + "# again\n"})
		r.now()
		refused(string(bad), "the branch has moved to "+newer.Short())
	})
}

// The branch's newest commit was rolled back, so after a pin nothing but this condition says why the pinned revision stays.
func TestAfterAPinTheStatusSaysThatTheNewestCommitWasRolledBack(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 10m}]", func(r *rollingBench) {
		second := r.commit("y", map[string]string{"settings/web.yaml": "schedule:\n  y: {module: test.ping, interval: 1h}\n"})
		r.now()
		r.after(11 * time.Minute)
		r.inForce(second)
		bad := r.next()
		r.runs(r.ids[0], "x", wire.Result{})
		check := func(inForce settings.Commit) {
			r.t.Helper()
			out := r.status()
			c := conditionOf(out, status.HeadSkipped)
			if !c.Status || c.ObservedRevision != bad || !strings.Contains(c.Message, inForce.Short()+" stays in force") || !strings.Contains(c.Message, "zester sync retry "+bad.Short()) || out.LastGood.Commit != inForce {
				r.t.Errorf("%+v with %s in force", c, out.LastGood.Commit.Short())
			}
		}
		check(second)
		r.told("pin", status.PinRequest{Revision: string(r.good)})
		r.told("pause", nil)
		check(r.good)
		if out := r.status(); out.Paused == nil || out.Paused.By != "op" || conditionOf(out, status.Suspended).Reason != "Pinned" {
			r.t.Errorf("paused beside the pin: %+v", out)
		}
		r.told("unpin", nil)
		r.told("resume", nil)
		check(r.good)
		r.stop()
		r.start()
		r.after(time.Minute)
		check(r.good)
		if out := r.told("retry", nil); out.Is(status.HeadSkipped) || out.Paused != nil {
			r.t.Errorf("%+v", out)
		}
	})
}
