package scheduler

import (
	"time"
)

// wall is the rhythm of cron, of fixed times and of intervals from the epoch. It follows the wall clock. An entry
// without a timing has it, and never fires by it.
type wall struct{}

func (wall) OnWall() bool { return true }

func (wall) Activate(*Entry, Instant) {}

// Next returns the first nominal time after now that has not run by a clock within SetBackLimit of the present one.
// Cron with a wildcard fires again after at least a minute. A single time (at) that has run never does.
func (wall) Next(e *Entry, _, now Instant) (int64, bool) {
	after := now.Wall
	if len(e.Spec.Clock.At) > 0 && e.TimingRuns > 0 && e.Nominal.After(after) {
		after = e.Nominal
	}
	if start := e.Spec.Life.NotBefore; after.Before(start) {
		after = start.Add(-1)
	}
	nominal, ok := e.Timing.Next(after)
	for ok && !(e.Timing.Wild() && nominal.Sub(now.Wall) >= time.Minute) && e.hasRun(nominal) {
		nominal, ok = e.Timing.Next(nominal)
	}
	return nominal.UnixNano(), ok && e.MayFire(nominal)
}

// Over returns the newest nominal time over which the wall clock was set forward, if that is not more than deadline ago
// and has not run.
func (e *Entry) Over(old, now time.Time, deadline time.Duration) (nominal time.Time, ok bool) {
	from := later(old, now.Add(-deadline-1))
	for at := range e.Timing.Between(from, now) {
		if e.MayFire(at) && !e.hasRun(at) {
			nominal, ok = at, true
		}
	}
	return nominal, ok
}

func (wall) OnFire(e *Entry, _ Pending, now Instant) { e.Anchor = now.Up }

func (wall) OnEnd(e *Entry, end Instant) bool {
	e.Anchor = end.Up
	return false
}

func (wall) IsOverdue(*Entry, Instant) bool { return false }

func (wall) MissedFrom(_ *Entry, from time.Time, _ Instant) time.Time { return from }

func (wall) alignedStart(_ *Entry, from, to time.Time, back time.Duration) time.Time {
	if start := to.Add(-back); start.After(from) {
		return start
	}
	return from
}

func (wall) firstFrom(e *Entry, _, from time.Time) (time.Time, bool) {
	return e.Timing.Next(from.Add(-1))
}
