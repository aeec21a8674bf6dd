// Package window computes when an entry may run: its hours, its days and its blackouts.
//
// [ParseHours] and [Days.Add] parse the parts of [Rules]. [Rules.At] says whether the rules are open at an instant,
// [Rules.Opens] and [Rules.Closes] when that changes. [Zone] returns the zone of an IANA name.
//
// Hours are wall times of a zone, [start, end). A window that goes over midnight belongs to the day on which it starts:
// "22:00-06:00" without Saturdays is closed from Saturday 22:00 to Sunday 06:00 and open on Saturday at 05:59. Nothing
// runs in a blackout, even if the hours and days are open.
//
// The wall clock decides. A window that lies in the hour skipped by daylight saving does not open on that day; in the
// hour that occurs twice it is open twice.
//
// Known gap: Opens looks 50 years ahead, Closes two.
package window

import (
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// Rules are the windows of an entry. The zero Rules are always open.
type Rules struct {
	Hours    []Hours // open in each; none is the whole day
	On       Days    // open on these days only; the empty set is every day
	NotOn    Days
	Blackout Days
}

// None reports whether r is always open.
func (r Rules) None() bool {
	return len(r.Hours) == 0 && r.On.Empty() && r.NotOn.Empty() && r.Blackout.Empty()
}

// Verdict is Open, or the reason why an entry may not run; skipped fires are counted by it.
type Verdict string

// The verdicts.
const (
	Open     Verdict = ""
	Outside  Verdict = "outside_window"
	Blackout Verdict = "blackout"
)

const minutesPerDay = 24 * 60

// At returns whether the rules are open at an instant, in the zone.
func (r Rules) At(at time.Time, zone *time.Location) Verdict {
	local := at.In(zone)
	day, minute := dayOf(local), local.Hour()*60+local.Minute()
	if r.Blackout.contains(day) || r.Blackout.covers(at) {
		return Blackout
	}
	if len(r.Hours) == 0 && r.allows(day) {
		return Open
	}
	for _, h := range r.Hours {
		switch {
		case h.From < h.To:
			if minute >= h.From && minute < h.To && r.allows(day) {
				return Open
			}
		case minute >= h.From && r.allows(day), minute < h.To && r.allows(day-1):
			return Open
		}
	}
	return Outside
}

// allows reports whether windows may start on a day.
func (r Rules) allows(day int) bool {
	return (r.On.Empty() || r.On.contains(day)) && !r.NotOn.contains(day)
}

const (
	openHorizon  = 50 * 366 // days that Opens looks ahead
	closeHorizon = 2 * 366  // days that Closes looks ahead
)

// Opens returns the first instant at or after from at which the rules are open; false if there is none within 50 years.
func (r Rules) Opens(from time.Time, zone *time.Location) (time.Time, bool) {
	if r.At(from, zone) == Open {
		return from, true
	}
	first := dayOf(from.In(zone))
	for day := first; day < first+openHorizon; day++ {
		if !r.allows(day) && !r.allows(day-1) || r.Blackout.contains(day) {
			continue
		}
		for _, at := range r.edges(day, zone) {
			if !at.Before(from) && r.At(at, zone) == Open {
				return at.In(zone), true
			}
		}
	}
	return time.Time{}, false
}

// Closes returns the first instant at or after from at which the rules are not open; ok is false if there is none
// within two years.
func (r Rules) Closes(from time.Time, zone *time.Location) (at time.Time, ok bool) {
	if r.At(from, zone) != Open {
		return from, true
	}
	if r.None() {
		return time.Time{}, false
	}
	first := dayOf(from.In(zone))
	for day := first; day < first+closeHorizon; day++ {
		for _, at := range r.edges(day, zone) {
			if !at.Before(from) && r.At(at, zone) != Open {
				return at.In(zone), true
			}
		}
	}
	return time.Time{}, false
}

// edges returns all instants of a day at which rules may open or close, in order: the start of the day, the starts and
// ends of windows and blackouts, changes of the zone's offset.
func (r Rules) edges(day int, zone *time.Location) []time.Time {
	edges := instants(day*minutesPerDay, zone)
	for _, h := range r.Hours {
		edges = append(edges, instants(day*minutesPerDay+h.From, zone)...)
		edges = append(edges, instants(day*minutesPerDay+h.To, zone)...)
	}
	for _, b := range r.Blackout.Times {
		for _, at := range []time.Time{b.From, b.To} {
			if dayOf(at.In(zone)) == day {
				edges = append(edges, at)
			}
		}
	}
	from, to := aroundDay(day)
	for at := from; at.Before(to); {
		_, end := at.In(zone).ZoneBounds()
		if !end.After(at) { // none, or the leap years beyond the zone's table, see package cron
			break
		}
		if at = end; dayOf(end.In(zone)) == day {
			edges = append(edges, end)
		}
	}
	sorting.Func(edges, time.Time.Compare)
	return edges
}

// aroundDay returns instants that are before and after a day in every zone.
func aroundDay(day int) (from, to time.Time) {
	utc := time.Unix(int64(day)*24*60*60, 0)
	return utc.Add(-26 * time.Hour), utc.Add(50 * time.Hour)
}

// instants returns the instants at which the clock of a zone shows a wall minute: one, or none or two where daylight
// saving begins or ends.
func instants(minute int, zone *time.Location) []time.Time {
	wall := int64(minute) * 60
	from, to := aroundDay(minute / minutesPerDay)
	var found []time.Time
	for _, near := range []time.Time{from, time.Unix(wall, 0), to} {
		_, offset := near.In(zone).Zone()
		at := time.Unix(wall-int64(offset), 0)
		_, there := at.In(zone).Zone()
		if there == offset && !slices.ContainsFunc(found, at.Equal) {
			found = append(found, at)
		}
	}
	return found
}

// dayOf returns the date of a local time in days since 1970-01-01.
func dayOf(local time.Time) int {
	year, month, day := local.Date()
	return int(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / (24 * 60 * 60))
}

// ClosedBy returns the line of the rules that closes them at an instant, in words: "blackout 2026-12-24", "not on
// Saturday", "only in 08:00-18:00". It is empty if the rules are open.
func (r Rules) ClosedBy(at time.Time, zone *time.Location) string {
	local := at.In(zone)
	day := dayOf(local)
	switch r.At(at, zone) {
	case Open:
		return ""
	case Blackout:
		return "blackout " + r.Blackout.line(day, at)
	}
	if r.NotOn.contains(day) {
		return "not on " + r.NotOn.line(day, at)
	}
	if !r.On.Empty() && !r.On.contains(day) {
		return "only on " + strings.Join(r.On.Words(), " and ")
	}
	texts := make([]string, len(r.Hours))
	for i, h := range r.Hours {
		texts[i] = h.String()
	}
	return "only in " + strings.Join(texts, " and ")
}

// line describes the first element that contains a day or an instant.
func (d Days) line(day int, at time.Time) string {
	for _, dates := range d.Dates {
		if day >= dates.First && day <= dates.Last {
			return strings.Join(Days{Dates: []Dates{dates}}.Words(), "")
		}
	}
	for _, times := range d.Times {
		if !at.Before(times.From) && at.Before(times.To) {
			return strings.Join(Days{Times: []Times{times}}.Words(), "")
		}
	}
	weekday := ((day+4)%7 + 7) % 7 // 1970-01-01 was a Thursday
	return time.Weekday(weekday).String()
}
