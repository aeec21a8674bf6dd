package rules

import (
	"math"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
)

// A Loss is a time in which the fires of an entry did not run.
type Loss struct {
	Planned  time.Time     // nominal time of the fire that was due; zero: none was
	From, To time.Time     // the others are in (From, To]
	Replaced history.Span  // of fires that were due together with one that took their place
	Jump     history.Span  // over which the wall clock was set forward
	Except   []time.Time   // nominal times of fires that may still run
	RunsLeft uint64        // runs that the timing may still give the entry
	Missed   ledger.Reason // why those were missed that no rule explains
}

// First returns the time after which the first nominal time of the loss comes.
func (l Loss) First() time.Time {
	if !l.Planned.IsZero() {
		return l.Planned.Add(-1)
	}
	return l.From
}

// Lose adds fires that did not run to the tally, of more than 100,000 the newest, at least half of that number. Apart from the
// planned one, those that it has added before are left out.
func (e *Entry) Lose(l Loss) {
	from := l.From
	if settled := e.Tally.Settled; settled.After(from) {
		from = e.Rhythm.alignedStart(e, from, settled, 0)
	}
	list := e.nominalTimes(from, l.To)
	e.Tally.Settled = later(l.To, e.Tally.Settled)
	if !l.Planned.IsZero() {
		list = slices.Insert(list, 0, l.Planned)
	}
	for _, at := range list {
		if l.RunsLeft == 0 { // it would never have fired
			return
		}
		why := e.whyLost(at, l)
		if why.IsMissed() {
			l.RunsLeft--
		}
		if why == ledger.ClockSet && !at.After(e.Tally.Shown) {
			continue
		}
		if !slices.ContainsFunc(l.Except, at.Equal) {
			e.NotRun(at, why)
		}
	}
}

// wrongClock is by how much a clock is wrong. Masters take the counts for right of one that is wrong by less.
const wrongClock = 2 * time.Minute

// ClockSet corrects the tally after the wall clock was set by step; it shows now. The clock may have been ahead before, or be behind now:
// fires that were counted as missed, because the process started by a clock that was ahead, were not missed then. Until now they were
// skipped, as the clock was set over them; later ones fire again.
//
// Known gap: what was missed is a guess if the clock was set while the process was down, or from one wrong time to another.
func (e *Entry) ClockSet(step time.Duration, now time.Time) {
	t := &e.Tally
	if t.Settled.After(now) {
		t.Settled = now
	}
	if e.Since.After(now) {
		e.Since = now
	}
	if step.Abs() < wrongClock {
		return
	}
	t.Offset += step
	if step > 0 {
		t.Down = nil // it is not known to have been ahead before
		return
	}
	t.Shown = later(t.Shown, now.Add(-step))
	for _, down := range t.Down {
		for _, at := range e.nominalTimes(later(down.From, down.To.Add(step)), down.To) {
			if e.whyLost(at, Loss{Missed: ledger.Down}).IsMissed() && t.TakeBack(at) && !at.After(now) {
				t.NotRun(at, ledger.ClockSet)
			}
		}
	}
	t.Down = nil
}

// DownSince returns from when on fires may have been missed by a process that was down until now: since the last of which it is known
// what happened. If the clock may have been behind then, those until it was right had other times, and were skipped.
func (e *Entry) DownSince(now time.Time) time.Time {
	t, from := &e.Tally, e.knownUntil()
	if from.After(now) { // the clock was set back while the process was down
		e.ClockSet(now.Sub(from), now)
		t.Unsure = true
		return e.knownUntil()
	}
	right := from.Add(-t.Offset)
	if t.Offset >= 0 || right.After(now) {
		return from
	}
	if t.Unsure {
		right = now
	}
	e.Lose(Loss{From: from, To: right, Jump: history.Span{From: from, To: right}, RunsLeft: math.MaxUint64})
	t.Offset, t.Unsure = 0, false
	return right
}

// TakeDelayed returns the fire that waited for its splay when the last process ended, if it still does.
func (e *Entry) TakeDelayed(now time.Time) (d history.Delay, ok bool) {
	if e.Delayed == nil {
		return d, false
	}
	d, e.Delayed = *e.Delayed, nil
	return d, e.Rhythm.OnWall() && !e.Spec.RunOnStart && d.At.Sub(d.Nominal) <= e.Spec.Splay.Max &&
		!d.Nominal.After(now) && d.At.After(now) && e.knownUntil().Before(d.Nominal)
}

func (e *Entry) knownUntil() time.Time { return later(later(e.Active, e.Nominal), e.Tally.Settled) }

// SkipSince takes the operator's skip if a nominal time in (from, to] has passed for which it holds, and returns that time.
func (e *Entry) SkipSince(from, to time.Time) (nominal time.Time, ok bool) {
	if e.Skip == nil {
		return time.Time{}, false
	}
	for _, at := range e.nominalTimes(from, to) {
		if at.After(e.Skip.At) {
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
	case l.Jump.Has(nominal):
		return ledger.ClockSet
	}
	return l.Missed
}

// DropStored removes the fires that an entry keeps over a restart, and counts them. Those that are owed were missed. waits says that
// a fire waits for a slot in this process; it stays.
func (e *Entry) DropStored(why ledger.Reason, waits bool) {
	for _, at := range e.Owed {
		e.NotRun(at, ledger.NotMadeUp)
	}
	if w := e.Waiting; w != nil && !waits {
		if w.Trigger != history.TriggerManual {
			e.Tally.NotRun(w.Nominal, why)
		}
		e.WriteNotRun(w.Fire(), why)
		e.Waiting = nil
	}
	if !e.Held.IsZero() && e.Next.Trigger == "" {
		e.Tally.NotRun(e.Held, why)
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
	Ran             bool   // ever
	// Started and Ended are of the newest run of an entry that a request made, in nanoseconds since the Unix epoch, because its
	// client asks for them. Other entries have none: reports on each run would be too many.
	Started, Ended int64
}

// Class returns the class of the entry.
func (e *Entry) Class() Class {
	if e.Spec == nil {
		return Class{}
	}
	c := Class{Active: e.IsActive(), Enabled: e.IsEnabled(), Breaker: e.Breaker.State(), Failing: e.FailuresInRow > 0, Newest: e.Tally.Newest, Ran: e.Tally.Total.Ran > 0}
	if e.Spec.API.ID > 0 {
		c.Started, c.Ended = e.Started.UnixNano(), e.Ended.UnixNano()
	}
	return c
}
