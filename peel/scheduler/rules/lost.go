package rules

import (
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
)

// A Span is the times (From, To].
type Span struct{ From, To time.Time }

// Has reports whether a time is in the span.
func (s Span) Has(at time.Time) bool { return at.After(s.From) && !at.After(s.To) }

// JumpOf returns the times over which a step set the wall clock forward, empty if it was set back. No host has lived them, so
// nothing was missed there. The step was noticed at now, elapsed after the clocks were last compared: the clock may have been set
// at any time since, but at most atMost ago, because after a suspend it is set at the end.
func JumpOf(step, elapsed, atMost time.Duration, now time.Time) Span {
	if step <= 0 {
		return Span{}
	}
	return Span{From: now.Add(-step - min(elapsed, atMost)), To: now}
}

// Lost returns the nominal times in (from, to], which did not lead to a run. Of more than 100,000 it returns the newest, at least
// half of that number.
func (e *Entry) Lost(from, to time.Time) []time.Time {
	if limit := to.Add(-LongAgo); from.Before(limit) {
		from = limit
	}
	var list []time.Time
	for back := time.Hour; ; back *= 2 {
		start := e.Rhythm.alignedStart(e, from, to, back)
		var longer []time.Time
		for at := range e.Timing.Between(start, to) {
			if len(longer) == maxChecked {
				return list
			}
			if e.MayFire(at) {
				longer = append(longer, at)
			}
		}
		list = longer
		if !start.After(from) {
			return list
		}
	}
}

// WhyLost returns why a fire did not run that was lost: the rule that would have kept it from running, or [history.Missed]. jump is
// the times over which the wall clock was set.
func (e *Entry) WhyLost(nominal time.Time, replaced, jump Span) history.Reason {
	switch why := e.ClosedBy(nominal); {
	case why != "":
		return why
	case replaced.Has(nominal):
		return history.Superseded
	case !e.BreakerAllows(nominal):
		return history.CircuitOpen
	case jump.Has(nominal):
		return history.ClockSet
	}
	return history.Missed
}

// Coalesces returns the time after which the nominal times of an interval are lost that are not after now, if its fire at nominal,
// due at due, starts now: an interval from the end of a run counts on from that run.
func (e *Entry) Coalesces(nominal, due time.Time) time.Time {
	if fromStart(e) {
		return nominal
	}
	return due
}

// Latest returns the time by which the run of a fire that is due at due must have started to be neither missed nor late: the
// start deadline after due, at least atLeast, or late_after after the nominal time if that is earlier.
func (e *Entry) Latest(nominal, due time.Time, atLeast time.Duration) time.Time {
	latest := due.Add(max(e.Spec.Missed.StartDeadline, atLeast))
	if limit := e.Spec.Missed.LateAfter; limit > 0 && nominal.Add(limit).Before(latest) {
		latest = nominal.Add(limit)
	}
	if latest.Before(due) {
		return due
	}
	return latest
}

// A Class is what reports on an entry are sent for at once, when it changes.
type Class struct {
	Active, Enabled bool
	Breaker         history.BreakerState
	Failing         bool   // the last run failed
	Newest          string // result of the newest fire
}

// Class returns the class of the entry.
func (e *Entry) Class() Class {
	if e.Spec == nil {
		return Class{}
	}
	return Class{e.IsActive(), e.IsEnabled(), e.Breaker.State(), e.FailuresInRow > 0, e.Tally.Newest}
}
