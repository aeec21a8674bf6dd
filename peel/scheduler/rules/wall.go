package rules

import (
	"time"
)

// wall is the rhythm of cron, of fixed times and of intervals from the epoch. It follows the wall clock. An entry without
// a timing has it, and never fires by it.
type wall struct{}

func (wall) OnWall() bool { return true }

func (wall) Activate(*Entry, Instant) {}

// Next returns the first nominal time after now. While the wall clock is set back by up to SetBackLimit, times that have
// fired do not fire again. A single time (at) that has run never does.
func (wall) Next(e *Entry, _, now Instant) (int64, bool) {
	after := now.Wall
	if ahead := e.Nominal.Sub(after); ahead > 0 && (ahead <= SetBackLimit || len(e.Spec.Clock.At) > 0 && e.TimingRuns > 0) && !e.FiresAgainAfterSetBack(ahead) {
		after = e.Nominal
	}
	if start := e.Spec.Life.NotBefore; after.Before(start) {
		after = start.Add(-1)
	}
	nominal, ok := e.Timing.Next(after)
	return nominal.UnixNano(), ok && e.MayFire(nominal)
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

// FiresAgainAfterSetBack reports whether times that have fired fire again after the wall clock was set back, so that the last
// fire lies ahead by the given time. Those of cron with a wildcard do, unless the wait is shorter than a minute.
func (e *Entry) FiresAgainAfterSetBack(ahead time.Duration) bool {
	return e.Timing.Wild() && ahead >= time.Minute
}
