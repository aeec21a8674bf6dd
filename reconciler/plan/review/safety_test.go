package review_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/review"
	"github.com/seed-c01c3da5/zester/reconciler/rollout"
)

const careful = `limits: {change: 20%, remove: off}
nodegroups: {edge: web-00*}
calendars: {spring: [2026-03-27/2026-03-30]}
waves:
  - {name: canary, peels: N@edge, soak: 10m, gate: manual, deadline: 1h30m}
  - {name: tenth, peels: 10%, soak: 45s, max_failures: 2}
freeze:
  - {calendar: spring, targets: 'web-001'}
  - {calendar: sat, only_between: "10:00-14:00", timezone: Europe/London}
`

// How a master will send a merge out is in the plan, with the rules that the merge weakens.
func TestAPlanSaysHowTheChangeWouldGoOut(t *testing.T) {
	const (
		limits = "limits: change: 50%, remove: 10%, peels: 50%"
		weaker = "weaker rule: "
		waves  = "waves: canary (10 of web-00*, soak 10m, deadline 1h30m, manual gate) → tenth (2, soak 45s, 2 may fail) → all 20"
		frozen = "frozen until 2026-03-31 00:00 UTC: spring, of web-001; sat, between 10:00-14:00 Europe/London; 20 peels: web-000, web-001, web-002 and 17 more; " +
			"zester sync approve COMMIT --override-freeze REASON after the merge lets it out before"
	)
	all := "schedule: {b: {module: test.ping, interval: %s}}\n"
	before, after := fmt.Sprintf(all, "1h"), fmt.Sprintf(all, "2h")
	for name, c := range map[string]struct {
		base, head string // zester.yaml
		want       []string
	}{
		"both":         {careful, careful, []string{"limits: change: 20%, remove: off, peels: 50%", waves, frozen}},
		"the head":     {"", strings.Replace(careful, "remove: off", "remove: 9%", 1), []string{limits}},
		"the base":     {careful, "", []string{"limits: change: 20%, remove: off, peels: 50%", waves, frozen, weaker + "limit change is 50% in place of 20%", weaker + "wave canary goes", weaker + "wave tenth goes", weaker + "freeze (spring, of web-001) goes", weaker + "freeze (sat, between 10:00-14:00 Europe/London) goes"}},
		"neither":      {"", "", []string{limits}},
		"another time": {careful, strings.Replace(careful, "sat,", "sun,", 1), []string{"limits: change: 20%, remove: off, peels: 50%", waves, frozen, weaker + "freeze (sat, between 10:00-14:00 Europe/London) goes"}},
		"no such peel": {"waves: [{name: canary, peels: 'db-*'}]\n", "waves: [{name: canary, peels: 'db-*'}]\n", []string{limits, "waves: canary (0 of db-*) → all 20", "wave canary takes none of the changed peels: no peel is watched in it"}},
	} {
		r := compare(t, peels(20), tree("settings/all.yaml", before, "settings/few.yaml", "{}\n", "zester.yaml", c.base),
			tree("settings/all.yaml", after, "settings/few.yaml", "{}\n", "zester.yaml", c.head))
		facts := r.Facts()
		if got := facts[len(facts)-len(c.want):]; strings.Join(got, "\n") != strings.Join(c.want, "\n") || strings.Contains(facts[len(facts)-len(c.want)-1], "limits:") {
			t.Errorf("%s: the plan says\n%s\nnot\n%s", name, strings.Join(facts, "\n"), strings.Join(c.want, "\n"))
		}
		if !strings.Contains(r.Markdown(), strings.ReplaceAll(c.want[0], "!", `\!`)) {
			t.Errorf("%s: %s", name, r.Markdown())
		}
	}
}

// The guard of a plan takes the limits of the base, as a master does, and a head with higher ones needs an approval.
func TestAChangeIsBlockedByTheLimitsOfTheBase(t *testing.T) {
	entry := func(every string) string {
		return "schedule: {a: {module: test.ping, interval: " + every + "}, b: {module: test.ping, interval: 1h}, c: {module: test.ping, interval: 1h}, d: {module: test.ping, interval: 1h}}\n"
	}
	const large, higher = "20 of 80 settings over all peels would change or go, more than change: 24%", "it weakens the rules in force: limit change is 50% in place of 24%"
	for _, c := range []struct{ base, head, message, blocked string }{
		{"", "", "", ""},
		{"limits: {change: 24%}\n", "limits: {change: 24%}\n", "", large},
		{"limits: {change: 24%}\n", "limits: {change: 24%}\n", "x\n\nZester-Allow: change", ""},
		{"limits: {change: 24%}\n", "", "x\n\nZester-Allow: change", higher + "; " + large},
		{"", "limits: {change: 24%}\n", "", ""},
		{"limits: {change: 25%}\n", "limits: {change: off}\n", "", "it weakens the rules in force: limit change is off in place of 25%"},
	} {
		base := compile(t, plan.NewCompiler(), tree("settings/all.yaml", entry("1h"), "settings/few.yaml", "{}\n", "zester.yaml", c.base), peels(20))
		head := compile(t, plan.NewCompiler(), tree("settings/all.yaml", entry("2h"), "settings/few.yaml", "{}\n", "zester.yaml", c.head), peels(20))
		r, err := review.Make(base, head, review.Options{From: merge, Zone: time.UTC, Message: c.message})
		if err != nil {
			t.Fatal(err)
		}
		if r.Blocked != c.blocked {
			t.Errorf("%q to %q: blocked is %q", c.base, c.head, r.Blocked)
		}
	}
}

