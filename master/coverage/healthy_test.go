package coverage_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// healthy runs n real peels with a schedule, and no fault.
func (t *rig) healthy(n int, entries map[string]map[string]any) (ids []target.PeelID) {
	t.Helper()
	for i := range n {
		id := target.PeelID(fmt.Sprint("host-", i))
		ids = append(ids, id)
		t.document(id, entries)
		t.peel(peel.Options{ID: id, DataDir: t.TempDir(), Zone: time.UTC})
	}
	return ids
}

// never looks every so often for a while, and holds that nothing is missed or unknown, and that the table has none of the problems.
func (t *rig) never(table *coverage.Table, every, d time.Duration, kinds ...verdict.Kind) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(every)
		synctest.Wait()
		for _, p := range table.Problems() {
			for _, k := range kinds {
				if p.Kind == k {
					t.Fatalf("%s: %s is %s on %s: %s", time.Now().UTC().Format(time.TimeOnly), p.Entry, p.Kind, p.Peel, p.Text)
				}
			}
		}
		cells, err := table.Cells(coverage.Query{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cells {
			if c.Counts.Missed+c.Counts.Unknown > 0 {
				t.Fatalf("%s: %s on %s: %s", time.Now().UTC().Format(time.TimeOnly), c.Entry, c.Peel, text(c.Counts))
			}
		}
	}
}

// An interval follows its runs: while one is in flight the peel announces a fire that the end of the run moves.
func TestAnIntervalWhoseRunTakesLongIsNotMissed(t *testing.T) {
	if testing.Short() {
		t.Skip("a day of a fleet in fake time")
	}
	bubble(t, func(t *rig) {
		table, _ := t.master()
		sleeps := func(d string) map[string]any { return map[string]any{"duration": d} }
		t.healthy(4, map[string]map[string]any{
			"a": {"module": "test.sleep", "args": sleeps("6m"), "interval": "8m"},
			"b": {"module": "test.sleep", "args": sleeps("2m"), "interval": "10m"},
			"c": {"module": "test.sleep", "args": sleeps("10m"), "interval": "15m"},
		})
		t.never(table, 30*time.Second, 24*time.Hour, verdict.Missed)
	})
}

// A run by hand moves the next fire of an interval.
func TestAFireThatARunByHandMovesIsNotMissed(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		ids := t.healthy(20, map[string]map[string]any{"a": {"module": "test.ping", "interval": "1h"}})
		t.never(table, 30*time.Second, time.Hour-5*time.Minute, verdict.Missed)
		for _, id := range ids {
			t.order(id, "schedule.run", map[string]any{"entry": "a"})
		}
		t.never(table, 30*time.Second, time.Hour, verdict.Missed)
	})
}

// An entry with a timing of its own and a needed entry fires by both, so the peel may announce a fire of neither lattice.
func TestAnEntryThatAlsoFollowsAnotherOneDoesNotDisagree(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		t.healthy(3, map[string]map[string]any{
			"first":  cron("*/7 * * * *"),
			"second": {"module": "test.ping", "cron": "*/30 * * * *", "timezone": "UTC", "needs": map[string]any{"entry": "first"}, "splay": "4m"},
		})
		t.never(table, 30*time.Second, 4*time.Hour, verdict.Missed, verdict.Disagrees)
	})
}

// A whole peel reports 700 entries, in about 200 KiB, and is started again.
func TestNothingIsMissedOfSevenHundredEntries(t *testing.T) {
	if testing.Short() {
		t.Skip("700 entries for a day")
	}
	bubble(t, func(t *rig) {
		table, _ := t.master()
		entries := map[string]map[string]any{}
		for i := range 700 {
			entries[fmt.Sprintf("entry-%03d", i)] = cron("0 * * * *")
		}
		t.document("host-0", entries)
		o := peel.Options{ID: "host-0", DataDir: t.TempDir(), Zone: time.UTC}
		for range 2 {
			stop := t.peel(o)
			t.never(table, 10*time.Minute, 150*time.Minute, verdict.Missed, verdict.Disagrees)
			stop()
		}
	})
}

// A host whose zone has no name reports its offset. A zone whose name masters do not know is a problem, and the outcomes that the peel reports count alone.
func TestAZoneWithoutANameIsKnownByItsOffset(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		h := t.host("web-1", t.document("web-1", map[string]map[string]any{
			"backup": {"module": "test.ping", "cron": "30 */2 * * *"}, "sync": {"module": "test.ping", "cron": "*/7 * * * *"}, "utc": cron("0 * * * *"),
		}))
		h.state.Zone = ledger.Zone{Offset: 3600, Changes: []ledger.ZoneChange{{At: hhmm(t, "02:00"), Before: 3600, After: 7200}}}
		for _, name := range []string{"backup", "utc"} {
			h.entry(name)
		}
		h.report(0)
		t.until("05:01:30", "web-1")
		h.fire("backup", hhmm(t, "01:30"), ledger.Fire{Outcome: ledger.Ran}) // 02:30 there
		h.fire("backup", hhmm(t, "02:30"), ledger.Fire{Outcome: ledger.Ran}) // 04:30 there
		h.ran("utc", "01:00", "05:01", time.Hour)
		h.report(0)
		t.want(table, "web-1", "backup", "expected 3, ran 2, missed 1") // 06:30 there
		t.want(table, "web-1", "utc", "expected 5, ran 5")
		t.problems(table, "missed backup web-1")

		h.state.Zone = ledger.Zone{Name: "Nowhere/Town"}
		h.entry("sync")
		h.ran("sync", "05:01", "05:02", five)
		h.report(0)
		t.problems(table, "disagrees web-1")
		if text := table.Problems()[0].Text; text != `zone: masters do not know "Nowhere/Town"; the fires of backup and 1 more are not checked` {
			t.Error(text)
		}
		t.want(table, "web-1", "sync", "expected 1, ran 1")
	})
}

// An entry that fires often is reported in numbers of an hour. That it fails, and that it runs again, is known within
// seconds, although both are in numbers of the same hour.
func TestAFailureAmongManyFiresOfAnHourIsSeen(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		works := map[string]map[string]any{"price": {"module": "test.ping", "interval": "1s"}}
		fails := map[string]map[string]any{"price": {"module": "test.fail", "interval": "1s"}}
		id := t.healthy(1, works)[0]
		time.Sleep(5 * time.Minute)

		for range 3 {
			broken := time.Now()
			t.document(id, fails)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if list := table.Problems(); len(list) != 1 || list[0].Kind != verdict.Failed || list[0].Since.Before(broken.Add(-time.Second)) {
				t.Fatalf("10 s after it began to fail at %v: %+v", broken, list)
			}

			time.Sleep(3 * time.Minute)
			t.document(id, works)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if list := table.Problems(); len(list) != 0 {
				t.Fatalf("10 s after its mend: %+v", list)
			}
			time.Sleep(3 * time.Minute)
		}
	})
}
