package backtest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/plan/backtest"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const day = 24 * time.Hour

// until is a Monday; 30 days before it is a Saturday.
var until = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

// set reads entries; module is left out.
func set(t testing.TB, text string) schedule.Set {
	t.Helper()
	n, err := strictyaml.Parse("test.yaml", []byte(strings.ReplaceAll(text, ": {", ": {module: test.ping, ")))
	if err != nil {
		t.Fatal(err)
	}
	s, err := schedule.ParseSet(n)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// month is the 30 days before until, with a duration of runs by entry.
func month(p95 map[string]time.Duration) backtest.Past {
	p := backtest.Past{From: until.Add(-30 * day), Until: until, Zone: time.UTC, Durations: map[string]backtest.Durations{}}
	for name, d := range p95 {
		p.Recorded = until.Add(-7 * day)
		p.Durations[name] = backtest.Durations{Runs: 20, Median: d / 2, P95: d}
	}
	return p
}

// change is that of the entry e on two peels.
func change(t testing.TB, before, after string) backtest.Change {
	c := backtest.Change{Entry: "e", Peels: []target.PeelID{"web-01", "web-02"}}
	if before != "" {
		c.Before = set(t, before)["e"]
	}
	if after != "" {
		c.Beside = set(t, after)
		c.After = c.Beside["e"]
	}
	return c
}

func TestWhatAChangedEntryWouldHaveDone(t *testing.T) {
	minutes := func(n int) map[string]time.Duration {
		return map[string]time.Duration{"e": time.Duration(n) * time.Minute}
	}
	for _, c := range []struct {
		name, before, after string
		took                map[string]time.Duration
		want                string // fires, before, overlaps, outside, blackout, into, beside
	}{
		{"more often", `e: {cron: "0 3 * * *"}`, `e: {cron: "0 * * * *"}`, minutes(10), "720 30 0 0 0 0 []"},
		{"a run lasts longer than the time between fires", `e: {cron: "0 3 * * *"}`, `e: {cron: "0 * * * *"}`, minutes(61), "720 30 360 0 0 0 []"},
		{"it takes twice as long", "", `e: {cron: "0 * * * *"}`, minutes(150), "720 0 480 0 0 0 []"},
		{"each fire runs", "", `e: {cron: "0 * * * *", if_running: allow}`, minutes(150), "720 0 719 0 0 0 []"},
		{"each fire cancels the run before", "", `e: {cron: "0 * * * *", if_running: cancel}`, minutes(61), "720 0 719 0 0 0 []"},
		{"one fire waits", "", `e: {cron: ["0 3 * * *", "5 3 * * *"], if_running: queue}`, minutes(10), "60 0 30 0 0 0 []"},
		{"what waits runs into the next fire", "", `e: {cron: ["0 3 * * *", "5 3 * * *", "15 3 * * *"], if_running: queue}`, minutes(10), "90 0 60 0 0 0 []"},
		{"two may run at a time", "", `e: {cron: "0 * * * *", maxrunning: 2}`, minutes(110), "720 0 0 0 0 0 []"},
		{"two may, and three would", "", `e: {cron: "0 * * * *", maxrunning: 2}`, minutes(150), "720 0 240 0 0 0 []"},
		{"or exactly as long", "", `e: {cron: "0 * * * *"}`, minutes(60), "720 0 0 0 0 0 []"},
		{"only the close fires overlap", "", `e: {cron: ["0 3 * * *", "10 3 * * *"]}`, minutes(11), "60 0 30 0 0 0 []"},
		{"an interval counts from the end of a run", "", `e: {interval: 1h}`, minutes(90), "720 0 0 0 0 0 []"},
		{"an interval from the start", "", `e: {interval: 1h, interval_from: start}`, minutes(90), "720 0 360 0 0 0 []"},
		{"no run is recorded", "", `e: {cron: "* * * * *"}`, nil, "43200 0 0 0 0 0 []"},
		{"a life that has not begun", "", `e: {cron: "0 3 * * *", not_before: "2026-07-01T00:00:00Z", max_runs: 2}`, nil, "30 0 0 0 0 0 []"},
		{"it is off", `e: {cron: "0 3 * * *"}`, `e: {cron: "0 3 * * *", enabled: false, blackout: sat}`, nil, "0 30 0 0 0 0 []"},
		{"blackouts", "", `e: {cron: "0 3 * * *", blackout: sat}`, minutes(10), "25 0 0 0 5 0 []"},
		{"windows", "", `e: {cron: "0 * * * *", only_between: "08:00-10:00"}`, minutes(10), "60 0 0 660 0 0 []"},
		{"a run lasts into the night", "", `e: {cron: "30 * * * *", only_between: "08:00-10:00"}`, minutes(45), "60 0 0 660 0 30 []"},
		{"a run lasts into a blackout", "", `e: {cron: "30 23 * * *", blackout: sat}`, minutes(45), "25 0 0 0 5 4 []"},
		{"another entry runs at the time", "", `{e: {cron: "0 3 * * *"}, other: {cron: "55 2 * * mon"}, never: {cron: "0 9 * * *"}}`, map[string]time.Duration{"other": 5 * time.Minute, "never": time.Minute}, "30 0 0 0 0 0 [{other 4}]"},
		{"another ends before", "", `{e: {cron: "0 3 * * *"}, other: {cron: "55 2 * * *"}}`, map[string]time.Duration{"other": 4 * time.Minute}, "30 0 0 0 0 0 []"},
		{"another begins during the run", "", `{e: {cron: "0 3 * * *"}, other: {cron: "9 3 * * *"}}`, minutes(10), "30 0 0 0 0 0 [{other 30}]"},
		{"the three that meet most often", "", `{e: {cron: "0 3 * * *"}, a: {cron: "0 3 1 * *"}, b: {cron: "0 3 * * *"}, c: {cron: "0 3 * * mon"}, d: {cron: "0 3 * * sat,sun"}}`, minutes(10), "30 0 0 0 0 0 [{b 30} {d 10} {c 4}]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := backtest.Of([]backtest.Change{change(t, c.before, c.after)}, month(c.took))
			if err != nil || len(r.Entries) != 1 {
				t.Fatalf("%+v, %v", r, err)
			}
			e := r.Entries[0]
			if got := fmt.Sprint(e.Fires, e.Before, e.Overlaps, e.Outside, e.Blackout, e.Into, e.Beside); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestTheLoadOfChangedEntries(t *testing.T) {
	move := change(t, `e: {cron: "0 3 * * *"}`, `e: {cron: "*/30 3 * * *"}`)
	gone := backtest.Change{Entry: "gone", Peels: []target.PeelID{"db-01"}, Before: set(t, `gone: {cron: "20 3 * * *"}`)["gone"]}
	past := month(map[string]time.Duration{"e": 30 * time.Minute, "gone": 90 * time.Second})
	r, err := backtest.Of([]backtest.Change{move, gone}, past)
	if err != nil {
		t.Fatal(err)
	}
	at := func(text string) time.Time {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	want := backtest.Load{
		Before: backtest.Peaks{Starts: 2, StartsAt: at("2026-05-02T03:00:00Z"), InFlight: 3, InFlightAt: at("2026-05-02T03:20:00Z")},
		After:  backtest.Peaks{Starts: 2, StartsAt: at("2026-05-02T03:00:00Z"), InFlight: 2, InFlightAt: at("2026-05-02T03:00:00Z")},
	}
	if r.Load != want || len(r.Entries) != 1 {
		t.Errorf("%+v\nwant %+v", r.Load, want)
	}
	past.Durations["e"] = backtest.Durations{Runs: 1, P95: 31 * time.Minute}
	if r, err = backtest.Of([]backtest.Change{move}, past); err != nil || r.Load.After.InFlight != 4 || !r.Load.After.InFlightAt.Equal(at("2026-05-02T03:30:00Z")) {
		t.Errorf("with runs of 31 minutes %+v, %v", r.Load.After, err)
	}
}

// A whole quarter is longer than one forecast, and ends on the last minute.
func TestTheLoadCoversTheWholePast(t *testing.T) {
	past := backtest.Past{From: until.Add(-backtest.MaxPast), Until: until, Zone: time.UTC}
	c := change(t, "", `e: {cron: "59 23 31 5 *"}`)
	r, err := backtest.Of([]backtest.Change{c}, past)
	if err != nil || r.Load.After.Starts != 2 || !r.Load.After.StartsAt.Equal(until.Add(-time.Minute)) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestManyChangesAreCounted(t *testing.T) {
	var changes []backtest.Change
	for range 53 {
		changes = append(changes, change(t, "", `e: {cron: "0 3 * * *"}`))
	}
	past := month(nil)
	past.From = until.Add(-day)
	r, err := backtest.Of(changes, past)
	if err != nil || len(r.Entries) != 50 || r.More != 3 || !slices.Contains(r.Lines(), "backtest: 3 more changes were not tested") {
		t.Errorf("%d entries, %d more, %v", len(r.Entries), r.More, err)
	}
}

func TestAZoneThatThisHostLacksIsAnError(t *testing.T) {
	c := change(t, "", `e: {cron: "0 3 * * *"}`)
	lost := *c.After
	lost.Clock.Zone = "Mars/Base"
	c.After = &lost
	if _, err := backtest.Of([]backtest.Change{c}, month(nil)); err == nil || !strings.HasPrefix(err.Error(), "cannot test e: ") {
		t.Error(err)
	}
}

func TestDurationsOfRuns(t *testing.T) {
	var took []time.Duration
	for i := range 100 {
		took = append(took, time.Duration(100-i)*time.Second)
	}
	if d := backtest.DurationsOf(took); d.Runs != 100 || d.Median != 50*time.Second || d.P95 != 95*time.Second || took[0] != 100*time.Second {
		t.Errorf("%+v", d)
	}
	if d := backtest.DurationsOf(took[:1]); d.Median != 100*time.Second || d.P95 != 100*time.Second {
		t.Errorf("%+v", d)
	}
	if d := backtest.DurationsOf(nil); d != (backtest.Durations{}) {
		t.Errorf("%+v", d)
	}
}

func ExampleResult_Lines() {
	t := &testing.T{}
	c := change(t, `{e: {cron: "0 3 * * *"}}`, `{e: {cron: "*/5 1-4 * * *", blackout: sat}, vacuum: {cron: "30 3 * * sun"}}`)
	r, _ := backtest.Of([]backtest.Change{c}, month(map[string]time.Duration{"e": 7*time.Minute + 1300*time.Millisecond}))
	for _, line := range r.Lines() {
		fmt.Println(line)
	}
	// Output:
	// backtest: 2026-05-02 00:00 UTC to 2026-06-01 00:00 UTC; runs are recorded for 7 days of these 30 days
	// backtest: e on 2 peels: 1200 fires each, 30 before; a run takes 3m31s, and 95 of 100 at most 7m1s; 600 come while the run before is in flight (skipped); 240 more are in a blackout; 10 run beside vacuum
	// backtest: most starts in a minute: 2 (2026-05-02 03:00 UTC) → 2 (2026-05-03 01:00 UTC)
	// backtest: most runs at a time: 2 (2026-05-02 03:00 UTC) → 4 (2026-05-03 01:05 UTC)
}

func BenchmarkAMonthOfChanges(b *testing.B) {
	peels := make([]target.PeelID, 10_000)
	for i := range peels {
		peels[i] = target.PeelID(fmt.Sprintf("web-%05d", i))
	}
	before, after := set(b, `e: {cron: "*/5 * * * *", splay: 60s}`)["e"], set(b, `e: {cron: "*/4 * * * *", splay: 60s, blackout: sat}`)
	past := month(map[string]time.Duration{"e": time.Minute})
	for b.Loop() {
		if _, err := backtest.Of([]backtest.Change{{Entry: "e", Peels: peels, Before: before, After: after["e"], Beside: after}}, past); err != nil {
			b.Fatal(err)
		}
	}
}