// A change of the rules alone is in the text, and has a hash of its own.
func TestAPlanThatOnlyWeakensRulesSaysSo(t *testing.T) {
	files := []string{"settings/all.yaml", "a: 1\n", "settings/few.yaml", "{}\n"}
	with := func(rules string) *review.Review {
		return compare(t, peels(2), tree(append(files, "zester.yaml", careful)...), tree(append(files, "zester.yaml", rules)...))
	}
	same, none, limits := with(careful), with(""), with(strings.Replace(careful, "20%", "21%", 1))
	if same.Blocked != "" || len(same.Facts()) != 0 || !none.Empty() || none.Hash == same.Hash || none.Hash == limits.Hash || limits.Blocked == "" {
		t.Errorf("%+v\n%+v\n%+v", same, none, limits)
	}
	if text := none.Markdown(); !strings.Contains(text, "weaker rule: wave canary goes") || !strings.Contains(text, "**Blocked:** it weakens the rules in force") || !strings.Contains(none.Release, none.Hash[:12]+" after") {
		t.Error(text)
	}
}

// A freeze keeps only changes of its peels, and waves are for changes: neither is said of what changes nothing, nor of the
// first revision of all.
func TestAPlanSaysNothingOfFreezesThatDoNotMatter(t *testing.T) {
	frozen := "calendars: {spring: [2026-03-27/2026-03-30]}\nwaves: [{name: one, peels: 1}]\nfreeze: [{calendar: spring, targets: web-015}, {calendar: [2026-05-01]}]\n"
	base := []string{"settings/all.yaml", "{}\n", "settings/few.yaml", "a: 1\n", "zester.yaml", frozen}
	few := compare(t, peels(20), tree(base...), tree(append(base[:4:4], "settings/few.yaml", "a: 2\n", "zester.yaml", frozen)...))
	if len(few.Touched) != 10 || few.Safety.Freeze != nil || len(few.Safety.Waves) != 1 || few.Safety.Waves[0].Reach != 1 {
		t.Errorf("%+v", few.Safety)
	}
	same := compare(t, peels(20), tree(base...), tree(base...))
	first := compare(t, peels(20), tree("top.yaml", "{}\n"), tree(base...))
	for _, r := range []any{same.Safety.Waves, same.Safety.Freeze, first.Safety.Waves, first.Safety.Freeze} {
		if fmt.Sprint(r) != "[]" && fmt.Sprint(r) != "<nil>" {
			t.Errorf("it says %v", r)
		}
	}
	all := compare(t, peels(20), tree(base...), tree(append(base[:0:0], "settings/all.yaml", "a: 2\n", "settings/few.yaml", "a: 1\n", "zester.yaml", frozen)...))
	if f := all.Safety.Freeze; f == nil || fmt.Sprint(f.Peels) != "[web-015]" || !f.Until.Equal(time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", f)
	}
}

// What a plan says of a freeze is what the reconciler will do at that instant.
func TestAFreezeInAPlanIsTheFreezeOfTheReconciler(t *testing.T) {
	const zester = "calendars: {spring: [2026-03-27/2026-03-29]}\nfreeze:\n" +
		"  - {calendar: spring, targets: 'web-00[2-4]'}\n  - {only_between: \"20:00-04:00\", timezone: America/New_York}\n  - {calendar: mon, targets: web-011}\n"
	fleet := peels(20)
	c := plan.NewCompiler()
	held := 0
	for _, file := range []string{"few", "all"} { // which selects ten peels or all
		files := []string{"settings/all.yaml", "a: 1\n", "settings/few.yaml", "b: 1\n", "zester.yaml", zester}
		base := compile(t, c, tree(files...), fleet)
		head := compile(t, c, tree(append(files, "settings/"+file+".yaml", "c: 1\n")...), fleet)
		for at := merge; at.Before(merge.Add(5 * 24 * time.Hour)); at = at.Add(7 * time.Hour) {
			r, err := review.Make(base, head, review.Options{From: at, Zone: time.UTC})
			if err != nil {
				t.Fatal(err)
			}
			want, frozen := rollout.HoldOf(head.Freezes, r.Touched, fleet, at)
			if f := r.Safety.Freeze; frozen != (f != nil) || frozen && !f.Until.Equal(want.Until) {
				t.Errorf("%s at %v: the plan says %+v, and the reconciler %+v", file, at, f, want)
			}
			if frozen {
				held++
			}
		}
	}
	if held < 5 || held > 30 {
		t.Errorf("%d instants are frozen", held)
	}
}
