package coverage_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const five = 5 * time.Minute

func TestTheVerdictsAreWhatThePeelCounts(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		h := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("*/5 * * * *")}))
		h.entry("backup")
		h.report(0)
		t.until("00:31", "web-1")
		h.ran("backup", "00:05", "00:25", five)
		h.fire("backup", hhmm(t, "00:25"), ledger.Fire{Outcome: ledger.Failed, Late: true})
		h.fire("backup", hhmm(t, "00:30"), ledger.Fire{Outcome: ledger.Skipped, Why: ledger.AlreadyRunning})
		h.report(0)
		t.want(table, "web-1", "backup", "expected 6, ran 5, failed 1, late 1, skipped 1")
		t.problems(table, "failed backup web-1", "late backup web-1")
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
		h.fire("backup", hhmm(t, "00:10"), ledger.Fire{Why: ledger.Runs})
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
			h.fire("backup", at, ledger.Fire{Outcome: ledger.Missed, Why: ledger.DeadlineExceeded})
		}
		h.report(0)
		t.want(table, "web-1", "backup", "expected 24, ran 6, missed 18")
		t.problems(table, "missed backup web-1")
	})
}

// A peel reports 30 s after a fire, which the list has, and then not for hours: the time counts once.
func TestAFireShortlyBeforeTheLastReportCountsOnce(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		byDay := cron("*/20 * * * *")
		byDay["only_between"] = "08:00-18:00"
		h := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("*/20 * * * *"), "day": byDay}))
		h.entry("backup")
		h.entry("day")
		h.report(0)
		t.until("00:20:30", "web-1")
		h.ran("backup", "00:20", "00:21", 20*time.Minute)
		h.fire("day", hhmm(t, "00:20"), ledger.Fire{Outcome: ledger.Skipped, Why: ledger.OutsideWindow})
		h.report(0)
		t.until("03:01:30")
		t.want(table, "web-1", "backup", "expected 9, ran 1, unknown 8")
		t.want(table, "web-1", "day", "expected 9, skipped 9")
	})
}

// Another master knows from the history what reports do not have any more.
func TestHoursThatReportsDoNotRepeatAreInTheHistory(t *testing.T) {
	if testing.Short() {
		t.Skip("18 hours of a bus in fake time")
	}
	bubble(t, func(t *rig) {
		table, stop := t.master()
		h := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("0 * * * *")}))
		h.entry("backup")
		h.report(0)
		for hour := 1; hour < 18; hour++ {
			t.until(fmt.Sprintf("%02d:01:30", hour), "web-1")
			h.fire("backup", hhmm(t, fmt.Sprintf("%02d:00", hour)), ledger.Fire{Outcome: ledger.Ran})
			h.report(0)
			t.alive(21*time.Minute, "web-1")
			h.report(0)
		}
		t.want(table, "web-1", "backup", "expected 17, ran 17")
		stop()
		table, _ = t.master()
		t.alive(0, "web-1")
		t.want(table, "web-1", "backup", "expected 17, ran 17")
		for _, q := range []coverage.Query{{}, {Peels: map[target.PeelID]bool{"web-1": true}}} {
			hours, _, err := table.Hours(t.Context(), q)
			n := len(hours)
			if err != nil || n < 18 || hours[n-1].Ran != 1 || hours[n-17].Ran != 1 || hours[n-18].Ran != 0 {
				t.Errorf("%+v, %v", hours[max(0, len(hours)-19):], err)
			}
		}
		if h := table.Health(); h.HistoryError != "" {
			t.Error(h.HistoryError)
		}
	})
}

// The history has why fires were missed and skipped, not their numbers alone.
func TestTheHistoryHasReasons(t *testing.T) {
	bubble(t, func(t *rig) {
		t.master()
		h := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("*/20 * * * *")}))
		h.entry("backup")
		h.report(0)
		t.until("01:01", "web-1")
		h.fire("backup", hhmm(t, "00:20"), ledger.Fire{Outcome: ledger.Skipped, Why: ledger.AlreadyRunning})
		h.fire("backup", hhmm(t, "00:40"), ledger.Fire{Outcome: ledger.Ran})
		h.fire("backup", hhmm(t, "01:00"), ledger.Fire{Outcome: ledger.Skipped, Why: ledger.CircuitOpen})
		h.report(0)
		t.until("01:10", "web-1")

		got := map[int64][]coverage.HistoryCell{}
		hours := []int64{join.HourOf(hhmm(t, "00:00")), join.HourOf(hhmm(t, "01:00"))}
		_, err := coverage.OpenHistory(t.js).Read(t.Context(), hours, func(hour int64, cells []coverage.HistoryCell) { got[hour] = cells })
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []ledger.Reason{ledger.AlreadyRunning, ledger.CircuitOpen} {
			cells := got[hours[i]]
			if len(cells) != 1 || !slices.Contains(cells[0].Reasons, join.Reason{Verdict: join.Skipped, Why: string(want), N: 1}) {
				t.Errorf("hour %d has %+v, want one skipped: %s", i, cells, want)
			}
		}
	})
}

