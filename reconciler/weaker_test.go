package reconciler

import (
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/status"
)

const frozenCanary = "waves: [{name: canary, peels: 1, soak: 10m}]\ncalendars: {c: ['1999-01-01/2030-01-01']}\nfreeze: [{calendar: c}]\n"

// withRules runs f when the first revision, with a zester.yaml, is in force on four peels.
func withRules(t *testing.T, rules string, f func(r *rollingBench)) {
	t.Helper()
	files := siteFiles()
	files["zester.yaml"] = text(rules)
	inBubble(t, files, func(b *bench) {
		r := &rollingBench{bench: b, ids: webs(4)}
		for _, id := range r.ids {
			b.peel(id, nil)
		}
		b.start()
		r.good = b.status().LastGood.Commit
		f(r)
	})
}

// Two commits, of which the first takes the rules away and changes no peel, do not get past the rules.
func TestACommitThatOnlyWeakensRulesWaits(t *testing.T) {
	for _, c := range []struct{ rules, says string }{
		{"calendars: {c: ['1999-01-01/2030-01-01']}\nfreeze: [{calendar: c}]\n", "wave canary goes"},
		{"waves: [{name: canary, peels: 1, soak: 10m}]\n", "freeze (c) goes"},
		{strings.Replace(frozenCanary, "soak: 10m", "soak: 9m", 1), "wave canary: soak 9m0s in place of 10m0s"},
		{frozenCanary + "limits: {remove: off}\n", "limit remove is off in place of 10%"},
	} {
		withRules(t, frozenCanary, func(r *rollingBench) {
			weak := r.commit("weaker", map[string]string{"zester.yaml": c.rules})
			out := r.now()
			got := conditionOf(out, status.GuardBlocked)
			if out.LastGood.Commit != r.good || out.Blocked == "" || got.Reason != "SafetyWeakened" || !strings.Contains(got.Message, c.says) {
				t.Fatalf("%s: %+v", c.says, out)
			}
			r.commit("x for w", map[string]string{"settings/web.yaml": xForW})
			if r.now(); r.entries(r.ids[0]) != "abcdw" {
				t.Errorf("%s: a peel has the next revision", c.says)
			}
			r.reached()
			r.moveTo(weak)
			if out = r.told("approve", status.ApproveRequest{Hash: r.now().Blocked}); out.LastGood.Commit != weak || out.Blocked != "" {
				t.Errorf("%s: approved: %+v", c.says, out)
			}
		})
	}
}

// Rules that are added hold from the next commit on, and the commit that adds them goes out by those before.
func TestRulesHoldFromTheNextCommitOn(t *testing.T) {
	withRules(t, "", func(r *rollingBench) {
		c := r.commit("careful", map[string]string{"zester.yaml": "waves: [{name: canary, peels: 1, soak: 10m}]\n", "settings/web.yaml": xForW})
		r.now()
		r.inForce(c)
		r.reached(0, 1, 2, 3)
		r.good = c
		r.commit("back", map[string]string{"settings/web.yaml": string(siteFiles()["settings/web.yaml"].Data)})
		r.now()
		if out := r.status(); out.Rollout == nil || out.Rollout.Name != "canary" {
			t.Errorf("%+v", out)
		}
	})
}
