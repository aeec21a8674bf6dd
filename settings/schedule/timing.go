package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"math/bits"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
)

// Timing computes fires and windows. It is a value: copies are equal and safe for concurrent use. The zero
// Timing never fires and is always open.
type Timing struct {
	clock   Clock
	zone    *time.Location
	windows window.Rules
}

// Timing gives the arithmetic of the entry. defaultZone serves entries that name no zone; nil is
// [time.Local]. The error is about a zone that this host does not know. An entry without a timing gives
// one that never fires.
func (e *Entry) Timing(defaultZone *time.Location) (Timing, error) {
	t := Timing{clock: e.Clock, zone: defaultZone, windows: e.Windows.Rules}
	if defaultZone == nil {
		t.zone = time.Local
	}
	if e.Clock.Zone != "" {
		zone, err := window.Zone(e.Clock.Zone)
		if err != nil {
			return Timing{}, err
		}
		t.zone = zone
	}
	return t, nil
}

// FollowsRuns tells whether the next fire counts from the run before (an interval from its end or start)
// and not from the clock on the wall.
func (t Timing) FollowsRuns() bool {
	return t.clock.Interval != Interval{} && t.clock.IntervalFrom != FromEpoch
}

// Wild tells whether all fires follow elapsed time where the clock on the wall changes: the timing is cron, and no
// expression has fixed times, see [cron.Expr.Wild].
func (t Timing) Wild() bool {
	fixed := func(x cron.Expr) bool { return !x.Wild() }
	return len(t.clock.Cron) > 0 && !slices.ContainsFunc(t.clock.Cron, fixed)
}

// Seen gives the timing of an entry that was first seen at an instant: what comes after so long is due
// then. Without it, `after` never fires.
func (t Timing) Seen(at time.Time) Timing {
	if t.clock.After > 0 {
		t.clock.At, t.clock.After = []time.Time{at.Add(t.clock.After)}, 0
	}
	return t
}

// Next returns the first fire after the given time, never at it; false is never, which means none within
// 50 years.
//
// For an interval it is the given time plus the interval, with its monotonic clock reading. Months count
// in the zone, and the day is clamped to the month's last. An interval from the epoch fires at all whole
// multiples of it since 1970-01-01 UTC, plus the phase; months then begin in the zone.
//
// For cron it is the earliest fire of the entry's expressions, see [cron.Expr.Next].
func (t Timing) Next(after time.Time) (next time.Time, ok bool) {
	c := &t.clock
	switch {
	case c.IntervalFrom == FromEpoch && c.Interval.Months > 0:
		return t.nextMonth(after), true
	case c.IntervalFrom == FromEpoch && c.Interval.Duration > 0:
		return nextOnLattice(after, c.Interval.Duration, c.Phase)
	case c.Interval.Months > 0:
		return addMonths(after.In(t.zone), c.Interval.Months), true
	case c.Interval.Duration > 0:
		return after.Add(c.Interval.Duration), true
	case len(c.At) > 0:
		i, _ := slices.BinarySearchFunc(c.At, after, func(at, after time.Time) int {
			if at.After(after) {
				return 1
			}
			return -1
		})
		if i == len(c.At) {
			return time.Time{}, false
		}
		return c.At[i].In(t.zone), true
	}
	for _, x := range c.Cron {
		if at, found := x.Next(after, t.zone, c.Changes); found && (!ok || at.Before(next)) {
			next, ok = at, true
		}
	}
	return next, ok
}

// Between yields the fires in (from, until], as if no run took time.
func (t Timing) Between(from, until time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for at, ok := t.Next(from); ok && !at.After(until); at, ok = t.Next(at) {
			if !yield(at) {
				return
			}
		}
	}
}

// Window tells whether the entry's windows are open at an instant.
func (t Timing) Window(at time.Time) window.Verdict {
	return t.windows.At(at, t.location())
}

// Opens returns the first instant at or after the given one at which the entry's windows are open; false
// is never within 50 years.
func (t Timing) Opens(from time.Time) (time.Time, bool) {
	return t.windows.Opens(from, t.location())
}

func (t Timing) location() *time.Location {
	if t.zone == nil {
		return time.UTC
	}
	return t.zone
}

// SplayBound returns the upper bound, exclusive, of the delay of a fire whose nominal time is given: the
// entry's splay, but for times on the wall never beyond the next nominal time, so that fires keep their
// order.
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

// Offset returns the delay of an entry on a peel for [SplayHost]: from Min, below bound (see
// [Timing.SplayBound]), always the same for the same names and spread evenly over them.
func (s Splay) Offset(peel, entry string, bound time.Duration) time.Duration {
	low := max(0, min(s.Min, bound-1))
	if bound <= low {
		return 0
	}
	sum := sha256.Sum256([]byte(peel + "\x00" + entry)) // neither name can hold the byte between them
	part, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:]), uint64(bound-low))
	return low + time.Duration(part)
}

// addMonths keeps the day of the month, or takes the last one of a month that is shorter.
func addMonths(t time.Time, n int) time.Time {
	year, month, day := t.Date()
	last := time.Date(year, month+time.Month(n)+1, 0, 0, 0, 0, 0, time.UTC)
	return time.Date(last.Year(), last.Month(), min(day, last.Day()), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), t.Location())
}

// nextMonth finds the first of the months since 1970 in steps of the interval, at midnight plus the phase.
func (t Timing) nextMonth(after time.Time) time.Time {
	local := after.In(t.zone)
	step := t.clock.Interval.Months
	count := (local.Year()-1970)*12 + int(local.Month()) - 1
	for n := int(floorDiv(int64(count), int64(step))) - 1; ; n++ {
		at := time.Date(1970, time.Month(1+n*step), 1, 0, 0, 0, 0, t.zone).Add(t.clock.Phase)
		if at.After(after) {
			return at
		}
	}
}

// nextOnLattice stays within the years that nanoseconds since 1970 can count.
func nextOnLattice(after time.Time, interval, phase time.Duration) (time.Time, bool) {
	if after.Year() < 1700 || after.Year() > 2200 {
		return time.Time{}, false
	}
	n := floorDiv(after.UnixNano()-int64(phase), int64(interval)) + 1
	return time.Unix(0, n*int64(interval)+int64(phase)).In(after.Location()), true
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
