// File moment.go reads times as people write them in a question about a schedule, and says what the clocks of a zone do
// then. Call [ParseMoment] with the text; [FireIn] and [Before] find the fires of a timing about an instant.
//
// Guarantee: a wall time that comes twice has both instants, and one that does not exist has none, but its [Gap].

package why

import (
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// forms are the ways to write a time without its offset from UTC. A form without seconds names a whole minute.
var forms = []struct {
	layout string
	span   time.Duration
	clock  bool // without a date: the last such time
}{
	{"2006-01-02T15:04", time.Minute, false},
	{"2006-01-02 15:04", time.Minute, false},
	{"2006-01-02T15:04:05", time.Second, false},
	{"2006-01-02 15:04:05", time.Second, false},
	{"15:04", time.Minute, true},
	{"15:04:05", time.Second, true},
}

// A Moment is the time of a question.
type Moment struct {
	At   []time.Time   // the instant: two if the clocks of the zone show the time twice, none if they skip it
	Span time.Duration // how long it lasts: a minute or a second
	Wall string        // as the zone's clocks show it
	Gap  Gap           // if they skip it
}

// First returns the first instant of the moment, or the first after the gap; zero for a zero Moment.
func (m *Moment) First() time.Time {
	if len(m.At) > 0 {
		return m.At[0]
	}
	return m.Gap.At
}

// A Gap is a change of a zone's clocks by which wall times do not exist.
type Gap struct {
	At     time.Time // the first instant after it
	Length time.Duration
}

// ParseMoment reads a time as people write it: with an offset from UTC, or as the clocks of the zone show it.
func ParseMoment(text string, zone *time.Location, now time.Time) (Moment, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00"} {
		if at, err := time.Parse(layout, text); err == nil {
			span := time.Second
			if at.Second() == 0 && at.Nanosecond() == 0 {
				span = time.Minute
			}
			return Moment{At: []time.Time{at.In(zone)}, Span: span, Wall: at.In(zone).Format(WallForm)}, nil
		}
	}
	for _, form := range forms {
		wall, err := time.Parse(form.layout, text)
		if err != nil {
			continue
		}
		if !form.clock {
			return momentOf(wall, form.span, zone), nil
		}
		today := now.In(zone)
		for back := range 3 { // today, or yesterday, or the day before if yesterday's clocks skipped the time
			m := momentOf(time.Date(today.Year(), today.Month(), today.Day()-back, wall.Hour(), wall.Minute(),
				wall.Second(), 0, time.UTC), form.span, zone)
			if len(m.At) > 0 && !m.At[0].After(now) {
				return m, nil
			}
		}
	}
	return Moment{}, fmt.Errorf(
		"%.40q: write it like 2026-06-01T09:00, 09:00 or 2026-06-01T09:00:00+01:00; "+
			"without an offset it is a time of the entry's zone",
		text,
	)
}

// WallForm is the form of [Moment.Wall].
const WallForm = "2006-01-02 15:04:05"

// momentOf returns the instants at which the clocks of a zone show a wall time, which is given in UTC.
func momentOf(wall time.Time, span time.Duration, zone *time.Location) Moment {
	m := Moment{Span: span, Wall: wall.Format(WallForm)}
	for _, near := range []time.Time{wall.Add(-26 * time.Hour), wall.Add(26 * time.Hour)} {
		_, offset := near.In(zone).Zone()
		at := wall.Add(-time.Duration(offset) * time.Second).In(zone)
		if at.Format(WallForm) == m.Wall && (len(m.At) == 0 || !m.At[0].Equal(at)) {
			m.At = append(m.At, at)
		}
	}
	if len(m.At) == 0 {
		_, before := wall.Add(-26 * time.Hour).In(zone).Zone()
		// With the offset of before, the instant is as far behind the change as the wall time is behind the start of
		// the gap.
		start, _ := wall.Add(-time.Duration(before) * time.Second).In(zone).ZoneBounds()
		m.Gap = gapAt(start, zone)
	}
	return m
}

// gapAt returns the gap that a change of a zone's clocks makes.
func gapAt(change time.Time, zone *time.Location) Gap {
	_, before := change.Add(-time.Second).In(zone).Zone()
	_, after := change.In(zone).Zone()
	return Gap{change.In(zone), time.Duration(after-before) * time.Second}
}

// ClockChange describes the change of a zone's clocks within a day of an instant; empty if there is none.
func ClockChange(at time.Time, zone *time.Location) string {
	start, end := at.In(zone).ZoneBounds()
	for _, change := range []time.Time{start, end} {
		if change.IsZero() || change.Sub(at).Abs() > 24*time.Hour {
			continue
		}
		g := gapAt(change, zone)
		switch before := change.Add(-time.Second).In(zone).Add(time.Second); {
		case g.Length > 0:
			return fmt.Sprintf("the clocks go from %s to %s on %s, so that the times between do not exist",
				wallAt(before, -g.Length, zone), change.In(zone).Format("15:04"), change.In(zone).Format(time.DateOnly))
		case g.Length < 0:
			return fmt.Sprintf("the clocks go back from %s to %s on %s, so that the times between come twice",
				wallAt(before, -g.Length, zone), change.In(zone).Format("15:04"), change.In(zone).Format(time.DateOnly))
		}
	}
	return ""
}

// wallAt returns the time of day that the clocks would show at a change if they did not change by -d.
func wallAt(change time.Time, d time.Duration, zone *time.Location) string {
	return change.In(zone).Add(d).Format("15:04")
}

// Twin returns the second instant at which the clocks of a zone show the time of an instant; false if there is none.
func Twin(at time.Time, zone *time.Location) (time.Time, bool) {
	wall, err := time.Parse(WallForm, at.In(zone).Format(WallForm))
	if err != nil {
		return time.Time{}, false
	}
	for _, same := range momentOf(wall, time.Second, zone).At {
		if same.Unix() != at.Unix() {
			return same, true
		}
	}
	return time.Time{}, false
}

// FireIn returns the first fire in [at, at+span).
func FireIn(t schedule.Timing, at time.Time, span time.Duration) (time.Time, bool) {
	fire, ok := t.Next(at.Add(-1))
	return fire, ok && fire.Before(at.Add(span))
}

// Bounds of the search for the fire before an instant.
const (
	longestBack = 5 * 366 * 24 * time.Hour
	mostFires   = 100_000
)

// Before returns the last fire before an instant; false if there is none in five years, or if the timing follows runs.
func Before(t schedule.Timing, at time.Time) (time.Time, bool) {
	if t.FollowsRuns() {
		return time.Time{}, false
	}
	for back := time.Hour; back <= longestBack; back *= 2 {
		var last time.Time
		fires := 0
		for fire := range t.Between(at.Add(-back), at.Add(-1)) {
			if last = fire; fires > mostFires {
				return time.Time{}, false
			}
			fires++
		}
		if fires > 0 {
			return last, true
		}
	}
	return time.Time{}, false
}
