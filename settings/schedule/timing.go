package schedule

import (
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
)

// Timing computes fires. It is a value: copies are equal and safe for concurrent use. The zero Timing
// never fires.
type Timing struct {
	interval Interval
	cron     []cron.Expr
	zone     *time.Location
	changes  cron.Changes
}

// Timing gives the arithmetic of the entry. defaultZone serves entries that name no zone; nil is
// [time.Local]. The error is about a zone that this host does not know. An entry without a timing, which
// only one that is not enabled can be, gives the zero Timing.
func (e *Entry) Timing(defaultZone *time.Location) (Timing, error) {
	t := Timing{interval: e.Clock.Interval, cron: e.Clock.Cron, zone: defaultZone, changes: e.Clock.Changes}
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
// For cron it is the earliest fire of the entry's expressions, see [cron.Expr.Next].
func (t Timing) Next(after time.Time) (next time.Time, ok bool) {
	switch {
	case t.interval.Months > 0:
		return addMonths(after.In(t.zone), t.interval.Months), true
	case t.interval.Duration > 0:
		return after.Add(t.interval.Duration), true
	}
	for _, x := range t.cron {
		if at, found := x.Next(after, t.zone, t.changes); found && (!ok || at.Before(next)) {
			next, ok = at, true
		}
	}
	return next, ok
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

// addMonths keeps the day of the month, or takes the last one of a month that is shorter.
func addMonths(t time.Time, n int) time.Time {
	year, month, day := t.Date()
	last := time.Date(year, month+time.Month(n)+1, 0, 0, 0, 0, 0, time.UTC)
	return time.Date(last.Year(), last.Month(), min(day, last.Day()), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), t.Location())
}
