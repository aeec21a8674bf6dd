package cron

import (
	"math"
	"time"
)

// horizon limits the search for the next fire. The rarest possible date, 29 February on one weekday, comes at least
// every 40 years.
const horizon = 50 * 366 * 24 * 60 * 60 // seconds

// Changes of the offset beyond these limits are not daylight saving. Like cronie, we then follow the new offset and
// neither catch up nor suppress fires.
const (
	gapLimit    = 3*60*60 - 1 // seconds forward
	repeatLimit = 3 * 60 * 60 // seconds back
)

// Changes says what happens to fires where the offset of a zone changes by less than three hours, as daylight saving
// begins or ends. The zero value is GapRun and RepeatAuto, the rules of the cronie daemon.
type Changes struct {
	Gap    Gap
	Repeat Repeat
}

// Gap says what happens to fires at wall times that a zone skips when daylight saving begins. It applies to expressions
// with fixed times. An expression whose minute or hour field starts with * follows elapsed time and has no such fires.
type Gap string

// The rules for skipped wall times.
const (
	GapRun   Gap = "run"   // one fire for all of them, at the first minute after the gap
	GapSkip  Gap = "skip"  // no fire
	GapShift Gap = "shift" // each fires later by the length of the gap: 02:30 at 03:30
)

// Repeat says what happens to fires at wall times that occur twice when daylight saving ends.
type Repeat string

// The rules for repeated times.
const (
	// both times for an expression whose minute or hour field starts with *, else the first
	RepeatAuto  Repeat = "auto"
	RepeatFirst Repeat = "first" // the first time
	RepeatLast  Repeat = "last"  // the last time
	RepeatBoth  Repeat = "both"  // both times
)

// Next returns the first fire after the given time, exclusive: a whole minute of the zone's wall clock, in the zone. It
// returns false if there is none within 50 years.
func (e Expr) Next(after time.Time, zone *time.Location, c Changes) (time.Time, bool) {
	from := after.Unix() + 1
	for limit := from + horizon; from < limit; {
		p := periodAt(from, zone)
		p.end = min(p.end, limit)
		if c.Repeat == RepeatLast {
			_, after := time.Unix(p.end, 0).In(zone).Zone()
			p.after = int64(after)
		}
		if at, ok := e.spec.inPeriod(p, from, c); ok {
			return time.Unix(at, 0).In(zone), true
		}
		from = p.end
	}
	return time.Time{}, false
}

// period is a range of Unix seconds [start, end) in which a zone has one offset from UTC, in seconds. before is the
// offset before start; after is the offset from end on, set only for RepeatLast. A border may have the same offset on
// both sides.
type period struct {
	start, end            int64
	before, offset, after int64
}

func periodAt(at int64, zone *time.Location) period {
	t := time.Unix(at, 0).In(zone)
	_, offset := t.Zone()
	start, end := t.ZoneBounds()
	p := period{math.MinInt64, math.MaxInt64, int64(offset), int64(offset), int64(offset)}
	if !start.IsZero() {
		p.start = start.Unix()
		_, before := time.Unix(p.start-1, 0).In(zone).Zone()
		p.before = int64(before)
	}
	if !end.IsZero() {
		p.end = end.Unix()
	}
	if p.end <= at {
		// Beyond the zone's table ZoneBounds assumes 365 days a year, so it ends the period before the last day of a
		// leap year. The offset is right; end the period at midnight UTC.
		const day = 24 * 60 * 60
		p.end = (floorDiv(at, day) + 1) * day
	}
	return p
}

// inPeriod returns the first fire of the period at or after from.
func (s spec) inPeriod(p period, from int64, c Changes) (int64, bool) {
	first, last := ceilDiv(from+p.offset, 60), ceilDiv(p.end+p.offset, 60) // wall minutes [first, last)
	gapFire, ok := int64(0), false
	if gap := p.offset - p.before; gap > 0 && gap <= gapLimit && !s.wild {
		gapFire, ok = s.fireOfGap(p, from, c.Gap)
	}
	switch back := p.before - p.offset; {
	case back <= 0 || back > repeatLimit:
	case c.Repeat == RepeatFirst, !s.wild && (c.Repeat == RepeatAuto || c.Repeat == ""):
		first = max(first, ceilDiv(p.start+p.before, 60))
	}
	if back := p.offset - p.after; back > 0 && back <= repeatLimit && c.Repeat == RepeatLast {
		last = min(last, ceilDiv(p.end+p.after, 60))
	}
	if at, found := s.match(first, last); found && (!ok || at*60-p.offset < gapFire) {
		return at*60 - p.offset, true
	}
	return gapFire, ok
}

// fireOfGap returns the first fire, at or after from, for the wall minutes that were skipped at the start of the
// period.
func (s spec) fireOfGap(p period, from int64, g Gap) (int64, bool) {
	first, end := ceilDiv(p.start+p.before, 60), ceilDiv(p.start+p.offset, 60) // the skipped minutes
	switch g {
	case GapSkip:
		return 0, false
	case GapShift:
		at, ok := s.match(max(first, ceilDiv(from+p.before, 60)), end)
		return ceilDiv(at*60-p.before+p.offset, 60)*60 - p.offset, ok
	}
	at := end*60 - p.offset
	if from > at {
		return 0, false
	}
	_, ok := s.match(first, end)
	return at, ok
}
