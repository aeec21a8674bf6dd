package scheduler

import (
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// elapsed is the rhythm of intervals from the end or the start of a run. It counts elapsed time from the entry's anchor.
type elapsed struct{}

func (elapsed) onWall() bool { return false }

// activate keeps the rhythm of the last run.
func (elapsed) activate(e *entry, now instant) { e.keepRhythm(now) }

// fromStart reports whether the entry's interval counts from nominal time to nominal time.
func fromStart(e *entry) bool { return e.spec.Clock.IntervalFrom == schedule.FromStart }

func (elapsed) next(o *owner, e *entry, now instant) (int64, bool) {
	nominal := e.anchor + e.period(now)
	if ahead := e.spec.Life.NotBefore.Sub(now.wall); !e.spec.Life.NotBefore.IsZero() {
		nominal = max(nominal, now.up+ahead)
	}
	return int64(nominal), e.mayFire(o.wallAt(nominal))
}

// onFire moves the anchor to the fire, or to now if more than one period has passed. An interval from start to start
// keeps to its nominal times.
func (elapsed) onFire(_ *owner, e *entry, p pending, _ *Fire, now instant) bool {
	switch {
	case p.onWall: // held
		e.anchor = now.up
	case fromStart(e) && p.trigger == history.TriggerTimer:
		e.anchor = time.Duration(p.nominal)
		e.keepRhythm(now)
	default:
		e.anchor = time.Duration(p.at)
		if now.up-e.anchor >= e.period(now) {
			e.anchor = now.up
		}
	}
	return true
}

// onEnd counts the interval from the end of the run, and plans the next fire by it.
func (elapsed) onEnd(o *owner, e *entry, end instant) {
	if e.spec != nil && fromStart(e) {
		return
	}
	e.anchor = end.up
	if !e.active() || e.next.held || e.next.trigger == history.TriggerStart || e.next.trigger == history.TriggerNeeds {
		return
	}
	if e.next.splaying(end) {
		o.skip(e, skipped{history.Superseded, o.time(e.next, e.next.nominal), 1})
	}
	o.plan(e, end)
}

func (elapsed) isOverdue(e *entry, now instant) bool { return e.anchor+e.period(now) <= now.up }

func (elapsed) missedFrom(e *entry, from time.Time, now instant) time.Time {
	if anchor := now.wall.Add(e.anchor - now.up); !e.Started.IsZero() && anchor.After(from) {
		return anchor
	}
	return from
}

// alignedStart returns a time, at most back before to, from which the timing gives the nominal times that it gives from
// from. Months have no such time.
func (elapsed) alignedStart(e *entry, from, to time.Time, back time.Duration) time.Time {
	start, period := to.Add(-back), e.spec.Clock.Interval.Duration
	if period <= 0 || !start.After(from) {
		return from
	}
	return from.Add(start.Sub(from) / period * period)
}

func (elapsed) firstFrom(e *entry, at, from time.Time) (time.Time, bool) {
	if period := e.spec.Clock.Interval.Duration; period > 0 {
		return at.Add((from.Sub(at) + period - 1) / period * period), true
	}
	return e.timing.Next(at)
}

// period is the interval that begins at the anchor.
func (e *entry) period(now instant) time.Duration {
	from := now.wall.Add(e.anchor - now.up)
	to, _ := e.timing.Next(from) // an interval never ends
	return to.Sub(from)
}

// keepRhythm moves the anchor by whole periods until the next one ends in the future.
func (e *entry) keepRhythm(now instant) {
	for {
		behind, period := now.up-e.anchor, e.period(now)
		switch {
		case behind < period:
			return
		case e.spec.Clock.Interval.Months > 0:
			e.anchor += period // the next month may be shorter
		default:
			e.anchor += behind / period * period
		}
	}
}
