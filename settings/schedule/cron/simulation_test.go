package cron

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/zoneinfo"
)

// simulated is an expression for a simulation that shares nothing with Next: it looks at the text in every
// minute, and goes through time minute by minute with the clock that the cronie daemon keeps.
type simulated struct {
	text           string
	fields         [5]func(int) bool
	wild, dayStars bool
}

func simulate(text string) simulated {
	f := strings.Fields(text)
	s := simulated{
		text: text,
		wild: f[0][0] == '*' || f[1][0] == '*', dayStars: strings.ContainsAny(f[2][:1]+f[4][:1], "*?"),
	}
	for i := range f {
		s.fields[i] = values(i, f[i])
	}
	return s
}

// values reads one field without masks: whether a value is in it, asked once for each.
func values(field int, text string) func(int) bool {
	largest := [5]int{59, 23, 31, 12, 6}[field]
	smallest := [5]int{0, 0, 1, 1, 0}[field]
	var matching []bool
	for v := range largest + 1 {
		matching = append(matching, slices.ContainsFunc(strings.Split(text, ","), func(e string) bool {
			return inElement(field, e, v, smallest, largest) || field == 4 && v == 0 && inElement(field, e, 7, smallest, 7)
		}))
	}
	return func(v int) bool { return matching[v] }
}

func inElement(field int, text string, v, smallest, largest int) bool {
	span, stepText, stepped := strings.Cut(text, "/")
	step := 1
	if stepped {
		step, _ = strconv.Atoi(stepText)
	}
	low, high := smallest, largest
	if span != "*" && span != "?" {
		lowText, highText, ranged := strings.Cut(span, "-")
		low = named(field, lowText)
		switch {
		case ranged:
			high = named(field, highText)
		case !stepped:
			high = low
		case field == 4:
			high = max(low, 6)
		}
	} else if field == 4 && v == 7 {
		return false
	}
	if low > high { // over the end of the week
		return v >= low && (v-low)%step == 0 || v < 7 && v <= high && (v+7-low)%step == 0
	}
	return v >= low && v <= high && (v-low)%step == 0
}

