package coverage_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/ledger"
)

// A person runs an entry, and the run fails. The entry is well, and its newest run is that of its timing.
func TestAFailedRunByHandIsNoProblem(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		h := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("*/30 * * * *")}))
		h.entry("backup")
		t.until("00:41", "web-1")
		h.fire("backup", hhmm(t, "00:30"), ledger.Fire{Outcome: ledger.Ran})
		h.fire("backup", hhmm(t, "00:40"), ledger.Fire{Class: ledger.Hand, Outcome: ledger.Failed})
		h.report(0)
		t.problems(table)
		t.want(table, "web-1", "backup", "expected 1, ran 1, unexpected 1")

		t.until("01:11", "web-1")
		h.fire("backup", hhmm(t, "01:00"), ledger.Fire{Outcome: ledger.Failed})
		h.fire("backup", hhmm(t, "01:10"), ledger.Fire{Class: ledger.Hand, Outcome: ledger.Ran})
		h.report(0)
		t.problems(table, "failed backup web-1")
	})
}

// An entry fails more often than the report has notes, and its commit changed meanwhile. The first failure had another commit.
func TestTheCommitOfALaterFailureIsNotNamed(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		h := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("*/10 * * * *")}))
		e := h.entry("backup")
		note := func(clock, commit string) {
			at := hhmm(t, clock)
			e.Notes = append(e.Notes, ledger.Note{Era: 1, Nominal: at, Outcome: ledger.Failed, Started: at, Took: time.Second, Commit: commit})
		}
		for _, clock := range []string{"00:10", "00:20", "00:30"} {
			t.until(clock, "web-1")
			h.fire("backup", hhmm(t, clock), ledger.Fire{Outcome: ledger.Failed})
		}
		t.until("00:31", "web-1")
		note("00:20", "bbbb")
		note("00:30", "bbbb")
		h.report(0)
		synctest.Wait()
		if p := table.Problems(); len(p) != 1 || p[0].Commit != "" || p[0].Explained || !p[0].Since.Equal(hhmm(t, "00:10")) {
			t.Errorf("%+v", p)
		}
		note("00:10", "aaaa")
		h.report(0)
		synctest.Wait()
		if p := table.Problems(); len(p) != 1 || p[0].Commit != "aaaa" {
			t.Errorf("%+v", p)
		}
	})
}

// The disk of a peel refuses its lists.
func TestAPeelWhoseDiskRefusesItsListsDisagrees(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		h := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("*/10 * * * *")}))
		h.entry("backup")
		t.until("00:01", "web-1")
		h.state.Memory = hhmm(t, "00:00")
		h.report(0)
		t.problems(table, "disagrees web-1")
		for _, by := range []coverage.By{coverage.ByPeel, coverage.ByPeelAndEntry} {
			rows, _, err := table.Rows(t.Context(), coverage.Query{By: by})
			if err != nil || len(rows) != 1 || !strings.HasPrefix(rows[0].Disagrees, "disk: it has refused the lists of fires since 20") {
				t.Errorf("%+v %v", rows, err)
			}
		}
		h.state.Memory = time.Time{}
		h.report(0)
		t.problems(table)
	})
}

// The newest report names entries by their places in the document that the peel had before.
func TestPlacesAreThoseOfTheDocumentThatThePeelHas(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		entries := map[string]map[string]any{"backup": cron("*/30 * * * *"), "clean": cron("*/20 * * * *")}
		h := t.host("web-1", t.document("web-1", entries))
		h.entry("backup")
		h.entry("clean")
		h.report(0)
		entries["archive"] = cron("*/10 * * * *")
		next := t.document("web-1", entries)
		t.until("00:31", "web-1")
		h.ran("backup", "00:30", "00:31", five)
		h.ran("clean", "00:20", "00:21", five)
		h.report(0)
		t.want(table, "web-1", "backup", "expected 1, ran 1")
		t.want(table, "web-1", "clean", "expected 1, ran 1")
		t.want(table, "web-1", "archive", "expected 3, unknown 3") // the peel should have it since 00:02
		t.problems(table, "disagrees web-1")

		h.applies(next)
		h.entry("archive")
		h.report(0)
		t.until("00:41", "web-1")
		h.ran("archive", "00:40", "00:41", five)
		h.ran("clean", "00:40", "00:41", five)
		h.report(0)
		t.want(table, "web-1", "archive", "expected 1, ran 1") // it began at 00:31
		t.want(table, "web-1", "clean", "expected 2, ran 2")
		t.problems(table)
	})
}

// A clock that was a day ahead lists fires of tomorrow. They are no fires of today, nor of tomorrow if they run again.
func TestFiresOfAWrongDayDoNotCount(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		h := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("*/10 * * * *")}))
		h.entry("backup")
		t.until("00:21", "web-1")
		h.ran("backup", "00:10", "00:21", 2*five)
		h.report(0)
		h.report(24 * time.Hour)
		t.until("00:41", "web-1")
		for _, clock := range []string{"00:30", "00:40"} {
			h.fire("backup", hhmm(t, clock).Add(24*time.Hour), ledger.Fire{Outcome: ledger.Ran})
		}
		h.report(24 * time.Hour)
		t.problems(table, "disagrees web-1")
		t.want(table, "web-1", "backup", "expected 4, ran 2, unknown 2")
		h.report(0)
		t.until("00:51", "web-1")
		h.ran("backup", "00:50", "00:51", five)
		h.report(0)
		t.problems(table)
		t.want(table, "web-1", "backup", "expected 5, ran 3, unknown 2")
	})
}

