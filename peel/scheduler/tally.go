package scheduler

import (
	"math"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/peel/scheduler/rules"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// lose counts the fires of l until now.
func (o *owner) lose(e *entry, l rules.Loss, now rules.Instant) {
	l.To, l.Jump, l.RunsLeft = now.Wall, o.clocks.Jump, math.MaxUint64
	if limit := e.MaxRuns(); limit > 0 {
		l.RunsLeft = limit - min(limit, e.allRuns())
	}
	if l.Missed == "" {
		l.Missed = ledger.DeadlineExceeded
	}
	e.Lose(l)
	o.note(e)
}

// settleHeld counts the fires since one that is held until the windows open. It runs for all of them.
func (o *owner) settleHeld(e *entry, now rules.Instant) {
	if held := o.time(e.Next, e.Next.Nominal); e.Next.Held && e.Rhythm.OnWall() {
		o.lose(e, rules.Loss{From: held, Replaced: history.Span{From: held, To: now.Wall}}, now)
		o.Dirty = true
	}
}

// noteOverruns marks the runs of an entry that are in flight when its next fire is due.
func (o *owner) noteOverruns(e *entry, nominal time.Time) {
	if e.ClosedBy(nominal) != "" {
		return
	}
	for _, r := range e.runs {
		if !r.overran && r.fire.Trigger != history.TriggerManual {
			r.overran = true
			r.listRun(ledger.Pending, ledger.Runs)
			e.Tally.Begun(r.fire.Nominal, r.fire.Started, wire.FireOverran)
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