func named(field int, text string) int {
	months := []string{"", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	days := []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
	names := map[int][]string{3: months, 4: days}[field]
	if i := slices.Index(names, strings.ToLower(text)); i >= 0 {
		return i
	}
	n, _ := strconv.Atoi(text)
	return n
}

// matches looks at a wall minute.
func (s simulated) matches(w wall) bool {
	if !s.fields[0](w.minute) || !s.fields[1](w.hour) || !s.fields[3](w.month) {
		return false
	}
	dom, dow := s.fields[2](w.day), s.fields[4](w.weekday)
	if s.dayStars {
		return dom && dow
	}
	return dom || dow
}

type wall struct{ minute, hour, day, month, weekday int }

// clock is a stretch of wall time around a change, the same in some zones.
type clock struct {
	zones []string
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
	c := clock{zones: []string{zone.String()}, start: start}
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
	zone := zoneOf(t, name)
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

// clocks gives the wall clocks around all changes of all zones, each once with all its zones.
func clocks(t testing.TB, from, to int) (out []clock, zones int) {
	t.Helper()
	data, err := os.ReadFile("testdata/zones.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]int)
	for name := range strings.Lines(string(data)) {
		name = strings.TrimSpace(name)
		if strings.HasPrefix(name, "#") {
			continue
		}
		zones++
		for _, c := range transitions(t, name, from, to) {
			key := fmt.Sprint(c.start, c.walls[0], c.shown)
			if i, ok := seen[key]; ok {
				out[i].zones = append(out[i].zones, name)
				continue
			}
			seen[key] = len(out)
			out = append(out, c)
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
		"10 2 * * 5-7", "10 2 * * sat-mon/2", "10 2 1-30/4 mar-nov 7",
	}
	for _, c := range loadCases(t) {
		if c.Kind != "next" && c.Kind != "nextseq" && c.Kind != "runs" && c.Kind != "match" {
			continue
		}
		if _, _, err := Parse(c.text()); err == nil && !strings.HasPrefix(c.text(), "@") {
			out = append(out, strings.Join(strings.Fields(c.text()), " "))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// raced says that the race detector is on.
var raced bool

func TestNextAgreesWithASimulationOfTheDaemonAtEveryClockChange(t *testing.T) {
	changes, zones := clocks(t, 2024, 2027)
	texts := expressions(t)
	if testing.Short() || raced {
		texts, changes = texts[:40], inOneZone(changes)
	}
	t.Logf("%d zones, %d different changes, %d expressions", zones, len(changes), len(texts))
	if zones < 500 || len(changes) < 100 || !raced && !testing.Short() && len(texts) < 150 {
		t.Errorf("%d zones, %d changes", zones, len(changes))
	}
	compare(t, changes, texts, Changes{}, simulated.run)
	compare(t, inOneZone(changes), texts[:10], Changes{GapRun, RepeatAuto}, simulated.run)
}

// allChanges are the ways to take changes of the clock, the cronie daemon's among them.
var allChanges = []Changes{
	{}, {GapSkip, RepeatFirst}, {GapShift, RepeatLast}, {GapSkip, RepeatBoth}, {GapShift, RepeatAuto}, {GapRun, RepeatLast},
}

func TestOtherWaysAtEveryClockChangeAgreeWithASimulation(t *testing.T) {
	changes, _ := clocks(t, 2025, 2026)
	for _, way := range allChanges[1:] {
		if way.Gap == GapRun {
			continue // what the daemon makes up is in its simulation
		}
		compare(t, inOneZone(changes), expressions(t)[:30], way, func(s simulated, c clock) []int { return s.plainly(c, way) })
	}
}

// inOneZone leaves each clock one of its zones.
func inOneZone(clocks []clock) []clock {
	out := slices.Clone(clocks)
	for i := range out {
		out[i].zones = out[i].zones[:1]
	}
	return out
}

// plainly looks at each minute for itself: whether the clock has shown it before or will again, and what it
// jumped over.
func (s simulated) plainly(c clock, way Changes) []int {
	jump := 1
	for jump < len(c.shown)-1 && c.shown[jump]-c.shown[jump-1] <= 1 {
		jump++
	}
	var out []int
	for i, shown := range c.shown {
		ran := s.matches(c.walls[shown])
		switch {
		case !ran:
		case way.Repeat == RepeatFirst, way.Repeat == RepeatAuto && !s.wild:
			ran = !slices.Contains(c.shown[:i], shown)
		case way.Repeat == RepeatLast:
			ran = !slices.Contains(c.shown[i+1:], shown)
		}
		if way.Gap == GapShift && !s.wild && i >= jump {
			missed := c.shown[jump-1] + 1 + i - jump
			ran = ran || missed < c.shown[jump] && s.matches(c.walls[missed])
		}
		if ran {
			out = append(out, i)
		}
	}
	return out
}

var zonesByName = make(map[string]*time.Location)

// zoneOf loads each zone once.
func zoneOf(t testing.TB, name string) *time.Location {
	t.Helper()
	if zonesByName[name] == nil {
		zone, err := zoneinfo.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		zonesByName[name] = zone
	}
	return zonesByName[name]
}

func compare(t *testing.T, changes []clock, texts []string, way Changes, run func(simulated, clock) []int) {
	t.Helper()
	pairs := 0
	for _, text := range texts {
		s := simulate(text)
		tm, _ := in(t, text, "UTC")
		tm.changes = way
		for _, c := range changes {
			want := run(s, c)
			for _, name := range c.zones {
				tm.zone = zoneOf(t, name)
				var got []int
				for _, at := range fires(tm, c.start.Add(-1), c.start.Add(time.Duration(len(c.shown)-1)*time.Minute)) {
					got = append(got, int(at.Sub(c.start)/time.Minute))
				}
				pairs++
				if !slices.Equal(got, want) {
					t.Errorf("%q in %s from %s with %+v: got minutes %v, want %v", text, name, c.start, way, got, want)
				}
			}
		}
	}
	t.Logf("%d pairs", pairs)
}
