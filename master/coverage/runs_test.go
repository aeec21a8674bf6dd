package coverage_test

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/ledger"
)

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
		if !slices.Equal(runs, want) {
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
