package scheduler

import (
	"math"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/peel/scheduler/rules"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// lose counts the fires with nominal times in (from, now] apart from some of them. They did not run. Those in replaced were due
// together with a fire that took their place.
func (o *owner) lose(e *entry, from time.Time, replaced rules.Span, now rules.Instant, some []time.Time) {
	left := e.runsLeft()
	for _, at := range e.Lost(from, now.Wall) {
		if left == 0 { // it would never have fired
			break
		}
		why := e.WhyLost(at, replaced, o.jump)
		if why == history.Missed {
			left--
		}
		if !slices.ContainsFunc(some, at.Equal) {
			e.Tally.NotRun(at, why)
		}
	}
	o.note(e)
}

// runsLeft returns how many more runs the timing may give the entry.
func (e *entry) runsLeft() uint64 {
	limit := e.MaxRuns()
	if limit == 0 {
		return math.MaxUint64
	}
	return limit - min(limit, e.allRuns())
}

// dropStored counts and removes the fires that an entry keeps over a restart. Those that are owed were missed.
func (o *owner) dropStored(e *entry, why history.Reason) {
	for _, at := range e.Owed {
		e.Tally.NotRun(at, history.Missed)
	}
	if e.Waiting != nil && !slices.Contains(o.waiting, e) {
		if e.Waiting.Trigger != history.TriggerManual {
			e.Tally.NotRun(e.Waiting.Nominal, why)
		}
		e.Waiting = nil
	}
	if !e.Held.IsZero() && e.Next.Trigger == "" {
		e.Tally.NotRun(e.Held, why)
	}
	e.Owed, e.Held = nil, time.Time{}
}

// noteOverruns marks the runs of an entry that are in flight when its next fire is due.
func (o *owner) noteOverruns(e *entry, nominal time.Time) {
	if e.ClosedBy(nominal) != "" {
		return
	}
	for _, r := range e.runs {
		if !r.overran && r.fire.Trigger != history.TriggerManual {
			r.overran = true
			o.noteRun(e, r.fire, history.ResultOverran)
		}
	}
}

// noteRun notes what is wrong with a run that has not ended.
func (o *owner) noteRun(e *entry, f Fire, result string) {
	e.Tally.Newest = result
	e.Tally.Note(wire.FireReport{Nominal: f.Nominal, Started: f.Started, Result: result})
	o.note(e)
}

// pending returns the nominal times of the fires that are not in the entry's tally yet, although they have passed.
func (o *owner) pending(e *entry, now rules.Instant) (list []time.Time) {
	for _, r := range e.runs {
		if r.fire.Trigger != history.TriggerManual {
			list = append(list, r.fire.Nominal)
		}
	}
	if e.Waiting != nil && e.Waiting.Trigger != history.TriggerManual {
		list = append(list, e.Waiting.Nominal)
	}
	if e.Next.Splaying(now) {
		list = append(list, o.time(e.Next, e.Next.Nominal))
	}
	return append(list, e.Owed...)
}
