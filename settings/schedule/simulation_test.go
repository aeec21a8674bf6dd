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

// matches looks at a wall time, given as if it were UTC.
func (s simulated) matches(wall time.Time) bool {
	if s.spec.Minute>>wall.Minute()&1 == 0 || s.spec.Hour>>wall.Hour()&1 == 0 || s.spec.Month>>int(wall.Month())&1 == 0 {
		return false
	}
	dom, dow := s.spec.Dom>>wall.Day()&1 != 0, s.spec.Dow>>int(wall.Weekday())&1 != 0
	if s.dayStars {
		return dom && dow
	}
	return dom || dow
}

// clock is a stretch of wall time: the wall minute (as if UTC) at each minute from start on.
type clock struct {
	zone  string
	start time.Time
	wall  []time.Time
}

// run gives the minutes, counted from the start, in which the daemon would run the expression.
func (s simulated) run(c clock) []int {
	var out []int
	virtual := c.wall[0].Add(-time.Minute)
	for i, wall := range c.wall {
		ran := false
		switch ahead := wall.Sub(virtual); {
		case ahead > 3*time.Hour || ahead < -3*time.Hour: // set anew
			virtual = wall
			ran = s.matches(wall)
		case ahead <= 0: // set back: only wildcards run
			ran = s.wild && s.matches(wall)
		case s.wild:
			virtual = wall
			ran = s.matches(wall)
		default: // set forward, or the next minute
			for virtual.Before(wall) {
				virtual = virtual.Add(time.Minute)
				ran = ran || s.matches(virtual)
			}
		}
		if ran {
			out = append(out, i)
		}
	}
	return out
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
		c := clock{zone: name, start: change.Add(-4 * time.Hour)}
		for i := range 14 * 60 {
			w := c.start.Add(time.Duration(i) * time.Minute).In(zone)
			c.wall = append(c.wall, time.Date(w.Year(), w.Month(), w.Day(), w.Hour(), w.Minute(), 0, 0, time.UTC))
		}
		out = append(out, c)
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
			if key := fmt.Sprint(c.start, c.wall[0], c.wall[len(c.wall)-1], c.wall[4*60]); !seen[key] {
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
			for _, at := range fires(tm, c.start.Add(-1), c.start.Add(time.Duration(len(c.wall)-1)*time.Minute)) {
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
