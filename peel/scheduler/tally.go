package scheduler

import (
	"math"
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/peel/scheduler/rules"
)

// lose counts the fires with nominal times in (from, now] apart from some of them. They did not run. Those in replaced were due
// together with a fire that took their place.
func (o *owner) lose(e *entry, from time.Time, replaced rules.Span, now rules.Instant, some []time.Time) {
	left := uint64(math.MaxUint64) // runs that the timing may still give the entry
	if limit := e.MaxRuns(); limit > 0 {
		left = limit - min(limit, e.allRuns())
	}
	e.Lose(rules.Loss{From: from, To: now.Wall, Replaced: replaced, Jump: o.clocks.Jump, Except: some, RunsLeft: left})
	o.note(e)
}

// noteOverruns marks the runs of an entry that are in flight when its next fire is due.
func (o *owner) noteOverruns(e *entry, nominal time.Time) {
	if e.ClosedBy(nominal) != "" {
		return
	}
	for _, r := range e.runs {
		if !r.overran && r.fire.Trigger != history.TriggerManual {
			r.overran = true
			e.Tally.Begun(r.fire.Nominal, r.fire.Started, history.ResultOverran)
			o.note(e)
		}
	}
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