// An hour that a newer version has stored stays as it is. The master says so once, and which counts are not complete.
func TestAnHourThatANewerVersionStoredIsLeftAlone(t *testing.T) {
	bubble(t, func(t *rig) {
		hour := hhmm(t, "00:00")
		subject, newer := fmt.Sprint(natsd.CoverageSubject, join.HourOf(hour)), []byte("\x03of a newer version")
		if _, err := t.js.Publish(t.Context(), subject, newer); err != nil {
			t.Fatal(err)
		}
		table, stop := t.master()
		h := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("*/5 * * * *")}))
		h.entry("backup")
		h.report(0)
		for _, until := range []string{"00:11", "00:22", "00:33"} {
			t.until(until, "web-1")
			h.ran("backup", "00:05", until, five)
			h.report(0)
		}
		t.until("00:41", "web-1")
		stream, err := t.js.Stream(t.Context(), wire.StreamCoverage)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := stream.GetLastMsgForSubject(t.Context(), subject); err != nil || !bytes.Equal(m.Data, newer) {
			t.Errorf("the hour is %q, %v", m.Data, err)
		}
		if h := table.Health(); h.HistoryUnread != 1 || h.HistoryError != "" {
			t.Errorf("%+v", h)
		}
		if n := strings.Count(t.logs.String(), "hours in the history of schedules are left as they are"); n != 1 {
			t.Errorf("logged %d times, want once:\n%s", n, t.logs)
		}
		stop()

		// Two days later another master, which does not have the hour from reports, says that it is not in the counts.
		time.Sleep(50 * time.Hour)
		h.begins("backup", time.Now())
		t.alive(26*time.Minute, "web-1")
		for at := time.Now().Truncate(five).Add(-4 * five); at.Before(time.Now()); at = at.Add(five) {
			h.fire("backup", at, ledger.Fire{Outcome: ledger.Ran})
		}
		h.report(0)
		table, _ = t.master()
		rows, unread, err := table.Rows(t.Context(), coverage.Query{})
		if err != nil || !slices.Equal(unread, []time.Time{hour}) || len(rows) != 1 || rows[0].Counts.Ran != 5 {
			t.Errorf("%+v, unread %v, %v", rows, unread, err)
		}
		for _, q := range []coverage.Query{{}, {Peels: map[target.PeelID]bool{"web-1": true}}} {
			hours, unread, err := table.Hours(t.Context(), q)
			isUnread := slices.Equal(unread, []time.Time{hour})
			if n := len(hours); err != nil || !isUnread || n != 35*24+1 || hours[n-1].Ran+hours[n-2].Ran != 5 {
				t.Errorf("%d hours, unread %v, %v", len(hours), unread, err)
			}
		}
	})
}

// A master tells from a report alone that the clock of a peel is a year off: that is one problem, and no fire is missed.
func TestAClockThatIsWrongMakesNothingMissed(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		h := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("*/5 * * * *")}))
		h.entry("backup")
		h.report(0)
		t.until("00:12", "web-1")
		h.ran("backup", "00:05", "00:11", five)
		h.report(0)
		const year = 365 * 24 * time.Hour
		for _, skew := range []time.Duration{year, -year} {
			h.report(skew)
			t.problems(table, "disagrees web-1")
			t.alive(10*time.Minute, "web-1")
		}
		h.report(0) // the clock is right again; what the peel did meanwhile it counted in hours of the wrong year
		t.want(table, "web-1", "backup", "expected 6, ran 2, unknown 4")
		t.problems(table)
		t.until("00:36:30", "web-1")
		h.ran("backup", "00:35", "00:36", five)
		h.report(0)
		t.want(table, "web-1", "backup", "expected 7, ran 3, unknown 4")
	})
}

// Masters are away for an hour. Peels go on, and report when they are back.
func TestAnOutageOfAnHourMakesNothingMissed(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		h := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("*/5 * * * *")}))
		h.entry("backup")
		h.report(0)
		t.until("00:31", "web-1")
		h.ran("backup", "00:05", "00:31", five)
		h.report(0)
		unknown := table.Summaries()[0].Counts.Unknown
		t.bus.Stop(t)
		time.Sleep(time.Hour)
		t.problems(table) // as before: a table that is behind finds nothing new
		if _, _, err := table.Rows(t.Context(), coverage.Query{}); !errors.Is(err, coverage.ErrBehind) {
			t.Errorf("verdicts are given while the bus is away: %v", err)
		}
		t.bus.Start(t)
		t.alive(45*time.Second, "web-1")
		for at := hhmm(t, "00:35"); at.Before(hhmm(t, "01:31")); at = at.Add(five) {
			h.fire("backup", at, ledger.Fire{Outcome: ledger.Ran})
		}
		h.report(0)
		t.alive(15*time.Second, "web-1")
		t.want(table, "web-1", "backup", "expected 18, ran 18")
		t.problems(table)
		if n := table.Summaries()[0].Counts.Unknown; n != unknown {
			t.Errorf("%d fires that nobody can know of are counted, %d before the outage", n, unknown)
		}
	})
}

