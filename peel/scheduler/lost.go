package scheduler

import (
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
)

// A Loss is a time in which the fires of an entry did not run.
type Loss struct {
	Planned  time.Time     // nominal time of the fire that was due; zero: none was
	From, To time.Time     // the others are in (From, To]
	After    time.Time     // and after this
	Replaced Span          // of fires that were due together with one that took their place
	Except   []time.Time   // nominal times of fires that may still run
	Missed   ledger.Reason // why those were missed that no rule explains
}

// A Span is the times (From, To].
type Span struct{ From, To time.Time }

// Has reports whether a time is in the span.
func (s Span) Has(at time.Time) bool { return at.After(s.From) && !at.After(s.To) }

// Lose writes into the list what became of fires that did not run, of more than 100,000 the newest, at least half of
// that number. Apart from the planned one, those that it has are left out.
func (e *Entry) Lose(l Loss) {
	list := slices.DeleteFunc(e.nominalTimes(l.From, l.To), func(at time.Time) bool {
		return !at.After(l.After) || e.Has(at)
	})
	if !l.Planned.IsZero() {
		list = slices.Insert(list, 0, l.Planned)
	}
	for _, at := range list {
		if !slices.ContainsFunc(l.Except, at.Equal) {
			e.NotRun(at, e.whyLost(at, l))
		}
	}
}

// Has reports whether the list says what became of a fire of the timing.
func (e *Entry) Has(at time.Time) bool {
	return e.has(at, func(ledger.Outcome) bool { return true })
}

// hasRun reports whether a fire of the timing has run, or still may. Of the present era each outcome counts.
func (e *Entry) hasRun(at time.Time) bool {
	return e.has(at, func(o ledger.Outcome) bool { return o != ledger.Skipped && o != ledger.Missed })
}

// has reports whether the list has a fire of the timing in the present era, or one for which is returns true by a clock
// that is at most SetBackLimit from the present one.
func (e *Entry) has(at time.Time, is func(ledger.Outcome) bool) bool {
	for era, outcome := range e.List.Outcomes(ledger.Timer, at) {
		if era == e.Peel.Era() || is(outcome) && e.Peel.Shift(era).Abs() <= SetBackLimit {
			return true
		}
	}
	return false
}

// wasSkipped reports whether the list says that a fire of the timing was skipped in the present era.
func (e *Entry) wasSkipped(at time.Time) bool {
	for era, outcome := range e.List.Outcomes(ledger.Timer, at) {
		if era == e.Peel.Era() && outcome == ledger.Skipped {
			return true
		}
	}
	return false
}

// TakeDelayed returns the fire that waited for its splay when the last process ended, nil if there is none. waits says
// that it still does: until the time that was drawn, also if the splay has been shortened since.
func (e *Entry) TakeDelayed(now time.Time) (d *Delay, waits bool) {
	d, e.Delayed = e.Delayed, nil
	if d == nil || e.has(d.Nominal, func(o ledger.Outcome) bool { return o != ledger.Pending }) {
		return nil, false
	}
	return d, e.Rhythm.OnWall() && !e.Spec.RunOnStart && d.At.After(now)
}

// SkipSince takes the operator's skip if a nominal time of a loss has passed for which it holds, and returns that time.
func (e *Entry) SkipSince(l Loss, to time.Time) (nominal time.Time, ok bool) {
	if e.Skip == nil {
		return time.Time{}, false
	}
	for _, at := range e.nominalTimes(l.From, to) {
		if at.After(l.After) && at.After(e.Skip.At) {
			return at, e.TakeSkip(at)
		}
	}
	return time.Time{}, false
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// nominalTimes returns those in (from, to].
func (e *Entry) nominalTimes(from, to time.Time) []time.Time {
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

// whyLost returns the rule that would have kept a fire from running, or why it was missed.
func (e *Entry) whyLost(nominal time.Time, l Loss) ledger.Reason {
	switch why := e.ClosedBy(nominal); {
	case why != "":
		return why
	case l.Replaced.Has(nominal):
		return ledger.Superseded
	case !e.BreakerAllows(nominal):
		return ledger.CircuitOpen
	}
	return l.Missed
}

// DropStored removes the fires that an entry keeps over a restart, and counts them. Those that are owed were missed.
// waits says that a fire waits for a slot in this process; it stays.
func (e *Entry) DropStored(why ledger.Reason, waits bool) {
	for _, at := range e.Owed {
		e.NotRun(at, ledger.NotMadeUp)
	}
	if w := e.Waiting; w != nil && !waits {
		e.WriteNotRun(w.Fire(), why)
		e.Waiting = nil
	}
	if !e.Held.IsZero() && e.Next.Trigger == "" {
		e.WriteNotRun(e.HeldFire(), why)
	}
	e.Owed, e.Held = nil, time.Time{}
}

// HeldFire returns the fire that was held when the last process ended, as it is in the list, or as it will be.
func (e *Entry) HeldFire() ledger.Fire {
	f := ledger.Fire{Nominal: ledger.At(e.Held)}
	for _, f.Class = range []ledger.Class{ledger.Needs, ledger.Start, ledger.Timer} {
		if p, ok := e.List.Pending(f.Class, f.Nominal); ok {
			return p
		}
	}
	return f
}

// Coalesces returns the time after which the nominal times of an interval are lost that are not after now, if its fire
// at nominal, due at due, starts now: an interval from the end of a run counts on from that run.
func (e *Entry) Coalesces(nominal, due time.Time) time.Time {
	if fromStart(e) {
		return nominal
	}
	return due
}

// Latest returns the time by which the run of a fire that is due at due must have started to be neither missed nor
// late: the start deadline after due, at least atLeast, or late_after after the nominal time if that is earlier.
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
	Breaker         BreakerState
	Failing         bool // the last run failed
	Newest          Newest
	Ran             bool // ever
	// Started and Ended are of the newest run of an entry that a request made, in nanoseconds since the Unix epoch,
	// because its client asks for them. Other entries have none: reports on each run would be too many.
	Started, Ended int64
}

// Class returns the class of the entry.
func (e *Entry) Class() Class {
	if e.Spec == nil {
		return Class{}
	}
	c := Class{
		Active:  e.IsActive(),
		Enabled: e.IsEnabled(),
		Breaker: e.Breaker.State(),
		Failing: e.FailuresInRow > 0,
		Newest:  e.newest,
		Ran:     e.Runs > 0,
	}
	if e.Spec.API.ID > 0 {
		c.Started, c.Ended = e.Started.UnixNano(), e.Ended.UnixNano()
	}
	return c
}