// The figures of the fleet are what peels count of their runs, and why they skipped fires.
func TestDurationsAndReasonsAreThoseThatPeelsCount(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		h := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("*/10 * * * *")}))
		h.entry("backup").Took.Add(time.Hour) // before this master knew the peel
		h.report(0)
		t.until("00:41", "web-1")
		h.fire("backup", hhmm(t, "00:10"), ledger.Fire{Outcome: ledger.Ran})
		h.fire("backup", hhmm(t, "00:20"), ledger.Fire{Outcome: ledger.Skipped, Why: ledger.AlreadyRunning})
		h.fire("backup", hhmm(t, "00:30"), ledger.Fire{Outcome: ledger.Failed})
		h.fire("backup", hhmm(t, "00:40"), ledger.Fire{Outcome: ledger.Skipped, Why: ledger.SkippedOnce})
		h.report(0)
		h.report(0)
		s := table.Summaries()[0]
		if s.Runs != 2 || s.Sum != 2*time.Second || !slices.Equal(s.Durations, []uint64{0, 2, 2, 2, 2, 2, 2, 2, 2}) {
			t.Errorf("%+v", s)
		}
		if len(s.Skips) != 2 || s.Skips["already_running"] != 1 || s.Skips["skipped_once"] != 1 {
			t.Errorf("%+v", s.Skips)
		}
		if s.Problems[verdict.Failed] != 1 {
			t.Errorf("%+v", s.Problems)
		}
	})
}

// A master starts with a clock that is a day ahead, while a peel is down. By the clock of the bus, the fires of today are not due yet.
func TestAMasterWhoseClockIsAheadJudgesNoFireBeforeItsTime(t *testing.T) {
	bubble(t, func(t *rig) {
		entry := cron("*/10 * * * *")
		entry["only_between"] = "12:00-13:00"
		h := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": entry}))
		h.entry("backup")
		h.report(0)
		t.until("00:30:30")
		t.clock = func() time.Time { return time.Now().Add(24 * time.Hour) }
		table, _ := t.master()
		t.until("01:02")
		t.want(table, "web-1", "backup", "expected 6, skipped 6")
	})
}

// The clock is set back by an hour, and the host boots with the right time before it reports again. A report has shown that the clock
// was right before that.
func TestAReportShowsThatAClockWasRight(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		h := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("*/10 * * * *")}))
		h.entry("backup")
		t.until("00:31", "web-1")
		h.ran("backup", "00:10", "00:31", 2*five)
		h.fire("backup", hhmm(t, "00:20"), ledger.Fire{Outcome: ledger.Skipped, Why: ledger.AlreadyRunning})
		h.report(0)
		t.until("00:36", "web-1")
		set, by := time.Now(), -time.Hour
		h.state.Marks = h.state.Marks.Add(ledger.Mark{Kind: ledger.Clock, Old: set, At: set.Add(by), Step: by})
		t.until("00:41", "web-1")
		h.state.Marks = h.state.Marks.Add(ledger.Mark{Kind: ledger.Starts, Old: time.Now().Add(by), At: time.Now()})
		t.until("00:51", "web-1")
		h.ran("backup", "00:50", "00:51", five)
		h.report(0)
		t.want(table, "web-1", "backup", "expected 5, ran 3, skipped 1, unknown 1")
	})
}

// The last success of an entry is the one that is longest ago, and there is none while a peel has had none.
func TestTheLastSuccessIsOfThePeelThatWaitsLongest(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		a := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("*/10 * * * *")}))
		b := t.host("web-2", t.document("web-2", map[string]map[string]any{"backup": cron("*/10 * * * *")}))
		t.until("00:31", "web-1", "web-2")
		want := func(at time.Time) {
			t.Helper()
			if s := table.Summaries(); len(s) != 1 || !s[0].LastSuccess.Equal(at) {
				t.Errorf("%+v, want %s", s, at)
			}
		}
		a.entry("backup").Succeeded = hhmm(t, "00:20")
		b.entry("backup")
		a.report(0)
		b.report(0)
		want(time.Time{})
		b.entry("backup").Succeeded = hhmm(t, "00:10")
		b.report(0)
		want(hhmm(t, "00:10"))
		b.entry("backup").Succeeded = hhmm(t, "00:30")
		b.report(0)
		want(hhmm(t, "00:20"))
	})
}

// The error of a clock is remembered as long as reports have hours of its era, of at most 64 eras.
func TestHowLongTheErrorOfAClockIsRemembered(t *testing.T) {
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		eras   int
		length time.Duration // of each
		want   int
	}{
		{"each a minute", 30, time.Minute, 30},
		{"too many", 100, time.Minute, 64},
		{"each ten hours: one lasted until 49 hours ago", 100, 10 * time.Hour, 6},
		{"each four days", 3, 96 * time.Hour, 2},
	} {
		const ahead = 24 * 3600
		var all []join.Measured
		var arrived []time.Time
		for i := range c.eras {
			began := noon.Add(time.Duration(i) * c.length)
			m := join.Measured{Era: uint32(i), Began: began.Unix() + ahead, Error: ahead}
			all = append(all, join.Measured{Era: m.Era, Began: m.Began}, m)
			arrived = append(arrived, began, began)
		}
		got := coverage.Measured(all, arrived)
		if len(got) != c.want || got[len(got)-1] != all[len(all)-1] {
			t.Errorf("%s: it remembers %d, want %d: %v", c.name, len(got), c.want, got)
		}
	}
}
