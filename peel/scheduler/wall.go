package scheduler

import (
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
)

// wall is the rhythm of cron, of fixed times and of intervals from the epoch. It follows the wall clock. An entry without
// a timing has it, and never fires by it.
type wall struct{}

func (wall) onWall() bool { return true }

func (wall) activate(*entry, instant) {}

// next returns the first nominal time after now. While the wall clock is set back by up to setBackLimit, times that have
// fired do not fire again.
func (wall) next(_ *owner, e *entry, now instant) (int64, bool) {
	after := now.wall
	if ahead := e.Nominal.Sub(after); ahead > 0 && ahead <= setBackLimit && !e.firesAgainAfterSetBack(ahead) {
		after = e.Nominal
	}
	if start := e.spec.Life.NotBefore; after.Before(start) {
		after = start.Add(-1)
	}
	nominal, ok := e.timing.Next(after)
	return nominal.UnixNano(), ok && e.mayFire(nominal)
}

// onFire makes a fire stand for the newest nominal time that has passed by now and is within the start deadline, of a
// minute at the least, as a fire may be noticed so late. It reports false if there is none, or if the entry owes the fire
// as a catch-up run.
func (wall) onFire(o *owner, e *entry, p pending, f *Fire, now instant) bool {
	e.anchor = now.up
	return p.trigger != history.TriggerTimer || o.settleLate(e, f, o.time(p, p.at), now)
}

// settleLate is onFire for a fire of the timing that was due at a time.
func (o *owner) settleLate(e *entry, f *Fire, due time.Time, now instant) bool {
	deadline := max(e.spec.Missed.StartDeadline, maxSleep)
	from, missed, ok := f.Nominal, 0, true
	if f.Started.Sub(due) > deadline {
		if o.owe(e, f.Nominal.Add(-1), now) {
			f.Nominal = e.Owed[len(e.Owed)-1]
			return false
		}
		o.skip(e, skipped{history.DeadlineExceeded, f.Nominal, 1})
		from, ok = f.Started.Add(-deadline-1), false
	}
	first := f.Nominal
	for {
		t, more := e.timing.Next(from)
		if !more || t.After(f.Started) || !e.mayFire(t) {
			break
		}
		if ok {
			missed++
		} else {
			first = t
		}
		from, f.Nominal, ok = t, t.In(o.s.o.Zone), true
	}
	if missed > 0 {
		o.skip(e, skipped{history.Superseded, first, missed})
	}
	return ok
}

func (wall) onEnd(_ *owner, e *entry, end instant) { e.anchor = end.up }

func (wall) isOverdue(*entry, instant) bool { return false }

func (wall) missedFrom(_ *entry, from time.Time, _ instant) time.Time { return from }

func (wall) alignedStart(_ *entry, from, to time.Time, back time.Duration) time.Time {
	if start := to.Add(-back); start.After(from) {
		return start
	}
	return from
}

func (wall) firstFrom(e *entry, _, from time.Time) (time.Time, bool) {
	return e.timing.Next(from.Add(-1))
}

// firesAgainAfterSetBack reports whether the entry, whose last fire lies so far ahead since the wall clock was set back, fires by the new
// time: cron that follows elapsed time does, unless waiting costs it no more than a minute.
func (e *entry) firesAgainAfterSetBack(ahead time.Duration) bool {
	return e.timing.Wild() && ahead >= time.Minute
}
