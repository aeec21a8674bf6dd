package judge_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/judge"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule/entryyaml"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// noon is the first hour of the tests.
var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func plan(t testing.TB, fields map[string]any) *judge.Plan {
	t.Helper()
	fields["module"] = "test.ping"
	e, err := entryyaml.ParseEntry("entry", strictyaml.FromValue("test", fields))
	if err != nil {
		t.Fatal(err)
	}
	p, err := judge.NewPlan(e, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestVerdictsOfAnHour(t *testing.T) {
	five := map[string]any{"cron": "*/5 * * * *"}
	type counts = wire.FireCounts
	for _, c := range []struct {
		name   string
		fields map[string]any
		tally  counts // of the hour from 12:00 to 13:00
		change func(*judge.Facts)
		want   verdict.Counts
	}{
		{"all ran", five, counts{Ran: 12, Failed: 1, Late: 2}, nil, verdict.Counts{Expected: 12, Ran: 12, Failed: 1, Late: 2}},
		{"the peel says what it skipped and missed", five, counts{Ran: 9, Skipped: 2, Missed: 1}, nil, verdict.Counts{Expected: 12, Ran: 9, Skipped: 2, Missed: 1}},
		{"two are not accounted for", five, counts{Ran: 10}, nil, verdict.Counts{Expected: 12, Ran: 10, Missed: 2}},
		{"one runs, and one waits for its end", five, counts{Ran: 9}, func(f *judge.Facts) { f.Entry.Hours[0].Pending = 2 }, verdict.Counts{Expected: 10, Ran: 9, Missed: 1}},
		{"the peel has other settings", five, counts{Ran: 10}, func(f *judge.Facts) { f.Agrees = false }, verdict.Counts{Expected: 12, Ran: 10, Unknown: 2}},
		{"it did not report before", five, counts{Ran: 10}, func(f *judge.Facts) { f.Steady = f.Time }, verdict.Counts{Expected: 12, Ran: 10, Unknown: 2}},
		{"they were unknown before", five, counts{Ran: 10}, func(f *judge.Facts) {
			f.Before = []judge.Hour{{Hour: judge.HourOf(noon), Counts: verdict.Counts{Unknown: 2}}}
		}, verdict.Counts{Expected: 12, Ran: 10, Unknown: 2}},
		{"the entry is paused", five, counts{Ran: 3}, func(f *judge.Facts) { f.Entry.State = "paused_manual" }, verdict.Counts{Expected: 3, Ran: 3}},
		{"the entry is new", five, counts{Ran: 6}, func(f *judge.Facts) { f.Entry.Since = noon.Add(29 * time.Minute) }, verdict.Counts{Expected: 6, Ran: 6}},
		{"by hand", five, counts{Ran: 12, Manual: 2}, nil, verdict.Counts{Expected: 12, Ran: 12, Unexpected: 2}},
		{"more than there are", five, counts{Ran: 14}, nil, verdict.Counts{Expected: 12, Ran: 12, Unexpected: 2}},
		{"the document does not have the entry", five, counts{Ran: 2}, func(f *judge.Facts) { f.Plan = nil }, verdict.Counts{Unexpected: 2}},
		{"the zone of the host has no name", five, counts{Ran: 2, Missed: 1}, func(f *judge.Facts) { f.Plan, f.Uncomputed = nil, true }, verdict.Counts{Expected: 3, Ran: 2, Missed: 1}},
		{"an entry of peel.yaml", five, counts{Ran: 2}, func(f *judge.Facts) { f.Plan, f.Entry.Local = nil, true }, verdict.Counts{Expected: 2, Ran: 2}},
		{"the fires of an interval are those that the peel counts", map[string]any{"interval": "5m"}, counts{Ran: 7}, nil, verdict.Counts{Expected: 7, Ran: 7}},
		{"of an interval, only the fire that the peel announced is checked", map[string]any{"interval": "5m"}, counts{}, func(f *judge.Facts) {
			f.Announced = noon.Add(30 * time.Minute)
		}, verdict.Counts{Expected: 1, Missed: 1}},
		{"while a run is in flight, what was announced is open", map[string]any{"interval": "5m"}, counts{}, func(f *judge.Facts) {
			f.Announced, f.Entry.Running = noon.Add(30*time.Minute), 1
		}, verdict.Counts{}},
		{"what was announced before a pause is not expected", map[string]any{"interval": "5m"}, counts{}, func(f *judge.Facts) {
			f.Announced, f.Entry.Since = noon.Add(30*time.Minute), noon.Add(31*time.Minute)
		}, verdict.Counts{}},
		{"of another document, the peel does not say since when it fires", five, counts{Ran: 6}, func(f *judge.Facts) {
			f.Agrees, f.Entry.Since = false, noon.Add(29*time.Minute)
		}, verdict.Counts{Expected: 12, Ran: 6, Unknown: 6}},
		{"windows close, and the peel may skip", map[string]any{"cron": "*/5 * * * *", "only_between": "12:00-12:30"}, counts{Ran: 6}, nil, verdict.Counts{Expected: 6, Ran: 6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := judge.Facts{
				Entry:    &wire.EntryReport{Name: "entry", State: judge.Active, Since: noon.Add(-time.Hour)},
				Plan:     plan(t, c.fields),
				Time:     noon.Add(time.Hour + time.Minute), // of 13:00 nothing must be known yet
				Steady:   noon.Add(-time.Second),
				Document: noon.Add(-time.Hour), Agrees: true,
			}
			if c.tally != (counts{}) {
				f.Entry.Hours = []wire.ScheduleHour{{Hour: judge.HourOf(noon), FireCounts: c.tally}}
			}
			if c.change != nil {
				c.change(&f)
			}
			f.Time = f.Time.Add(-2 * time.Second)
			var got verdict.Counts
			for _, h := range judge.Judge(f) {
				if h.Hour == judge.HourOf(noon) {
					got = h.Counts
				}
			}
			if got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// The report is complete from 14:00 on. Of the hours until then it says nothing, and of that from 14:00 it has fewer fires than the peel
// has reported before, as its clock was set back over them.
func TestAReportThatSaysLessTakesNoVerdictBack(t *testing.T) {
	hour := judge.HourOf(noon)
	before := []judge.Hour{
		{Hour: hour - judge.MaxHours, Counts: verdict.Counts{Expected: 1, Ran: 1}}, // too old
		{Hour: hour, Counts: verdict.Counts{Expected: 12, Ran: 11, Skipped: 1}},
		{Hour: hour + 1, Counts: verdict.Counts{Expected: 12, Unknown: 12}},
		{Hour: hour + 2, Counts: verdict.Counts{Expected: 12, Ran: 12}},
		{Hour: hour + 3, Counts: verdict.Counts{Expected: 12, Ran: 4, Unknown: 8}},
	}
	got := judge.Judge(judge.Facts{
		Entry: &wire.EntryReport{
			Name: "entry", State: judge.Active, Since: noon.Add(-time.Hour),
			Hours: []wire.ScheduleHour{{Hour: hour + 2, FireCounts: wire.FireCounts{Ran: 3}}, {Hour: hour + 3, FireCounts: wire.FireCounts{Ran: 12}}},
		},
		Plan: plan(t, map[string]any{"cron": "*/5 * * * *"}), Time: noon.Add(4*time.Hour - time.Second), From: hour + 2,
		Steady: noon.Add(-time.Hour), Document: noon.Add(-time.Hour), Agrees: true, Before: before,
	})
	want := slices.Concat(before[1:4], []judge.Hour{{Hour: hour + 3, Counts: verdict.Counts{Expected: 12, Ran: 12}}})
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestWhatIsUnknownDoesNotDependOnHowOftenItIsJudged(t *testing.T) {
	for _, fields := range []map[string]any{{"cron": "*/7 * * * *"}, {"interval": "25m"}, {"interval": "90m"}} {
		p := plan(t, fields)
		a := judge.Absence{Since: noon.Add(-time.Hour), Reported: noon.Add(3 * time.Minute), Now: noon.Add(10 * time.Hour)}
		want := sum(judge.Away(p, nil, a))
		if want.Unknown == 0 || want.Expected != want.Unknown {
			t.Errorf("%v: %+v", fields, want)
		}
		var hours []judge.Hour
		for now := noon.Add(4 * time.Minute); !now.After(noon.Add(10 * time.Hour)); now = now.Add(30 * time.Second) {
			a.Now = now
			hours = judge.Away(p, hours, a)
			a.Judged = now
		}
		if got := sum(hours); got != want {
			t.Errorf("%v: judged often %+v, once %+v", fields, got, want)
		}
	}
}

func sum(hours []judge.Hour) (c verdict.Counts) {
	for _, h := range hours {
		c.Add(h.Counts)
	}
	return c
}

func TestProblemsLastUntilTheNextRun(t *testing.T) {
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	for _, c := range []struct {
		name  string
		entry func(*wire.EntryReport)
		kind  verdict.Kind
		since time.Time
	}{
		{"none", func(*wire.EntryReport) {}, "", time.Time{}},
		{"missed", func(e *wire.EntryReport) {
			e.Problems = []wire.FireReport{{Nominal: at(10), Result: "missed"}, {Nominal: at(15), Result: "missed"}}
		}, verdict.Missed, at(10)},
		{"a later run", func(e *wire.EntryReport) {
			e.Problems, e.Started = []wire.FireReport{{Nominal: at(10), Result: "missed"}}, at(15)
		}, "", time.Time{}},
		{"failed", func(e *wire.EntryReport) {
			e.Error, e.InRow, e.Succeeded = "exit 1", 2, at(5)
			e.Problems = []wire.FireReport{{Nominal: at(0), Result: "failed"}, {Nominal: at(10), Result: "failed"}, {Nominal: at(15), Result: "failed"}}
		}, verdict.Failed, at(10)},
		{"late", func(e *wire.EntryReport) {
			e.Started, e.Problems = at(12), []wire.FireReport{{Nominal: at(10), Started: at(12), Result: "late"}}
		}, verdict.Late, at(10)},
		{"paused", func(e *wire.EntryReport) { e.State, e.Since, e.Why = "paused_manual", at(3), "ada: new disk" }, verdict.Paused, at(3)},
		{"the breaker", func(e *wire.EntryReport) { e.Breaker, e.Since = "open", at(4) }, verdict.Paused, at(4)},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := wire.EntryReport{Name: "entry", State: judge.Active}
			c.entry(&e)
			list := judge.Problems(&e)
			if c.kind == "" {
				if len(list) > 0 {
					t.Errorf("%+v", list)
				}
				return
			}
			if len(list) != 1 || list[0].Kind != c.kind || !list[0].Since.Equal(c.since) || list[0].Text == "" {
				t.Errorf("%+v, want %s since %s", list, c.kind, c.since)
			}
		})
	}
}

// The fire of the settings is looked for in the next year only.
func TestThePeelAnnouncesAFireThatItsSettingsDoNotHave(t *testing.T) {
	for _, c := range []struct {
		cron string
		next time.Time
		want string
	}{
		{"0 13 * * *", noon.Add(time.Hour), ""},
		{"0 13 * * *", noon.Add(2 * time.Hour), "zone: the peel announces its next fire at 2026-06-01T14:00:00Z, by its settings it is at 2026-06-01T13:00:00Z"},
		{"0 0 29 2 *", noon.Add(time.Hour), "zone: the peel announces its next fire at 2026-06-01T13:00:00Z, by its settings there is none within a year"},
	} {
		f := judge.Facts{
			Entry: &wire.EntryReport{Name: "entry", State: judge.Active, Next: c.next}, Plan: plan(t, map[string]any{"cron": c.cron}), Time: noon, Agrees: true,
		}
		if got := f.Disagreement(); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.cron, got, c.want)
		}
	}
}
