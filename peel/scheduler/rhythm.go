package scheduler

import (
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// A rhythm gives an entry its nominal times, on one of the two clocks. There are two: [elapsed] and [wall].
type rhythm interface {
	// onWall reports whether nominal times are Unix times in nanoseconds. They are elapsed times otherwise.
	onWall() bool
	// activate prepares an entry that had no timer.
	activate(*entry, instant)
	// next returns the next nominal time, within the life of the entry.
	next(*owner, *entry, instant) (nominal int64, ok bool)
	// onFire moves the entry past a fire that is due, and reports whether the fire may go on. It may change its nominal time.
	onFire(*owner, *entry, pending, *Fire, instant) bool
	// onEnd is called when the last run in flight has ended.
	onEnd(*owner, *entry, instant)
	// isOverdue reports whether an entry that has just got this rhythm is due already.
	isOverdue(*entry, instant) bool
	// missedFrom returns when fires began to be missed, at or after from.
	missedFrom(e *entry, from time.Time, now instant) time.Time
	// alignedStart returns where a search for the nominal times of the last while before to may begin.
	alignedStart(e *entry, from, to time.Time, back time.Duration) time.Time
	// firstFrom returns the first nominal time that is not before from; at is an earlier one.
	firstFrom(e *entry, at, from time.Time) (time.Time, bool)
}

// rhythmOf returns the rhythm of a timing.
func rhythmOf(t schedule.Timing) rhythm {
	if t.FollowsRuns() {
		return elapsed{}
	}
	return wall{}
}
