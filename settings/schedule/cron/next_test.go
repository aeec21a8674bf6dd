package cron

import (
	"slices"
	"strings"
	"testing"
	"time"

	robfig "github.com/robfig/cron/v3"

	"github.com/seed-c01c3da5/zester/settings/schedule/zoneinfo"
)

// firesIn gives the fires in (from, until] as local wall times with their offset.
func firesIn(t *testing.T, text, zone, from, until string) []string {
	t.Helper()
	tm, ok := in(t, text, zone)
	if !ok {
		t.Fatalf("%q never fires", text)
	}
	var out []string
	for _, at := range fires(tm, instant(t, from), instant(t, until)) {
		out = append(out, at.Format("01-02T15:04-0700"))
	}
	return out
}

func TestClockChanges(t *testing.T) {
	const (
		newYork = "America/New_York"
		london  = "Europe/London"
	)
	for _, c := range []struct {
		name, text, zone, from, until string
		want                          []string
	}{
		{"a skipped time runs at the first minute after the jump", "30 2 * * *", newYork, "2026-03-08T00:00:00-05:00", "2026-03-09T00:00:00-04:00", []string{"03-08T03:00-0400"}},
		{"skipped 02:00", "0 2 * * *", newYork, "2026-03-08T00:00:00-05:00", "2026-03-09T00:00:00-04:00", []string{"03-08T03:00-0400"}},
		{"two skipped times run once", "15,45 2 * * *", newYork, "2026-03-08T00:00:00-05:00", "2026-03-09T00:00:00-04:00", []string{"03-08T03:00-0400"}},
		{"a skipped time and the minute after the jump run once", "0 2,3 * * *", newYork, "2026-03-08T00:00:00-05:00", "2026-03-09T00:00:00-04:00", []string{"03-08T03:00-0400"}},
		{"from just before the jump", "30 2 * * *", newYork, "2026-03-08T01:59:59.999999999-05:00", "2026-03-09T00:00:00-04:00", []string{"03-08T03:00-0400"}},
		{"from the jump itself nothing is made up", "30 2 * * *", newYork, "2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00", []string{"03-09T02:30-0400"}},
		{"a repeated time runs the first time", "30 1 * * *", newYork, "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00", []string{"11-01T01:30-0400"}},
		{"from within the repeated hour it does not run again", "30 1 * * *", newYork, "2026-11-01T01:30:00-04:00", "2026-11-02T00:00:00-05:00", nil},
		{"wildcard minutes run in both hours", "*/15 1 * * *", newYork, "2026-11-01T00:59:00-04:00", "2026-11-01T03:00:00-05:00", []string{
			"11-01T01:00-0400", "11-01T01:15-0400", "11-01T01:30-0400", "11-01T01:45-0400", "11-01T01:00-0500", "11-01T01:15-0500", "11-01T01:30-0500", "11-01T01:45-0500",
		}},
		{"a wildcard hour is not made up", "0 */2 * * *", newYork, "2026-03-08T00:00:00-05:00", "2026-03-08T05:00:00-04:00", []string{"03-08T04:00-0400"}},
		{"Lord Howe moves by half an hour, forward", "15 2 * * *", "Australia/Lord_Howe", "2026-10-04T00:00:00+10:30", "2026-10-05T00:00:00+11:00", []string{"10-04T02:30+1100"}},
		{"Lord Howe back", "45 1 * * *", "Australia/Lord_Howe", "2026-04-05T00:00:00+11:00", "2026-04-06T00:00:00+10:30", []string{"04-05T01:45+1100"}},
		{"Havana has no midnight", "0 0 * * *", "America/Havana", "2026-03-07T12:00:00-05:00", "2026-03-08T12:00:00-04:00", []string{"03-08T01:00-0400"}},
		{"Havana has two midnights", "0 0 * * *", "America/Havana", "2026-10-31T12:00:00-04:00", "2026-11-01T12:00:00-05:00", []string{"11-01T00:00-0400"}},
		{"Troll jumps two hours", "30 1,2 * * *", "Antarctica/Troll", "2026-03-29T00:00:00Z", "2026-03-30T00:00:00+02:00", []string{"03-29T03:00+0200"}},
		{"Troll falls back two hours", "30 1,2 * * *", "Antarctica/Troll", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00Z", []string{"10-25T01:30+0200", "10-25T02:30+0200"}},
		{"Casablanca goes back for Ramadan", "30 2 * * *", "Africa/Casablanca", "2026-02-15T00:00:00+01:00", "2026-02-16T00:00:00Z", []string{"02-15T02:30+0100"}},
		{"Casablanca after Ramadan", "30 2 * * *", "Africa/Casablanca", "2026-03-22T00:00:00Z", "2026-03-23T00:00:00+01:00", []string{"03-22T03:00+0100"}},
		{"Dublin, whose winter is the daylight time, forward", "30 1 * * *", "Europe/Dublin", "2026-03-29T00:00:00Z", "2026-03-30T00:00:00+01:00", []string{"03-29T02:00+0100"}},
		{"Dublin back", "30 1 * * *", "Europe/Dublin", "2026-10-25T00:00:00+01:00", "2026-10-26T00:00:00Z", []string{"10-25T01:30+0100"}},
		{"London forward", "30 1 * * *", london, "2026-03-29T00:00:00Z", "2026-03-30T00:00:00+01:00", []string{"03-29T02:00+0100"}},
		{"Apia skips a whole day, which is not made up", "0 12 * * *", "Pacific/Apia", "2011-12-29T11:00:00-10:00", "2012-01-01T00:00:00+14:00", []string{"12-29T12:00-1000", "12-31T12:00+1400"}},
		{"Casey jumps three hours, which is not made up", "30 1 * * *", "Antarctica/Casey", "2022-10-01T12:00:00+08:00", "2022-10-03T12:00:00+11:00", []string{"10-03T01:30+1100"}},
		{"the 29th of February", "0 0 29 2 *", "UTC", "2024-02-29T00:00:00Z", "2032-03-01T00:00:00Z", []string{"02-29T00:00+0000", "02-29T00:00+0000"}},
		{"2100 is no leap year", "0 0 29 2 *", "UTC", "2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z", []string{"02-29T00:00+0000"}},
		{"the last minute of the year", "59 23 31 12 *", "UTC", "2026-12-31T23:58:00Z", "2027-12-31T23:59:00Z", []string{"12-31T23:59+0000", "12-31T23:59+0000"}},
		{"a leap second is none", "59 23 31 12 *", "UTC", "2016-12-31T23:58:00Z", "2017-01-01T00:00:01Z", []string{"12-31T23:59+0000"}},
		{"beyond the zone's table, on the last day of a leap year", "0 12 31 12 *", newYork, "2040-12-31T00:00:00-05:00", "2041-01-02T00:00:00-05:00", []string{"12-31T12:00-0500"}},
		{"the last hours of that day", "0 * * * *", newYork, "2040-12-31T17:30:00-05:00", "2040-12-31T21:00:00-05:00", []string{"12-31T18:00-0500", "12-31T19:00-0500", "12-31T20:00-0500", "12-31T21:00-0500"}},
		{"clock changes go on beyond the zone's table", "30 2 * * *", newYork, "2050-03-12T12:00:00-04:00", "2050-03-13T12:00:00-04:00", []string{"03-13T03:00-0400"}},
		{"offsets with seconds", "0 12 * * *", "Africa/Monrovia", "1971-12-31T12:44:29Z", "1972-01-02T00:00:00Z", []string{"12-31T12:00-0044", "01-01T12:00-0044"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := firesIn(t, c.text, c.zone, c.from, c.until); !slices.Equal(got, c.want) {
				t.Errorf("%q in %s: got %v, want %v", c.text, c.zone, got, c.want)
			}
		})
	}
}

func TestHourlyRunsTwentyFiveTimesOnTheLongDay(t *testing.T) {
	if got := firesIn(t, "0 * * * *", "America/New_York", "2026-10-31T23:59:00-04:00", "2026-11-01T23:59:00-05:00"); len(got) != 25 {
		t.Errorf("%d fires: %v", len(got), got)
	}
	if got := firesIn(t, "*/15 * * * *", "America/New_York", "2026-11-01T00:59:00-04:00", "2026-11-01T01:59:00-05:00"); len(got) != 8 {
		t.Errorf("%d fires in the two hours", len(got))
	}
}

func TestLeapDayAfter2096ComesIn2104(t *testing.T) {
	tm, _ := in(t, "0 0 29 2 *", "UTC")
	got, ok := tm.next(instant(t, "2096-02-29T00:00:00Z"))
	if want := instant(t, "2104-02-29T00:00:00Z"); !ok || !got.Equal(want) {
		t.Errorf("got %v %v", got, ok)
	}
	// Field * with a step counts as unrestricted, so both day fields must match: a Sunday every 28 years,
	// every 40 over 2100.
	tm, _ = in(t, "0 0 29 2 */7", "America/New_York")
	got, ok = tm.next(instant(t, "2088-03-01T00:00:00Z"))
	if !ok || got.Year() != 2128 || got.Weekday() != time.Sunday {
		t.Errorf("got %v %v", got, ok)
	}
}

func TestCronAcceptsCommonSpellings(t *testing.T) {
	for text, same := range map[string]string{
		"0 0 * * 7": "0 0 * * 0", "0 0 * * 5-7": "0 0 * * 0,5,6", "0 0 * * SUN": "0 0 * * 0", "0 0 * * sun-mon": "0 0 * * 0,1",
		"0 0 * * sat-mon": "0 0 * * 0,1,6", "0 0 * * fri-tue/2": "0 0 * * 0,2,5", "0 0 * * Mon-Fri": "0 0 * * 1-5", "0 0 * * 0-7": "0 0 * * 0-6",
		"0 0 1 JAN,Feb *": "0 0 1 1,2 *", "5/20 * * * *": "5,25,45 * * * *", "00 004 * * *": "0 4 * * *", " 0\t4  * * * ": "0 4 * * *",
		"0 0 ? * MON": "0 0 * * MON", "0 0 1 * ?": "0 0 1 * *", "@daily": "0 0 * * *", "@HOURLY": "0 * * * *", " @weekly ": "0 0 * * 0",
		"0 0 * * sun/2": "0 0 * * 0,2,4,6", "0 0 * * mon/2": "0 0 * * 1,3,5", "0 0 1-10/3 * *": "0 0 1,4,7,10 * *", "CRON_TZ=Asia/Tokyo 0 4 * * *": "TZ=Asia/Tokyo 0 4 * * *",
	} {
		a, zoneA, errA := Parse(text)
		b, zoneB, errB := Parse(same)
		if errA != nil || errB != nil {
			t.Errorf("%q: %v, %v", text, errA, errB)
			continue
		}
		if zoneA != zoneB && zoneB != "" {
			t.Errorf("%q: zones %s and %s", text, zoneA, zoneB)
		}
		if a.spec != b.spec {
			t.Errorf("%q is %+v, %q is %+v", text, a.spec, same, b.spec)
		}
	}
}

func TestChangesOfTheClockAsAsked(t *testing.T) {
	const forward, forwardEnd = "2026-03-08T00:00:00-05:00", "2026-03-09T00:00:00-04:00"
	const back, backEnd = "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"
	for _, c := range []struct {
		text        string
		changes     Changes
		from, until string
		want        []string
	}{
		{"30 2 * * *", Changes{Gap: GapRun}, forward, forwardEnd, []string{"03-08T03:00-0400"}},
		{"30 2 * * *", Changes{Gap: GapSkip}, forward, forwardEnd, nil},
		{"30 2 * * *", Changes{Gap: GapShift}, forward, forwardEnd, []string{"03-08T03:30-0400"}},
		{"15,45 2 * * *", Changes{Gap: GapShift}, forward, forwardEnd, []string{"03-08T03:15-0400", "03-08T03:45-0400"}},
		{"30 2,3 * * *", Changes{Gap: GapShift}, forward, forwardEnd, []string{"03-08T03:30-0400"}},
		{"30 1,2,3 * * *", Changes{Gap: GapSkip}, forward, forwardEnd, []string{"03-08T01:30-0500", "03-08T03:30-0400"}},
		{"30 */2 * * *", Changes{Gap: GapShift}, "2026-03-08T01:00:00-05:00", "2026-03-08T05:00:00-04:00", []string{"03-08T04:30-0400"}},
		{"30 1 * * *", Changes{Repeat: RepeatAuto}, back, backEnd, []string{"11-01T01:30-0400"}},
		{"30 1 * * *", Changes{Repeat: RepeatFirst}, back, backEnd, []string{"11-01T01:30-0400"}},
		{"30 1 * * *", Changes{Repeat: RepeatLast}, back, backEnd, []string{"11-01T01:30-0500"}},
		{"30 1 * * *", Changes{Repeat: RepeatBoth}, back, backEnd, []string{"11-01T01:30-0400", "11-01T01:30-0500"}},
		{"*/30 1 * * *", Changes{Repeat: RepeatFirst}, back, backEnd, []string{"11-01T01:00-0400", "11-01T01:30-0400"}},
		{"*/30 1 * * *", Changes{Repeat: RepeatLast}, back, backEnd, []string{"11-01T01:00-0500", "11-01T01:30-0500"}},
		{"0 0-3 * * *", Changes{Repeat: RepeatLast}, back, "2026-11-01T03:00:00-05:00", []string{"11-01T01:00-0500", "11-01T02:00-0500", "11-01T03:00-0500"}},
	} {
		tm, _ := in(t, c.text, "America/New_York")
		tm.changes = c.changes
		var got []string
		for _, at := range fires(tm, instant(t, c.from), instant(t, c.until)) {
			got = append(got, at.Format("01-02T15:04-0700"))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q with %+v: got %v, want %v", c.text, c.changes, got, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range loadCases(f) {
		f.Add(c.text())
	}
	for _, s := range []string{"TZ=UTC", "CRON_TZ=Asia/Tokyo 0 4 * * *", "1,,2 * * * *", "0 0 * * sat-mon", "*/0 * * * *", "+5 * * * *", "0 0 1 1 1/1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, _, err := Parse(text)
		if err != nil {
			return
		}
		again, zone, err := Parse(c.Text)
		if err != nil || again != c || zone != "" {
			t.Errorf("%q becomes %q, which gives %+v, %v", text, c.Text, again, err)
		}
		if strings.HasPrefix(c.Text, "@") {
			return
		}
		read := simulate(c.Text)
		for i, mask := range []uint64{c.spec.minute, uint64(c.spec.hour), uint64(c.spec.dom), uint64(c.spec.month), uint64(c.spec.dow)} {
			for v := fields[i].min; v <= min(fields[i].max, 59); v++ {
				if v != 7 || i != 4 {
					if got := mask>>v&1 != 0; got != read.fields[i](v) {
						t.Errorf("%q: %s %d is %v", c.Text, fields[i].name, v, got)
					}
				}
			}
		}
	})
}

func FuzzNext(f *testing.F) {
	zones := []string{
		"UTC", "America/New_York", "Europe/London", "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Casablanca", "Pacific/Apia",
		"America/Havana", "Europe/Dublin", "Asia/Kathmandu", "Africa/Monrovia", "Antarctica/Casey",
	}
	for i, c := range loadCases(f) {
		f.Add(c.text(), int64(1772953200+i*3600), byte(i), byte(i))
	}
	f.Add("0 0 31 12 *", int64(2240524800), byte(1), byte(0))
	f.Fuzz(func(t *testing.T, text string, from int64, zone, rules byte) {
		c, _, err := Parse(text)
		if err != nil || from < -1e11 || from > 1e11 {
			return
		}
		loc, err := zoneinfo.Load(zones[int(zone)%len(zones)])
		if err != nil {
			t.Fatal(err)
		}
		changes := allChanges[int(rules)%len(allChanges)]
		tm := clocked{c, loc, changes}
		after := time.Unix(from, 0)
		at, ok := tm.next(after)
		if !ok {
			t.Fatalf("%q in %s after %s never fires", text, loc, after)
		}
		if !at.After(after) || at.Second() != 0 {
			t.Fatalf("%q in %s after %s fires at %s", text, loc, after, at)
		}
		if mid, _ := tm.next(at.Add(-1)); !mid.Equal(at) {
			t.Fatalf("%q in %s fires at %s, and just before it next at %s", text, loc, at, mid)
		}
		wall := wallMinute(at)
		if m, ok := c.spec.match(wall, wall+1); ok && m == wall {
			return
		}
		if changes.Gap == GapShift && !c.spec.wild {
			return // the simulation says where
		}
		before := wallMinute(at.Add(-time.Minute)) + 1
		if _, ok := c.spec.match(before, wall); !ok || c.spec.wild || wall == before || changes.Gap == GapSkip {
			t.Fatalf("%q in %s after %s fires at %s, which does not match", text, loc, after, at)
		}
	})
}

func wallMinute(t time.Time) int64 {
	_, offset := t.Zone()
	return floorDiv(t.Unix()+int64(offset), 60)
}

func BenchmarkNext(b *testing.B) {
	for _, c := range []struct{ name, text, zone string }{
		{"minutes", "*/15 * * * *", "America/New_York"},
		{"daily", "30 2 * * *", "America/New_York"},
		{"weekly", "0 4 * * sun", "Europe/London"},
		{"leap_day", "0 0 29 2 *", "Europe/London"},
		{"utc", "0 */4 * * *", "UTC"},
		{"rarest", "0 0 29 2 */7", "America/New_York"},
	} {
		tm, _ := in(b, c.text, c.zone)
		other, err := robfig.ParseStandard("CRON_TZ=" + c.zone + " " + c.text)
		if err != nil {
			b.Fatal(err)
		}
		from := time.Date(2026, 3, 7, 12, 0, 0, 0, tm.zone)
		b.Run(c.name+"/ours", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tm.next(from)
			}
		})
		b.Run(c.name+"/robfig", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				other.Next(from)
			}
		})
	}
}

func BenchmarkNeverWithin50Years(b *testing.B) {
	e := Expr{spec: spec{minute: 1, hour: 1, dom: 1 << 30, month: 1 << 2, dow: 0x7F}}
	zone, err := zoneinfo.Load("America/New_York")
	if err != nil {
		b.Fatal(err)
	}
	from := time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC)
	for b.Loop() {
		if _, ok := e.Next(from, zone, Changes{}); ok {
			b.Fatal("fires")
		}
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Parse("*/15 8-17 * * mon-fri"); err != nil {
			b.Fatal(err)
		}
	}
}
