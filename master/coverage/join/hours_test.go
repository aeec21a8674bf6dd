package join_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/ledger"
)

func hour(h int, c verdict.Counts, pending uint64) join.Hour {
	return join.Hour{Hour: day.Unix()/3600 + int64(h), Counts: c, Pending: pending}
}

// words gives the numbers of hours that are not zero.
func words(hours []join.Hour) string {
	var parts []string
	for _, h := range hours {
		text := []string{fmt.Sprintf("%d:", h.Hour-day.Unix()/3600)}
		names := []string{"expected", "ran", "failed", "late", "overran", "skipped", "missed", "unknown", "unexpected"}
		for i, n := range h.Numbers() {
			if *n > 0 {
				text = append(text, fmt.Sprint(names[i], " ", *n))
			}
		}
		if h.Pending > 0 {
			text = append(text, fmt.Sprint("pending ", h.Pending))
		}
		for _, r := range h.Reasons {
			text = append(text, fmt.Sprintf("(%s %s %d)", r.Verdict, r.Why, r.N))
		}
		parts = append(parts, strings.Join(text, " "))
	}
	return strings.Join(parts, ", ")
}

func TestHoursHaveCountsAndReasons(t *testing.T) {
	r := join.New(marks(t, "starts 00:00"), clock(t, "12:01"), clock(t, "12:01"), nil)
	e := join.Entry{
		Plan: plan(t, quarter), IsActive: true, From: day, Marks: []ledger.Mark{{Kind: ledger.Begins, Era: 1, At: clock(t, "10:14")}},
		Fires: fires(t, "10:15 ran, 10:30 failed late, 10:45 skipped already_running, 10:50 hand ran, 11:00 ran, 11:15 ran overran, 11:30 missed deadline_exceeded, 12:00 pending runs"),
	}
	const want = "10: expected 3 ran 2 failed 1 late 1 skipped 1 unexpected 1 (skipped already_running 1) (unexpected hand 1), " +
		"11: expected 4 ran 2 overran 1 missed 2 (missed deadline_exceeded 1) (missed unaccounted 1), 12: pending 1"
	if got := words(r.Hours(&e, nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A report has the fires of 48 hours: of the hour before, it has only a part.
func TestHoursBeginWithTheFirstThatAListHasAsAWhole(t *testing.T) {
	r := join.New(marks(t, "starts 00:00"), clock(t, "2+10:30"), clock(t, "2+10:30"), nil)
	e := join.Entry{Plan: plan(t, quarter), Fires: fires(t, "10:45 ran, 11:00 ran, 11:15 ran"), Marks: []ledger.Mark{{Kind: ledger.Begins, At: day}}}
	if got := words(r.Hours(&e, nil)); got != "11: expected 2 ran 2" {
		t.Error(got)
	}
	if want := day.Unix()/3600 + 11; r.Oldest() != want {
		t.Errorf("hour %d, want %d", r.Oldest(), want)
	}
}

func TestAReportThatAccountsForLessReplacesNothing(t *testing.T) {
	before := []join.Hour{
		hour(7, verdict.Counts{Expected: 1, Ran: 1}, 0),
		hour(8, verdict.Counts{Expected: 1, Unknown: 1}, 0), // the report has no fire then
		hour(9, verdict.Counts{Expected: 4, Ran: 4}, 0),
		hour(10, verdict.Counts{Expected: 4, Unknown: 4}, 0),
		hour(11, verdict.Counts{Expected: 4, Missed: 4}, 0),
		hour(13, verdict.Counts{Expected: 4, Ran: 4}, 0),
	}
	report := []join.Hour{
		hour(9, verdict.Counts{Expected: 4, Ran: 3, Unknown: 1}, 0),
		hour(10, verdict.Counts{Expected: 4, Ran: 1, Unknown: 3}, 0),
		hour(11, verdict.Counts{Expected: 4, Ran: 4}, 0),
		hour(12, verdict.Counts{Expected: 4, Ran: 4}, 0),
		hour(13, verdict.Counts{Expected: 3, Ran: 3}, 1),
	}
	const want = "9: expected 4 ran 4, 10: expected 4 ran 1 unknown 3, 11: expected 4 ran 4, 12: expected 4 ran 4, 13: expected 3 ran 3 pending 1"
	if got := words(join.Replace(before, report, join.Bounds{Oldest: day.Unix()/3600 + 8})); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// An entry has another timing since 10:20: what was said of nine o'clock was compared with the plan that it had then.
func TestVerdictsByTheFormerTimingStay(t *testing.T) {
	counts := verdict.Counts{Expected: 5, Ran: 1, Missed: 2, Unknown: 2}
	before := []join.Hour{hour(7, counts, 0), hour(8, counts, 1), hour(9, counts, 0), hour(10, counts, 0)}
	alone := verdict.Counts{Expected: 3, Ran: 3}
	report := []join.Hour{hour(7, verdict.Counts{Expected: 4, Ran: 4}, 0), hour(8, alone, 0), hour(9, alone, 0), hour(10, alone, 0)}
	r := join.New(marks(t, "starts 00:00"), clock(t, "11:01"), clock(t, "11:01"), nil)
	e := join.Entry{Marks: []ledger.Mark{{Kind: ledger.Begins, Era: 1, At: day}, {Kind: ledger.Begins, Era: 1, At: clock(t, "10:20")}}}
	of := join.Bounds{Oldest: day.Unix() / 3600, Marked: r.Marked(&e)}
	const want = "7: expected 4 ran 4, 8: expected 3 ran 3, 9: expected 5 ran 1 missed 2 unknown 2, 10: expected 3 ran 3"
	if got := words(join.Replace(before, report, of)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := r.Marked(&join.Entry{}); got != r.Oldest() {
		t.Errorf("of an entry without marks, %d", got)
	}
}

func TestFiresOfAPeelThatDoesNotReportAreUnknown(t *testing.T) {
	at := func(text string) int64 { return clock(t, text).Unix() }
	before := []join.Hour{hour(10, verdict.Counts{Expected: 2, Ran: 2}, 1)}
	for _, c := range []struct {
		name   string
		fields fields
		away   join.Absence
		want   string
	}{
		{
			"planned and pending", quarter,
			join.Absence{Judged: at("10:50"), Now: at("11:31")},
			"10: expected 3 ran 2 unknown 1 (unknown no_report 1), 11: expected 3 unknown 3 (unknown no_report 3)",
		},
		{
			"closed by the windows",
			fields{"cron": "*/15 * * * *", "only_between": "11:10-12:00"},
			join.Absence{Judged: at("10:50"), Now: at("11:31")},
			"10: expected 3 ran 2 unknown 1 (unknown no_report 1), 11: expected 3 skipped 1 unknown 2 (skipped outside_window 1) (unknown no_report 2)",
		},
		{
			"one each interval",
			fields{"interval": "20m"},
			join.Absence{Judged: at("10:50"), Now: at("11:31"), Next: at("10:55")},
			"10: expected 4 ran 2 unknown 2 (unknown no_report 2), 11: expected 1 unknown 1 (unknown no_report 1)",
		},
		{
			"no interval without a next fire",
			fields{"interval": "20m"},
			join.Absence{Judged: at("10:50"), Now: at("11:31")},
			"10: expected 3 ran 2 unknown 1 (unknown no_report 1)",
		},
		{
			"days later",
			fields{"cron": "0 12 * * *"},
			join.Absence{Judged: at("10:50"), Now: at("3+13:30")},
			"60: expected 1 unknown 1 (unknown no_report 1), 84: expected 1 unknown 1 (unknown no_report 1)",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := plan(t, c.fields)
			got := p.Away(before, c.away)
			if words(got) != c.want {
				t.Errorf("got  %s\nwant %s", words(got), c.want)
			}
			half := (c.away.Judged + c.away.Now) / 2
			first := p.Away(before, join.Absence{Judged: c.away.Judged, Now: half, Next: c.away.Next})
			was := words(first)
			second := p.Away(first, join.Absence{Judged: half - int64(join.Margin/time.Second), Now: c.away.Now, Next: c.away.Next})
			if words(second) != words(got) {
				t.Errorf("in two steps %s\nin one       %s", words(second), words(got))
			}
			if words(first) != was {
				t.Errorf("the hours of before were %s\nand are %s", was, words(first))
			}
		})
	}
}

// The host booted, so that the marks do not say what its clock was before. A report said it.
func TestWhatAReportHasShownOfAClockIsRemembered(t *testing.T) {
	booted := marks(t, "starts 00:00, boots 15:20 11:20")
	earlier := join.Measure(booted[:1], clock(t, "15:15"), clock(t, "10:15"))
	if earlier.Error != 5*3600 || !earlier.IsWrong() {
		t.Errorf("%+v", earlier)
	}
	e := join.Entry{
		Plan: plan(t, quarter), IsActive: true, From: day, Marks: []ledger.Mark{{Kind: ledger.Begins, Era: 1, At: clock(t, "15:00")}},
		Fires: fires(t, "15:15 ran, era 2, 11:30 ran, 11:45 ran, 12:00 ran"),
	}
	for _, c := range []struct {
		name     string
		measured []join.Measured
		want     string
	}{
		{"not known", nil, "11:15 unknown clock, 11:30 ran, 11:45 ran, 12:00 ran"}, // the clock was ahead by 4 hours at least
		{"known", []join.Measured{earlier}, "10:15 unknown clock, 10:30 missed down, 10:45 missed down, 11:00 missed down, 11:15 missed down, " +
			"11:30 ran, 11:45 ran, 12:00 ran"},
	} {
		r := join.New(booted, clock(t, "12:01"), clock(t, "12:01"), c.measured)
		if got := verdicts(r, &e); got != c.want {
			t.Errorf("%s: got  %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestAPlanHasItsTimes(t *testing.T) {
	p := plan(t, fields{"cron": "30 10 * * *", "until": "2026-06-03T00:00:00Z"})
	if !p.Has(clock(t, "10:30")) || p.Has(clock(t, "10:31")) || p.Has(clock(t, "1+10:30")) {
		t.Error("a time of the plan is not one, or another is")
	}
	if at, ok := p.Next(clock(t, "10:29")); !ok || !at.Equal(clock(t, "10:30")) {
		t.Errorf("%s, %t", at, ok)
	}
	if at, ok := p.Next(clock(t, "10:30")); ok {
		t.Errorf("%s after the end of the life", at)
	}
	if p := plan(t, fields{"interval": "8m"}); !p.Has(clock(t, "10:31")) {
		t.Error("a fire that follows runs has no time of its own")
	}
}

func TestAnEntryWithoutFiresTakesNoListOfAllHours(t *testing.T) {
	r := join.New(nil, day.Add(48*time.Hour), day.Add(48*time.Hour), nil)
	e := join.Entry{From: day}
	const entries, list = 100, 4 << 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range entries {
		r.Hours(&e, nil)
	}
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) / entries; took >= list {
		t.Errorf("an entry without fires takes %d bytes, a list of all hours more than %d", took, list)
	}
}
