package scheduler

import (
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// A Rhythm gives an entry its nominal times, on one of the two clocks. There are two: elapsed, of intervals from the
// end or the start of a run, and wall, of all others.
type Rhythm interface {
	// OnWall reports whether nominal times are Unix times in nanoseconds. They are elapsed times otherwise.
	OnWall() bool
	// Activate prepares an entry that had no next fire.
	Activate(*Entry, Instant)
	// Next returns the next nominal time within the life of the entry. base converts elapsed times to the wall clock.
	Next(e *Entry, base, now Instant) (nominal int64, ok bool)
	// OnFire moves the entry past a fire that is due.
	OnFire(*Entry, Pending, Instant)
	// OnEnd is called when the last run in flight has ended. It reports whether the next fire has to be planned again.
	OnEnd(*Entry, Instant) (replan bool)
	// IsOverdue reports whether an entry that has just got this rhythm is due already.
	IsOverdue(*Entry, Instant) bool
	// MissedFrom returns the time that the nominal times after from follow.
	MissedFrom(e *Entry, from time.Time, now Instant) time.Time
	// alignedStart returns where a search for the nominal times of the last while before to may begin.
	alignedStart(e *Entry, from, to time.Time, back time.Duration) time.Time
	// firstFrom returns the first nominal time that is not before from; at is an earlier one.
	firstFrom(e *Entry, at, from time.Time) (time.Time, bool)
}

// RhythmOf returns the rhythm of a timing.
func RhythmOf(t schedule.Timing) Rhythm {
	if t.FollowsRuns() {
		return elapsed{}
	}
	return wall{}
}

// SetBackLimit is the furthest that the wall clock may be set back without times firing again that have fired.
const SetBackLimit = 3 * time.Hour
