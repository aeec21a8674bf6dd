package coverage_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A run by hand says nothing of the schedule: it is no last fire, and hides none.
func TestARunByHandIsNotTheLastFire(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		host := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("*/5 * * * *")}))
		t.until("00:31", "web-1")
		host.ran("backup", "00:05", "00:25", five)
		host.fire("backup", hhmm(t, "00:25"), ledger.Fire{Outcome: ledger.Failed})
		host.fire("backup", hhmm(t, "00:27"), ledger.Fire{Outcome: ledger.Ran, Class: ledger.Hand})
		e := host.entry("backup")
		e.Started, e.Ended, e.Succeeded, e.Error = hhmm(t, "00:27"), hhmm(t, "00:28"), hhmm(t, "00:28"), ""
		failed := ledger.Note{Nominal: hhmm(t, "00:25"), Outcome: ledger.Failed, Started: hhmm(t, "00:25"), Took: time.Second, Error: "exit status 3"}
		byHand := ledger.Note{Nominal: hhmm(t, "00:27"), Class: ledger.Hand, Outcome: ledger.Ran, Started: hhmm(t, "00:27"), Took: time.Minute}
		e.Notes = []ledger.Note{failed, byHand}
		host.report(0)

		want := verdict.Run{Entry: "backup", Peel: "web-1", Started: hhmm(t, "00:25"), Ended: hhmm(t, "00:25:01"), Failed: true, Exit: 3}
		if runs := table.Runs(func(string) bool { return true }); !reflect.DeepEqual(runs, []verdict.Run{want}) {
			t.Errorf("runs are %+v, want %+v", runs, want)
		}
		cells, err := table.Cells(coverage.Query{})
		if err != nil || len(cells) != 1 || cells[0].Error != "exit status 3" || !cells[0].Ended.Equal(want.Ended) {
			t.Errorf("%+v, %v", cells, err)
		}
	})
}

func TestRunsAreTheNewestOfEachEntryInTheSettings(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		entries := map[string]map[string]any{"backup": cron("*/5 * * * *"), "report": cron("0 0 * * *")}
		one, two := t.host("web-1", t.document("web-1", entries)), t.host("web-2", t.document("web-2", entries))
		_ = t.document("web-3", entries) // it has never reported
		t.until("00:31", "web-1", "web-2")
		one.ran("backup", "00:05", "00:30", five)
		two.fire("backup", hhmm(t, "00:25"), ledger.Fire{Outcome: ledger.Failed})
		e := two.entry("backup")
		e.Succeeded = hhmm(t, "00:20") // the run of 00:25 failed
		e.Started, e.Running, e.Error = hhmm(t, "00:30"), 1, "exit status 3"
		two.fire("backup-of-nobody", hhmm(t, "00:25"), ledger.Fire{Outcome: ledger.Ran}) // not in the settings
		one.report(0)
		two.report(0)
		want := []verdict.Run{
			{Entry: "backup", Peel: "web-1", Started: hhmm(t, "00:25"), Ended: hhmm(t, "00:25:01")},
			{Entry: "backup", Peel: "web-2", Started: hhmm(t, "00:30"), Ended: hhmm(t, "00:25:01"), Failed: true, Exit: 3, Running: true},
			{Entry: "backup", Peel: "web-3"},
		}
		asked := 0
		runs := table.Runs(func(entry string) bool { asked++; return entry != "report" })
		if !reflect.DeepEqual(runs, want) {
			t.Errorf("runs are %+v, want %+v", runs, want)
		}
		if asked != 3 {
			t.Errorf("asked %d times about three names", asked)
		}
		two.entry("backup").Error = "the disk is full"
		two.report(0)
		if r := table.Runs(func(entry string) bool { return entry == "backup" })[1]; !r.Failed || r.Exit != 0 {
			t.Errorf("%+v", r)
		}
		started := time.Now()
		e = two.entry("backup")
		e.Ended, e.Succeeded, e.Running = started, started, 0
		two.report(0)
		if r := table.Runs(func(entry string) bool { return entry == "backup" })[1]; r.Failed || r.Running || !r.Ended.Equal(started.Truncate(time.Second)) {
			t.Errorf("%+v", r)
		}
	})
}

// How long runs took is added up over the peels that have the entry.
func TestHowLongTheRunsOfAnEntryTook(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		entries := map[string]map[string]any{"backup": cron("*/5 * * * *")}
		one, two := t.host("web-1", t.document("web-1", entries)), t.host("web-2", t.document("web-2", entries))
		hostile := t.host("web-3", t.document("web-3", entries))
		t.until("00:31", "web-1", "web-2", "web-3")
		one.entry("backup").Took.Add(2 * time.Second)
		one.entry("backup").Took.Add(7 * time.Hour)
		two.entry("backup").Took.Add(30 * time.Second)
		hostile.entry("backup").Took = ledger.Took{UpTo: make([]uint64, len(ledger.TookBounds)), Runs: 1 << 40, Sum: 1 << 62}
		for _, h := range []*host{one, two, hostile} {
			h.report(0)
		}
		rows, _, err := table.Rows(t.Context(), coverage.Query{Since: time.Now(), Peels: map[target.PeelID]bool{"web-1": true, "web-2": true, "web-3": true}})
		want := ledger.Took{UpTo: []uint64{0, 0, 1, 1, 2, 2, 2, 2, 2}, Runs: 3, Sum: 7*time.Hour + 32*time.Second}
		if err != nil || len(rows) != 1 || !reflect.DeepEqual(rows[0].Took, want) {
			t.Errorf("%+v, %v", rows, err)
		}
		rows, _, err = table.Rows(t.Context(), coverage.Query{Since: time.Now(), By: coverage.ByPeel})
		if err != nil || len(rows) != 3 || rows[0].Took.Runs != 0 {
			t.Errorf("%+v, %v", rows, err)
		}
	})
}

// A report that was cut says since when it has all fires. One of an entry that is new is not cut.
func TestAPeelThatReportsLessThanItsFires(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		host := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("*/5 * * * *"), "report": cron("0 0 * * *")}))
		t.until("00:31", "web-1")
		from := func() time.Time {
			t.Helper()
			host.report(0)
			rows, _, err := table.Rows(t.Context(), coverage.Query{Since: time.Now(), By: coverage.ByPeel})
			if err != nil || len(rows) != 1 {
				t.Fatalf("%+v, %v", rows, err)
			}
			return rows[0].From
		}
		_ = host.entry("backup")
		if got := from(); !got.IsZero() {
			t.Errorf("a new peel lacks fires before %v", got)
		}
		cut := hhmm(t, "00:20")
		host.lists["backup"].Marks[0].At, host.lists["backup"].From = hhmm(t, "00:10"), cut
		if got := from(); !got.Equal(cut) {
			t.Errorf("the report lacks fires before %v, want %v", got, cut)
		}
	})
}

// The list of an entry that runs seldom is empty, so its notes say how its last run went.
func TestAFailureOfBeforeTheListLastsUntilARunSucceeds(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		h := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("0 0 1 * *")}))
		t.until("00:31", "web-1")
		failed := hhmm(t, "00:00").Add(-72 * time.Hour)
		e := h.entry("backup")
		e.Notes = []ledger.Note{{Nominal: failed, Outcome: ledger.Failed, Started: failed, Took: time.Minute, Error: "exit status 3"}}
		h.report(0)
		t.problems(table, "failed backup web-1")
		e.Succeeded = failed.Add(time.Hour)
		h.report(0)
		t.problems(table)
	})
}
