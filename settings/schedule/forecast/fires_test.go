package forecast_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// set reads entries; module is left out.
func set(t testing.TB, text string) schedule.Set {
	t.Helper()
	n, err := strictyaml.Parse("test.yaml", []byte(strings.ReplaceAll(text, "{", "{module: test.ping, ")))
	if err != nil {
		t.Fatal(err)
	}
	s, err := schedule.ParseSet(n)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func entry(t testing.TB, fields string) schedule.Entry {
	t.Helper()
	return *set(t, "e: {"+fields+"}")["e"]
}

func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// list gives up to ten fires of an entry in UTC, without their year.
func list(t testing.TB, e schedule.Entry, from, until string) []string {
	t.Helper()
	start, end := instant(t, from), time.Time{}
	if until != "" {
		end = instant(t, until)
	}
	timing, err := e.Timing(time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	found := []string{}
	for at := range forecast.Fires(&e, timing.Seen(start), start, end) {
		found = append(found, at.UTC().Format("01-02 15:04:05"))
		if len(found) == 10 {
			break
		}
	}
	return found
}

func hours(t testing.TB, text string) window.Rules {
	t.Helper()
	h, err := window.ParseHours(text)
	if err != nil {
		t.Fatal(err)
	}
	return window.Rules{Hours: []window.Hours{h}}
}

func TestFires(t *testing.T) {
	const from = "2026-06-01T09:00:00Z" // a Monday
	at := func(text string) time.Time { return instant(t, text) }
	for _, c := range []struct {
		name, fields string
		change       func(*schedule.Entry)
		until        string
		want         []string
	}{
		{"after from, never at it, and at until", `cron: "0 * * * *"`, nil, "2026-06-01T11:00:00Z", []string{"06-01 10:00:00", "06-01 11:00:00"}},
		{"none", `cron: "0 * * * *"`, nil, "2026-06-01T09:59:59Z", []string{}},
		{"an interval counts from the start", `interval: 40m`, nil, "2026-06-01T10:30:00Z", []string{"06-01 09:40:00", "06-01 10:20:00"}},
		{"the life of an entry", `interval: 1h`, func(e *schedule.Entry) {
			e.Life.NotBefore, e.Life.Until = at("2026-06-01T10:30:00Z"), at("2026-06-01T13:00:00Z")
		}, "", []string{"06-01 10:30:00", "06-01 11:30:00", "06-01 12:30:00"}},
		{"and that of one on the wall clock", `cron: "0 * * * *"`, func(e *schedule.Entry) {
			e.Life.NotBefore, e.Life.Until = at("2026-06-01T11:00:00Z"), at("2026-06-01T13:00:00Z")
		}, "", []string{"06-01 11:00:00", "06-01 12:00:00"}},
		{"a begin that no duration reaches", `interval: 1h`, func(e *schedule.Entry) {
			e.Life.NotBefore = at("9999-01-01T00:00:00Z")
		}, "2026-06-02T00:00:00Z", []string{}},
		{"months over a closed window", `interval: monthly`, func(e *schedule.Entry) {
			e.Windows.Rules, e.Life.MaxRuns = window.Rules{}, 2
			if err := e.Windows.Rules.On.Add("wed"); err != nil {
				t.Fatal(err)
			}
		}, "", []string{"07-01 09:00:00", "09-01 09:00:00"}},
		{"a number of runs", `cron: "0 * * * *"`, func(e *schedule.Entry) { e.Life.MaxRuns = 2 }, "", []string{"06-01 10:00:00", "06-01 11:00:00"}},
		{"gone after a run", `cron: "0 * * * *"`, func(e *schedule.Entry) { e.Life.DeleteAfterRun = true }, "", []string{"06-01 10:00:00"}},
		{"outside the window they are skipped", `cron: "*/20 * * * *"`, func(e *schedule.Entry) {
			e.Windows.Rules = hours(t, "10:30-11:00")
		}, "2026-06-02T10:45:00Z", []string{"06-01 10:40:00", "06-02 10:40:00"}},
		{"or deferred, all to one", `cron: "*/20 * * * *"`, func(e *schedule.Entry) {
			e.Windows = schedule.Windows{Rules: hours(t, "10:30-11:00"), Outside: schedule.OutsideDefer}
		}, "2026-06-01T23:00:00Z", []string{"06-01 10:30:00", "06-01 10:40:00"}},
		{"an interval keeps its rhythm over a closed window", `interval: 25m`, func(e *schedule.Entry) {
			e.Windows.Rules = hours(t, "10:30-11:00")
		}, "2026-06-01T23:00:00Z", []string{"06-01 10:40:00"}},
		{"and begins a new one where it was deferred", `interval: 25m`, func(e *schedule.Entry) {
			e.Windows = schedule.Windows{Rules: hours(t, "10:30-11:00"), Outside: schedule.OutsideDefer}
		}, "2026-06-01T23:00:00Z", []string{"06-01 10:30:00", "06-01 10:55:00"}},
		{"a time that is never in its window", `cron: "0 3 * * *"`, func(e *schedule.Entry) { e.Windows.Rules = hours(t, "08:00-18:00") }, "", []string{}},
		{"a window that never opens", `cron: "* * * * *"`, func(e *schedule.Entry) {
			for _, day := range []string{"mon-fri", "sat", "sun"} {
				if err := e.Windows.Rules.NotOn.Add(day); err != nil {
					t.Fatal(err)
				}
			}
		}, "", []string{}},
		{"instants", `interval: 1h`, func(e *schedule.Entry) {
			e.Clock = schedule.Clock{At: []time.Time{at(from), at("2026-06-01T09:00:01Z")}}
		}, "", []string{"06-01 09:00:01"}},
		{"after it was first seen", `interval: 1h`, func(e *schedule.Entry) {
			e.Clock = schedule.Clock{After: 90 * time.Minute}
		}, "", []string{"06-01 10:30:00"}},
		{"an entry that is off", `interval: 1h, enabled: false`, nil, "", []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := entry(t, c.fields)
			if c.change != nil {
				c.change(&e)
			}
			if got := list(t, e, from, c.until); !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestFiresWithoutWindowsAreThoseOfTheTiming(t *testing.T) {
	from, until := instant(t, "2026-03-28T00:00:00Z"), instant(t, "2026-03-30T00:00:00Z")
	for _, fields := range []string{`cron: "*/7 * * * *"`, `cron: "30 1 * * *"`, `interval: 37m`, `when: every day at 1:30am`} {
		e := entry(t, fields+", timezone: Europe/London")
		timing, err := e.Timing(nil)
		if err != nil {
			t.Fatal(err)
		}
		want := slices.Collect(timing.Between(from, until))
		if got := slices.Collect(forecast.Fires(&e, timing, from, until)); len(want) == 0 || !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Errorf("%s: %v, want %v", fields, got, want)
		}
	}
}

func ExampleFires() {
	n, _ := strictyaml.Parse("", []byte(`{module: cmd.run, cron: "30 2 * * *", timezone: America/New_York}`))
	e, _ := schedule.ParseEntry("backup", n)
	timing, _ := e.Timing(nil)
	from := time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC)
	for at := range forecast.Fires(e, timing, from, from.AddDate(0, 0, 2)) {
		fmt.Println(at.Format(time.RFC3339))
	}
	// Output:
	// 2026-03-08T03:00:00-04:00
	// 2026-03-09T02:30:00-04:00
}

// Fires come after from, one after the other, up to until, and only where windows and life allow it.
func FuzzFires(f *testing.F) {
	for _, text := range []string{
		`{module: a.b, cron: "*/7 8-17 * * mon-fri", only_between: "09:00-12:30"}`,
		`{module: a.b, cron: "30 2 * * *", timezone: America/New_York, blackout: sat, outside: defer}`,
		`{module: a.b, interval: 25m, only_between: "22:00-06:00", not_on: [sun], max_runs: 7}`,
		`{module: a.b, interval: monthly, interval_from: epoch, until: "2030-01-01T00:00:00Z"}`,
		`{module: a.b, at: ["2026-06-01T09:00:00Z", "2027-06-01T09:00:00Z"], not_before: "2027-01-01T00:00:00Z"}`,
		`{module: a.b, cron: "0 3 * * *", only_between: "08:00-18:00"}`,
		`{module: a.b, after: 90m, delete_after_run: true}`,
	} {
		f.Add(text, int64(1_780_000_000), int64(40*24*60*60))
	}
	f.Fuzz(func(t *testing.T, text string, start, length int64) {
		n, err := strictyaml.Parse("", []byte(text))
		if err != nil {
			return
		}
		e, err := schedule.ParseEntry("e", n)
		if err != nil {
			return
		}
		timing, err := e.Timing(time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		const century = 100 * 365 * 24 * 60 * 60
		from := time.Unix(start%century, 0).UTC()
		until := from.Add(time.Duration(length%(century/20)) * time.Second)
		last, fires := from, 0
		for at := range forecast.Fires(e, timing.Seen(from), from, until) {
			life := e.Life
			switch {
			case !at.After(last), at.After(until):
				t.Fatalf("%s after %s, in (%s, %s]", at, last, from, until)
			case timing.Window(at) != window.Open:
				t.Fatalf("%s is outside the windows", at)
			case at.Before(life.NotBefore), !life.Until.IsZero() && !at.Before(life.Until), life.MaxRuns > 0 && fires >= life.MaxRuns:
				t.Fatalf("%s, fire %d, is not in the life of the entry", at, fires)
			}
			last = at
			if fires++; fires == 100 {
				break
			}
		}
	})
}
