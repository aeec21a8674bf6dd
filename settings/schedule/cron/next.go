package cron

import (
	"math"
	"time"
)

// horizon bounds the search for a next fire. The rarest date that exists, 29 February on one day of the
// week, comes every 40 years at worst.
const horizon = 50 * 366 * 24 * 60 * 60 // seconds

// Clock changes that are longer than these limits are no daylight saving: cronie then jumps its own
// clock and neither makes runs up nor holds them back.
const (
	gapLimit    = 3*60*60 - 1 // seconds forward, the longest that is made up
	repeatLimit = 3 * 60 * 60 // seconds back, the longest that is held back
)

// Changes says what becomes of fires where the clocks of a zone change by less than three hours; larger
// changes are none of daylight saving. The zero value is GapRun and RepeatAuto, as the cronie daemon does.
type Changes struct {
	Gap    Gap
	Repeat Repeat
}

// Gap says what becomes of wall times that a zone jumps over. It is about expressions with fixed times:
// one whose minute or hour field starts with * follows elapsed time and loses what is jumped over.
type Gap string

// The rules for gaps.
const (
	GapRun   Gap = "run"   // all of them once, together, at the first minute after the jump
	GapSkip  Gap = "skip"  // they are lost
	GapShift Gap = "shift" // each as much later as the clock jumps: 02:30 at 03:30
)

// Repeat says what becomes of wall times that a zone has twice.
type Repeat string

// The rules for repeated times.
const (
	RepeatAuto  Repeat = "auto"  // both times for an expression whose minute or hour field starts with *, else the first
	RepeatFirst Repeat = "first" // the first time
	RepeatLast  Repeat = "last"  // the last time
	RepeatBoth  Repeat = "both"  // both times
)

// Next returns the first fire after the given time, never at it: a whole minute of the zone's wall clock,
// in the zone. False is never, which means none within 50 years.
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

// period is a stretch of Unix seconds [start, end) with one offset; before is the offset that ends at
// start, after the one that begins at end, where that matters. A border may have the same offset on both sides.
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
		// ZoneBounds takes all years beyond the zone's table for 365 days long and so ends the period before
		// the last day of a leap year. The offset is right, and the day ends at midnight UTC.
		const day = 24 * 60 * 60
		p.end = (floorDiv(at, day) + 1) * day
	}
	return p
}

// inPeriod returns the first fire of the period at or after from.
func (s spec) inPeriod(p period, from int64, c Changes) (int64, bool) {
	first, last := ceilDiv(from+p.offset, 60), ceilDiv(p.end+p.offset, 60) // wall minutes [first, last)
	madeUp, ok := int64(0), false
	if jump := p.offset - p.before; jump > 0 && jump <= gapLimit && !s.wild {
		madeUp, ok = s.afterJump(p, from, c.Gap)
	}
	switch back := p.before - p.offset; {
	case back <= 0 || back > repeatLimit:
	case c.Repeat == RepeatFirst, !s.wild && (c.Repeat == RepeatAuto || c.Repeat == ""):
		first = max(first, ceilDiv(p.start+p.before, 60))
	}
	if back := p.offset - p.after; back > 0 && back <= repeatLimit && c.Repeat == RepeatLast {
		last = min(last, ceilDiv(p.end+p.after, 60))
	}
	if at, found := s.match(first, last); found && (!ok || at*60-p.offset < madeUp) {
		return at*60 - p.offset, true
	}
	return madeUp, ok
}

// afterJump returns the first fire, at or after from, that stands for minutes which the clock jumped over
// at the start of the period.
func (s spec) afterJump(p period, from int64, g Gap) (int64, bool) {
	first, end := ceilDiv(p.start+p.before, 60), ceilDiv(p.start+p.offset, 60) // the minutes jumped over
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
