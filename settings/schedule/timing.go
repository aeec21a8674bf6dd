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

// Timing computes fires and windows. It is immutable and safe for concurrent use. The zero Timing never fires, and its
// windows are always open.
type Timing struct {
	clock   Clock
	zone    *time.Location
	windows window.Rules
}

// Timing returns the Timing of the entry. defaultZone is the zone of entries that name none; nil is [time.Local]. It
// returns an error if this host does not know the entry's zone. The Timing of an entry without a clock never fires.
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

// FollowsRuns reports whether the next fire counts from the run before (an interval from its end or start)
// and not from the wall clock.
func (t Timing) FollowsRuns() bool {
	return t.clock.Interval != Interval{} && t.clock.IntervalFrom != FromEpoch
}

// Wild reports whether all fires follow elapsed time where daylight saving begins or ends: the timing is cron, and all
// expressions are wildcard expressions, see [cron.Expr.Wild].
func (t Timing) Wild() bool {
	fixed := func(x cron.Expr) bool { return !x.Wild() }
	return len(t.clock.Cron) > 0 && !slices.ContainsFunc(t.clock.Cron, fixed)
}

// Seen returns the timing of an entry that was first seen at an instant. A timing with `after` fires only once Seen has
// set this instant.
func (t Timing) Seen(at time.Time) Timing {
	if t.clock.After > 0 {
		t.clock.At, t.clock.After = []time.Time{at.Add(t.clock.After)}, 0
	}
	return t
}

// Next returns the first fire after the given time, exclusive; ok is false if there is none within 50 years.
//
// For an interval it is the given time plus the interval, with its monotonic clock reading. Months count in the zone,
// and the day is clamped to the month's last day. An interval from the epoch fires at all whole multiples of it since
// 1970-01-01 UTC, plus the phase; months begin at midnight in the zone.
//
// For cron it is the earliest fire of the entry's expressions, see [cron.Expr.Next].
func (t Timing) Next(after time.Time) (next time.Time, ok bool) {
	c := &t.clock
	switch {
	case c.IntervalFrom == FromEpoch && c.Interval.Months > 0:
		return t.nextMonth(after), true
	case c.IntervalFrom == FromEpoch && c.Interval.Duration > 0:
		return nextMultiple(after, c.Interval.Duration, c.Phase)
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

// Between yields the fires in (from, until], assuming that runs take no time.
func (t Timing) Between(from, until time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for at, ok := t.Next(from); ok && !at.After(until); at, ok = t.Next(at) {
			if !yield(at) {
				return
			}
		}
	}
}

// Window returns whether the entry's windows are open at an instant, and the rule that closes them.
func (t Timing) Window(at time.Time) window.Verdict {
	return t.windows.At(at, t.Zone())
}

// Opens returns the first instant at or after from at which the entry's windows are open; false if there is none within
// 50 years.
func (t Timing) Opens(from time.Time) (time.Time, bool) {
	return t.windows.Opens(from, t.Zone())
}

// Zone returns the zone in which the timing and the windows count; it is UTC for the zero Timing.
func (t Timing) Zone() *time.Location {
	if t.zone == nil {
		return time.UTC
	}
	return t.zone
}

// SplayBound returns the exclusive upper bound of the delay of a fire: the entry's splay, and for timings that follow
// the wall clock at most the time from the nominal time to the next one, so that fires keep their order.
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

// Offset returns the delay of an entry on a peel for [SplayHost]: at least Min, below bound (see [Timing.SplayBound]).
// It depends on the two names and the bound alone and is evenly distributed over names.
func (s Splay) Offset(peel, entry string, bound time.Duration) time.Duration {
	low := max(0, min(s.Min, bound-1))
	if bound <= low {
		return 0
	}
	sum := sha256.Sum256([]byte(peel + "\x00" + entry)) // neither name can hold the byte between them
	part, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:]), uint64(bound-low))
	return low + time.Duration(part)
}

// addMonths keeps the day of the month, clamped to the last day of the resulting month.
func addMonths(t time.Time, n int) time.Time {
	year, month, day := t.Date()
	last := time.Date(year, month+time.Month(n)+1, 0, 0, 0, 0, 0, time.UTC)
	return time.Date(last.Year(), last.Month(), min(day, last.Day()), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(),
		t.Location())
}

// nextMonth returns the next beginning of a month whose number since 1970 is a multiple of the interval, plus the
// phase.
func (t Timing) nextMonth(after time.Time) time.Time {
	local := after.In(t.zone)
	step := t.clock.Interval.Months
	month := (local.Year()-1970)*12 + int(local.Month()) - 1
	for n := month/step - 2; ; n++ { // 2: one for rounding before 1970, one for the phase
		at := time.Date(1970, time.Month(1+n*step), 1, 0, 0, 0, 0, t.zone).Add(t.clock.Phase)
		if at.After(after) {
			return at
		}
	}
}

// nextMultiple returns the next multiple of the interval since the epoch, plus the phase. It returns false for years
// that int64 nanoseconds cannot represent.
func nextMultiple(after time.Time, interval, phase time.Duration) (time.Time, bool) {
	if after.Year() < 1700 || after.Year() > 2200 {
		return time.Time{}, false
	}
	since := after.UnixNano() - int64(phase)
	n := since/int64(interval) + 1
	if since%int64(interval) < 0 { // division rounds toward 0
		n--
	}
	return time.Unix(0, n*int64(interval)+int64(phase)).In(after.Location()), true
}
