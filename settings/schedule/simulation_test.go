package schedule

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
)

// simulated is an expression read by another parser, for a simulation that shares nothing with Next: it
// goes through time minute by minute and keeps the clock that the cronie daemon keeps.
type simulated struct {
	text           string
	spec           *cron.SpecSchedule
	wild, dayStars bool
}

func simulate(t testing.TB, text string) simulated {
	t.Helper()
	s, err := cron.ParseStandard(text)
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(text)
	return simulated{
		text, s.(*cron.SpecSchedule),
		f[0][0] == '*' || f[1][0] == '*', strings.ContainsAny(f[2][:1]+f[4][:1], "*?"),
	}
}

// matches looks at a wall minute.
func (s simulated) matches(w wall) bool {
	if s.spec.Minute>>w.minute&1 == 0 || s.spec.Hour>>w.hour&1 == 0 || s.spec.Month>>w.month&1 == 0 {
		return false
	}
	dom, dow := s.spec.Dom>>w.day&1 != 0, s.spec.Dow>>w.weekday&1 != 0
	if s.dayStars {
		return dom && dow
	}
	return dom || dow
}

type wall struct{ minute, hour, day, month, weekday int }

// clock is a stretch of wall time around a change.
type clock struct {
	zone  string
	start time.Time
	shown []int  // the wall minute at each minute from start on, as an index of walls
	walls []wall // all wall minutes between the earliest and the latest shown
}

// run gives the minutes, counted from the start, in which the daemon would run the expression.
func (s simulated) run(c clock) []int {
	const hours = 60
	var out []int
	virtual := c.shown[0] - 1
	for i, shown := range c.shown {
		ran := false
		switch ahead := shown - virtual; {
		case ahead > 3*hours || ahead < -3*hours: // set anew
			virtual = shown
			ran = s.matches(c.walls[shown])
		case ahead <= 0: // set back: only wildcards run
			ran = s.wild && s.matches(c.walls[shown])
		case s.wild:
			virtual = shown
			ran = s.matches(c.walls[shown])
		default: // set forward, or the next minute
			for virtual < shown {
				virtual++
				ran = ran || s.matches(c.walls[virtual])
			}
		}
		if ran {
			out = append(out, i)
		}
	}
	return out
}

// show reads the zone's clock in each of the minutes.
func show(zone *time.Location, start time.Time, minutes int) clock {
	c := clock{zone: zone.String(), start: start}
	asUTC := func(i int) time.Time {
		w := start.Add(time.Duration(i) * time.Minute).In(zone)
		return time.Date(w.Year(), w.Month(), w.Day(), w.Hour(), w.Minute(), 0, 0, time.UTC)
	}
	first, last := asUTC(0), asUTC(0)
	for i := range minutes {
		w := asUTC(i)
		if w.Before(first) {
			first = w
		}
		if w.After(last) {
			last = w
		}
	}
	for w := first; !w.After(last); w = w.Add(time.Minute) {
		c.walls = append(c.walls, wall{w.Minute(), w.Hour(), w.Day(), int(w.Month()), int(w.Weekday())})
	}
	for i := range minutes {
		c.shown = append(c.shown, int(asUTC(i).Sub(first)/time.Minute))
	}
	return c
}

// transitions finds every change of a zone's offset between two years by looking at each quarter of an
// hour, and gives the wall clock from 4 hours before to 10 hours after it.
func transitions(t testing.TB, name string, from, to int) []clock {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	var out []clock
	end := time.Date(to, 1, 1, 0, 0, 0, 0, time.UTC)
	at := time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, last := at.In(zone).Zone(); at.Before(end); at = at.Add(24 * time.Hour) {
		_, offset := at.In(zone).Zone()
		if offset == last {
			continue
		}
		last = offset
		change := at.Add(-24 * time.Hour)
		for _, o := change.In(zone).Zone(); o != offset; _, o = change.In(zone).Zone() {
			change = change.Add(15 * time.Minute)
		}
		out = append(out, show(zone, change.Add(-4*time.Hour), 14*60))
	}
	return out
}

// clocks gives the wall clocks around all changes of all zones, each once.
func clocks(t testing.TB, from, to int) (out []clock, zones int) {
	t.Helper()
	data, err := os.ReadFile("testdata/zones.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for name := range strings.Lines(string(data)) {
		name = strings.TrimSpace(name)
		if strings.HasPrefix(name, "#") {
			continue
		}
		zones++
		for _, c := range transitions(t, name, from, to) {
			if key := fmt.Sprint(c.start, c.walls[0], c.shown[0], c.shown[len(c.shown)-1], c.shown[4*60]); !seen[key] {
				seen[key] = true
				out = append(out, c)
			}
		}
	}
	return out, zones
}

// expressions are those of the case file that both parsers read, and some more around the hours at which
// clocks change.
func expressions(t testing.TB) []string {
	t.Helper()
	out := []string{
		"0 0 * * *", "30 0 * * *", "0 1 * * *", "30 1 * * *", "59 1 * * *", "0 2 * * *", "30 2 * * *", "15,45 2 * * *", "0 3 * * *",
		"30 3 * * *", "0,30 0-4 * * *", "0 22-23 * * *", "30 23 * * *", "5 4 * * 0", "5 4 * * sun-mon", "10 2 1-7,25-31 * 0", "10 2 */2 * 0",
		"*/15 * * * *", "0 */2 * * *", "30 */3 * * *", "*/20 2 * * *", "*/7 1-3 * * *", "1-59/13 0-23/5 * * *", "0 0-23 * * *", "* 2 * * *",
	}
	for _, c := range loadCases(t) {
		if c.Kind != "next" && c.Kind != "nextseq" && c.Kind != "runs" && c.Kind != "match" {
			continue
		}
		_, _, err := ParseCron(c.text())
		if _, other := cron.ParseStandard(c.text()); err == nil && other == nil && !strings.HasPrefix(c.text(), "@") {
			out = append(out, strings.Join(strings.Fields(c.text()), " "))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestNextAgreesWithASimulationOfTheDaemonAtEveryClockChange(t *testing.T) {
	changes, zones := clocks(t, 2024, 2027)
	texts := expressions(t)
	if testing.Short() {
		texts = texts[:40]
	}
	t.Logf("%d zones, %d different changes, %d expressions", zones, len(changes), len(texts))
	if zones < 312 || len(changes) < 100 {
		t.Errorf("%d zones, %d changes", zones, len(changes))
	}
	compare(t, changes, texts)
}

func compare(t *testing.T, changes []clock, texts []string) {
	t.Helper()
	pairs := 0
	for _, text := range texts {
		s := simulate(t, text)
		for _, c := range changes {
			tm, _ := timing(t, text, c.zone)
			var got []int
			for _, at := range fires(tm, c.start.Add(-1), c.start.Add(time.Duration(len(c.shown)-1)*time.Minute)) {
				got = append(got, int(at.Sub(c.start)/time.Minute))
			}
			want := s.run(c)
			pairs++
			if !slices.Equal(got, want) {
				t.Errorf("%q in %s from %s: got minutes %v, want %v", text, c.zone, c.start, got, want)
			}
		}
	}
	t.Logf("%d pairs", pairs)
}
