package review_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/backtest"
	"github.com/seed-c01c3da5/zester/reconciler/plan/review"
)

func TestChangedEntriesAreHeldAgainstThePast(t *testing.T) {
	const few = "schedule: {own: {module: test.ping, cron: '0 4 * * *'}}\n"
	c, fleet := plan.NewCompiler(), peels(20)
	base := compile(t, c, tree("settings/all.yaml", backup, "settings/few.yaml", few), fleet)
	head := compile(t, c, tree("settings/all.yaml", strings.Replace(backup, "30 1", "55 3", 1), "settings/few.yaml", few), fleet)
	r, err := review.Make(base, head, review.Options{From: merge, Zone: time.UTC})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Measured(head); fmt.Sprint(got) != "[backup check own]" {
		t.Errorf("measures %v", got)
	}
	if err := r.Test(base, head, backtest.Past{
		From: merge.Add(-10 * 24 * time.Hour), Until: merge, Recorded: merge.Add(-7 * 24 * time.Hour), Zone: time.UTC,
		Durations: map[string]backtest.Durations{"backup": {Runs: 3, Median: 8 * time.Minute, P95: 9 * time.Minute}},
	}); err != nil {
		t.Fatal(err)
	}
	if len(r.Backtest.Entries) != 1 {
		t.Fatalf("%+v", r.Backtest)
	}
	e := r.Backtest.Entries[0]
	if e.Entry != "backup" || e.Peels != 20 || e.Fires != 10 || e.Before != 10 || e.P95 != 540 || fmt.Sprint(e.Beside) != "[{check 10} {own 10}]" {
		t.Errorf("%+v", e)
	}
	if l := r.Backtest.Load; l.Before.Starts != 20 || l.After.Starts != 20 || !l.After.StartsAt.Equal(time.Date(2026, 3, 19, 3, 55, 0, 0, time.UTC)) {
		t.Errorf("%+v", l)
	}
	line := "backtest: backup on 20 peels: 10 fires each, 10 before; a run takes 8m, and 95 of 100 at most 9m; 10 run beside check; 10 run beside own"
	if !slices.Contains(r.Facts(), line) || !strings.Contains(r.Markdown(), line) {
		t.Errorf("%s", r.Markdown())
	}
}

// A peel without settings at the base, or at the head, has no entries there.
func TestAnEntryThatComesOrGoesIsHeldAgainstThePast(t *testing.T) {
	c, fleet := plan.NewCompiler(), peels(2)
	none := compile(t, c, tree("settings/all.yaml", "{}\n", "settings/few.yaml", "{}\n"), fleet)
	some := compile(t, c, tree("settings/all.yaml", backup, "settings/few.yaml", "{}\n"), fleet)
	past := backtest.Past{From: merge.Add(-24 * time.Hour), Until: merge, Zone: time.UTC}
	test := func(base, head *plan.Plan) *backtest.Result {
		r, err := review.Make(base, head, review.Options{From: merge, Zone: time.UTC})
		if err == nil {
			err = r.Test(base, head, past)
		}
		if err != nil {
			t.Fatal(err)
		}
		return r.Backtest
	}
	came, gone := test(none, some), test(some, none)
	if e := came.Entries; len(e) != 2 || e[0].Fires != 1 || e[1].Fires != 24 || e[1].Before != 0 || came.Load.Before.Starts != 0 || came.Load.After.Starts < 2 {
		t.Errorf("entries that come: %+v", came)
	}
	if len(gone.Entries) != 0 || gone.Load.Before != came.Load.After || gone.Load.After.Starts != 0 {
		t.Errorf("entries that go: %+v", gone)
	}
}
