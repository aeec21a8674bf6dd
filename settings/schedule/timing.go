package schedule

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

// Timing computes fires. It is a value: copies are equal and safe for concurrent use. The zero Timing
// never fires.
type Timing struct {
	interval Interval
	specs    []spec
	zone     *time.Location
}

// Timing gives the arithmetic of the entry. defaultZone serves entries that name no zone; nil is
// [time.Local]. The error is about a zone that this host does not know. An entry without a timing, which
// only one that is not enabled can be, gives the zero Timing.
func (e *Entry) Timing(defaultZone *time.Location) (Timing, error) {
	t := Timing{interval: e.Clock.Interval, zone: defaultZone}
	if defaultZone == nil {
		t.zone = time.Local
	}
	if e.Clock.Zone != "" {
		zone, err := Zone(e.Clock.Zone)
		if err != nil {
			return Timing{}, err
		}
		t.zone = zone
	}
	for _, c := range e.Clock.Cron {
		t.specs = append(t.specs, c.spec)
	}
	return t, nil
}

// FollowsRuns tells whether the next fire counts from the run before (interval) and not from the clock
// on the wall (cron).
func (t Timing) FollowsRuns() bool {
	return t.interval != Interval{}
}

// Next returns the first fire after the given time, never at it; false is never, which means none within
// 50 years.
//
// For an interval it is the given time plus the interval, with its monotonic clock reading. Months count
// in the zone, and the day is clamped to the month's last.
//
// For cron it is a whole minute of the zone's wall clock. Where the clock changes by less than three
// hours, Next does as the cronie daemon: an expression whose minute or hour field starts with * follows
// elapsed time, so skipped minutes are lost and repeated ones run again. Any other runs the minutes that
// were jumped over once, together, at the first minute after the jump, and does not run again in repeated
// minutes. Of several expressions the earliest counts.
func (t Timing) Next(after time.Time) (time.Time, bool) {
	switch {
	case t.interval.Months > 0:
		return addMonths(after.In(t.zone), t.interval.Months), true
	case t.interval.Duration > 0:
		return after.Add(t.interval.Duration), true
	}
	best, found := int64(math.MaxInt64), false
	for _, s := range t.specs {
		if at, ok := s.next(after.Unix()+1, t.zone); ok && at < best {
			best, found = at, true
		}
	}
	if !found {
		return time.Time{}, false
	}
	return time.Unix(best, 0).In(t.zone), true
}

// SplayBound returns the upper bound, exclusive, of the delay of a fire whose nominal time is given: the
// entry's splay, but for cron never beyond the next nominal time, so that fires keep their order.
func (t Timing) SplayBound(nominal time.Time, splay time.Duration) time.Duration {
	if t.FollowsRuns() {
		return splay
	}
	next, ok := t.Next(nominal)
	if !ok {
		return splay
	}
	return min(splay, next.Sub(nominal))
}

func addMonths(t time.Time, n int) time.Time {
	year, month, day := t.Date()
	first := time.Date(year, month+time.Month(n), 1, 0, 0, 0, 0, time.UTC)
	day = min(day, daysIn(first.Year(), int(first.Month())))
	return time.Date(first.Year(), first.Month(), day, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), t.Location())
}

// next returns the first fire at or after the given Unix second, going from one period of the zone to
// the next.
func (s spec) next(from int64, zone *time.Location) (int64, bool) {
	for limit := from + horizon; from < limit; {
		p := periodAt(from, zone)
		p.end = min(p.end, limit)
		if at, ok := s.inPeriod(p, from); ok {
			return at, true
		}
		from = p.end
	}
	return 0, false
}

// period is a stretch of Unix seconds [start, end) with one offset; before is the offset that ends at
// start. A border may have the same offset on both sides.
type period struct {
	start, end     int64
	offset, before int64
}

func periodAt(at int64, zone *time.Location) period {
	t := time.Unix(at, 0).In(zone)
	_, offset := t.Zone()
	start, end := t.ZoneBounds()
	p := period{start: math.MinInt64, end: math.MaxInt64, offset: int64(offset), before: int64(offset)}
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
func (s spec) inPeriod(p period, from int64) (int64, bool) {
	wall := ceilDiv(from+p.offset, 60)
	change := p.offset - p.before
	switch {
	case s.wild:
	case change > 0 && change <= gapLimit:
		first := ceilDiv(p.start+p.offset, 60)
		if wall <= first {
			if _, ok := s.match(ceilDiv(p.start+p.before, 60), first); ok {
				return first*60 - p.offset, true
			}
		}
	case change < 0 && -change <= repeatLimit:
		wall = max(wall, ceilDiv(p.start+p.before, 60))
	}
	at, ok := s.match(wall, ceilDiv(p.end+p.offset, 60))
	return at*60 - p.offset, ok
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func ceilDiv(a, b int64) int64 {
	return -floorDiv(-a, b)
}

// civil gives the date of a day counted from 1970-01-01.
func civil(day int64) (year, month, dom int) {
	y, m, d := time.Unix(day*24*60*60, 0).UTC().Date()
	return y, int(m), d
}

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}
