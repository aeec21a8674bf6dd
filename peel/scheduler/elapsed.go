package scheduler

import (
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// elapsed is the rhythm of intervals from the end or the start of a run. It counts elapsed time from the entry's
// anchor.
type elapsed struct{}

func (elapsed) OnWall() bool { return false }

// Activate keeps the rhythm of the last run.
func (elapsed) Activate(e *Entry, now Instant) { e.keepRhythm(now) }

// fromStart reports whether the entry's interval counts from nominal time to nominal time.
func fromStart(e *Entry) bool { return e.Spec.Clock.IntervalFrom == schedule.FromStart }

func (elapsed) Next(e *Entry, base, now Instant) (int64, bool) {
	nominal := e.Anchor + e.period(now)
	if ahead := e.Spec.Life.NotBefore.Sub(now.Wall); !e.Spec.Life.NotBefore.IsZero() {
		nominal = max(nominal, now.Up+ahead)
	}
	return int64(nominal), e.MayFire(base.At(nominal))
}

// OnFire moves the anchor to the fire, or to now if more than one period has passed. An interval from start to start
// keeps to its nominal times.
func (elapsed) OnFire(e *Entry, p Pending, now Instant) {
	switch {
	case p.OnWall: // held
		e.Anchor = now.Up
	case fromStart(e) && p.Trigger == wire.TriggerTimer:
		e.Anchor = time.Duration(p.Nominal)
		e.keepRhythm(now)
	default:
		e.Anchor = time.Duration(p.At)
		if now.Up-e.Anchor >= e.period(now) {
			e.Anchor = now.Up
		}
	}
}

// OnEnd counts the interval from the end of the run. An interval from start to start goes on as it was.
func (elapsed) OnEnd(e *Entry, end Instant) bool {
	if e.Spec != nil && fromStart(e) {
		return false
	}
	e.Anchor = end.Up
	return e.IsActive() && !e.Next.Held && e.Next.Trigger != wire.TriggerStart && e.Next.Trigger != wire.TriggerNeeds
}

func (elapsed) IsOverdue(e *Entry, now Instant) bool { return e.Anchor+e.period(now) <= now.Up }

func (elapsed) MissedFrom(e *Entry, from time.Time, now Instant) time.Time {
	return elapsed{}.alignedStart(e, now.At(e.Anchor), from, 0)
}

// alignedStart returns a time, at most back before to, from which the timing gives the nominal times that it gives from
// from. Months have no such time.
func (elapsed) alignedStart(e *Entry, from, to time.Time, back time.Duration) time.Time {
	start, period := to.Add(-back), e.Spec.Clock.Interval.Duration
	if period <= 0 || !start.After(from) {
		return from
	}
	return from.Add(start.Sub(from) / period * period)
}

func (elapsed) firstFrom(e *Entry, at, from time.Time) (time.Time, bool) {
	if period := e.Spec.Clock.Interval.Duration; period > 0 {
		return at.Add((from.Sub(at) + period - 1) / period * period), true
	}
	return e.Timing.Next(at)
}

// period returns the interval that begins at the anchor.
func (e *Entry) period(now Instant) time.Duration {
	from := now.Wall.Add(e.Anchor - now.Up)
	to, _ := e.Timing.Next(from) // an interval never ends
	return to.Sub(from)
}

// keepRhythm moves the anchor by whole periods until the next one ends in the future.
func (e *Entry) keepRhythm(now Instant) {
	for {
		behind, period := now.Up-e.Anchor, e.period(now)
		switch {
		case behind < period:
			return
		case e.Spec.Clock.Interval.Months > 0:
			e.Anchor += period // the next month may be shorter
		default:
			e.Anchor += behind / period * period
		}
	}
}