// A peel sends the report of another peel, more entries than a schedule may have, and bytes that are no report. Each is refused, and
// changes nothing.
func TestReportsThatAreNotValidAreRefused(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		doc := t.document("web.1", map[string]map[string]any{"backup": cron("*/5 * * * *")})
		good := t.host("web.1", doc)
		good.entry("backup")
		good.report(0)
		before, _, _ := table.Rows(t.Context(), coverage.Query{By: coverage.ByPeelAndEntry})
		twin := t.host("web_1", doc) // of the same name on the bus
		twin.entry("stolen")
		twin.report(0)
		many := t.host("web.1", doc)
		for i := range ledger.MaxEntries + 1 {
			many.state.Entries = append(many.state.Entries, ledger.EntryReport{Name: fmt.Sprintf("e%05d", i)})
		}
		many.send()
		for range 50 {
			t.say("web.1", &nats.Msg{Subject: wire.ScheduleStateOf("web_1"), Data: []byte("no report")})
		}
		after, _, err := table.Rows(t.Context(), coverage.Query{By: coverage.ByPeelAndEntry})
		if err != nil || !reflect.DeepEqual(before, after) || len(after) != 1 {
			t.Errorf("%+v, %v; want %+v", after, err, before)
		}
		if h := table.Health(); h.Refused != 52 || h.Entries != 1 {
			t.Errorf("%+v", h)
		}
		if n := strings.Count(t.logs.String(), "report on a schedule refused"); n != 1 {
			t.Errorf("logged %d times in a minute, want once", n)
		}
	})
}

// A person removes the report of a peel from the stream. The peel has its settings and no report, and what is asked of it is answered.
func TestAReportThatLeavesTheStreamIsForgotten(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		t.until("00:02", "web-1", "web-2")
		h := t.host("web-1", t.commit("web-1", "a", "a", "a"))
		h.runs("00:00", "00:01", false)
		other := t.host("web-2", nil) // without settings
		other.fire("backup", hhmm(t, "00:00"), ledger.Fire{Outcome: ledger.Ran})
		other.report(0)
		t.want(table, "web-2", "backup", "expected 1, ran 1")
		stream, err := t.js.Stream(t.Context(), wire.StreamScheduleState)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"web-1", "web-2"} {
			if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject(wire.ScheduleStateOf(id))); err != nil {
				t.Fatal(err)
			}
		}
		t.alive(time.Minute, "web-1", "web-2")
		t.want(table, "web-1", "backup", "")
		t.want(table, "web-2", "backup", "no such entry")
		t.problems(table)
		t.wantCause(table.Cause(verdict.Failed, "backup"), cause.None, "there is no problem")
		if s := table.Summaries(); len(s) != 2 || len(s[0].States) != 0 {
			t.Errorf("%+v", s)
		}
		t.alive(25*time.Minute, "web-1")
		t.problems(table, "not_reporting web-1")
		t.wantCause(table.Cause(verdict.NotReporting, ""), cause.Possible, "possibly commit aaaaaaaa: it reached 1 of 1 peel at most 2h before")

		h.runs("00:05", "00:28", false) // it reports again
		t.problems(table, "failed backup web-1")
		t.wantCause(table.Cause(verdict.Failed, "backup"), cause.None, "it has failed since it began: no run has succeeded")
	})
}

// The peel does not have the settings that were published: it disagrees about the document, and what it lists counts alone.
func TestFiresOfSettingsThatThePeelDoesNotHaveAreNotExpected(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		h := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("0 * * * *")}))
		h.entry("backup")
		h.report(0)
		t.document("web-1", map[string]map[string]any{"backup": cron("*/5 * * * *")})
		h.report(0)
		t.problems(table) // the peel may take two minutes for new settings
		t.until("00:12", "web-1")
		h.report(0)
		t.problems(table, "disagrees web-1")
		t.want(table, "web-1", "backup", "")
	})
}

// The clock of a peel is five minutes ahead when the master starts. What it listed by a right clock is known.
func TestAWrongClockDoesNotMakeAMasterForget(t *testing.T) {
	bubble(t, func(t *rig) {
		table, stop := t.master()
		h := t.host("web-1", t.document("web-1", map[string]map[string]any{"backup": cron("*/5 * * * *")}))
		h.entry("backup")
		h.report(0)
		for hour := 1; hour < 4; hour++ {
			t.until(fmt.Sprintf("%02d:01:30", hour), "web-1")
			h.ran("backup", fmt.Sprintf("%02d:05", hour-1), fmt.Sprintf("%02d:01", hour), five)
			h.report(0)
		}
		t.want(table, "web-1", "backup", "expected 36, ran 36")
		t.alive(6*time.Minute, "web-1")
		h.fire("backup", hhmm(t, "03:05"), ledger.Fire{Outcome: ledger.Ran})
		h.report(five)
		stop()
		table, _ = t.master()
		t.alive(0, "web-1")
		t.want(table, "web-1", "backup", "expected 37, ran 37")
		t.problems(table, "disagrees web-1")
	})
}
