package coverage_test

import (
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

func TestMain(m *testing.M) { natstest.InMemory(m) }

const five = 5 * time.Minute

func TestWhatAPeelCountsIsTheVerdict(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		h := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("*/5 * * * *")}))
		h.entry("backup")
		h.report(0)
		t.until("00:31", "web-1")
		h.ran("backup", "00:05", "00:25", five)
		h.count("backup", hhmm(t, "00:25"), wire.FireCounts{Ran: 1, Failed: 1, Late: 1})
		h.count("backup", hhmm(t, "00:30"), wire.FireCounts{Skipped: 1})
		h.report(0)
		t.want(table, "web-1", "backup", "expected 6, ran 5, failed 1, late 1, skipped 1")
		t.problems(table)
	})
}

// The peel lost a fire and does not know it.
func TestAFireThatThePeelDoesNotAccountForIsMissed(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		h := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("*/5 * * * *")}))
		h.entry("backup")
		h.report(0)
		t.until("00:10:50", "web-1")
		h.ran("backup", "00:05", "00:06", five)
		h.report(0) // the fire of 00:10 may still come
		t.want(table, "web-1", "backup", "expected 1, ran 1")
		t.until("00:11:30", "web-1")
		h.report(0)
		t.want(table, "web-1", "backup", "expected 2, ran 1, missed 1")
		t.problems(table, "missed backup web-1")
		h.ran("backup", "00:15", "00:16", five)
		t.until("00:16", "web-1")
		h.report(0)
		t.want(table, "web-1", "backup", "expected 3, ran 2, missed 1")
		t.problems(table)
	})
}

// A run in flight explains its own fire, and no other.
func TestAFireThatIsPendingIsNotMissed(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		h := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("*/5 * * * *")}))
		h.entry("backup")
		h.report(0)
		t.until("00:11:30", "web-1")
		h.ran("backup", "00:05", "00:06", five)
		e := h.entry("backup")
		e.Running, e.Hours[0].Pending = 1, 1
		h.report(0)
		t.want(table, "web-1", "backup", "expected 1, ran 1")
		t.problems(table)
		t.until("00:16:30", "web-1")
		h.report(0) // that of 00:10 is still in flight
		t.want(table, "web-1", "backup", "expected 2, ran 1, missed 1")
		t.problems(table, "missed backup web-1")
	})
}

func TestTheFiresOfAPeelThatIsAwayAreUnknownUntilItReports(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		h := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("*/5 * * * *")}))
		h.entry("backup")
		h.report(0)
		t.until("00:31", "web-1")
		h.ran("backup", "00:05", "00:31", five)
		h.report(0)
		t.want(table, "web-1", "backup", "expected 6, ran 6")
		t.until("02:01:30")
		t.problems(table, "not_reporting web-1")
		t.want(table, "web-1", "backup", "expected 24, ran 6, unknown 18")
		t.alive(0, "web-1")
		for at := hhmm(t, "00:35"); at.Before(hhmm(t, "02:01")); at = at.Add(five) {
			h.count("backup", at, wire.FireCounts{Missed: 1})
		}
		h.report(0)
		t.want(table, "web-1", "backup", "expected 24, ran 6, missed 18")
		t.problems(table)
	})
}
