package scheduler

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// beginEra adds a mark of the peel. What is written from now on is of its era.
func (o *owner) beginEra(m ledger.Mark) {
	o.marks = o.marks.Add(m)
	for _, e := range o.entries {
		e.Peel = o.marks
	}
}

// starts returns the mark of the start of the process.
func (o *owner) starts(now Instant) ledger.Mark {
	m, last := o.moment(now), o.s.loaded.Moment
	mark := ledger.Mark{Kind: ledger.Starts, At: now.Wall.UTC(), Boot: m.Boot}
	if !last.Wall.IsZero() {
		mark.Old = last.Wall.UTC()
		mark.Step, mark.Known = m.StepSince(last)
	}
	return mark
}

// moment returns what the clocks of the host show.
func (o *owner) moment(now Instant) Moment {
	m := Moment{Wall: now.Wall, Zone: o.zone}
	if o.s.o.Boot != nil {
		m.Boot, m.Up = o.s.o.Boot()
	}
	return m
}

// describe returns how far a zone is ahead of UTC at the beginning of each month of a year, in seconds. Zones in which
// it is the same have the same times.
func describe(zone *time.Location, year int) string {
	var text []string
	for month := time.January; month <= time.December; month++ {
		_, offset := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).In(zone).Zone()
		text = append(text, strconv.Itoa(offset))
	}
	return strings.Join(text, " ")
}

// fireOf returns the next fire of an entry as it is in the list, or as it will be.
func (o *owner) fireOf(e *entry) ledger.Fire {
	p := e.Next
	if p.Listed.Era > 0 {
		return p.Listed
	}
	return ledger.Fire{Era: e.Peel.Era(), Class: ledger.ClassOf(p.Trigger), Nominal: ledger.At(o.time(p, p.Nominal))}
}

// byHand returns the fire of a run that a person asks for. Two within a second have different nominal times.
func (e *entry) byHand(at time.Time) ledger.Fire {
	f := ledger.Fire{Era: e.Peel.Era(), Class: ledger.Hand, Nominal: ledger.At(at)}
	for e.List.Has(f.Era, f.Class, f.Nominal) {
		f.Nominal = f.Nominal.Add(time.Second)
	}
	return f
}

// listRun writes into the list how a run goes.
func (r *run) listRun(outcome ledger.Outcome, why ledger.Reason) {
	f := r.fire.listed
	f.Outcome = outcome
	f.Why = why
	f.Late = r.fire.Late
	f.Overran = r.overran || r.timedOut
	r.e.Write(f)
}

// endLeft decides what the last process left pending in the list of an entry, and nothing in this process waits for.
func (o *owner) endLeft(e *entry) {
	waits := []ledger.Fire{e.Next.Listed}
	if e.Waiting != nil {
		waits = append(waits, e.Waiting.Fire())
	}
	for _, r := range e.runs {
		waits = append(waits, r.fire.listed)
	}
	for _, f := range slices.Collect(e.List.All()) {
		is := func(other ledger.Fire) bool {
			return other.Era == f.Era && other.Class == f.Class && other.Nominal.Equal(f.Nominal)
		}
		owed := f.Class == ledger.Timer &&
			slices.ContainsFunc(e.Owed, func(at time.Time) bool { return ledger.At(at).Equal(f.Nominal) })
		switch {
		case f.Outcome != ledger.Pending || slices.ContainsFunc(waits, is) || owed:
		case f.Why == ledger.Runs:
			f.Outcome, f.Why = ledger.Interrupted, ""
			e.Write(f)
		default:
			e.WriteNotRun(f, ledger.Down)
		}
	}
}

// lose writes into the list what became of the fires of a loss until now. Those that the clock was set over are left
// out. An entry with max_runs has fires until its last run: a fire that was missed is no run.
func (o *owner) lose(e *entry, l Loss, now Instant) {
	if e.hasAllRuns() {
		return
	}
	l.To = now.Wall
	if o.clocks.SetAt.After(l.After) {
		l.After = o.clocks.SetAt
	}
	if l.Missed == "" {
		l.Missed = ledger.DeadlineExceeded
	}
	e.Lose(l)
	o.note(e)
}

// settleHeld decides the fires since one that is held until the windows open. It runs for all of them.
func (o *owner) settleHeld(e *entry, now Instant) {
	if !e.Next.Held || !e.Rhythm.OnWall() {
		return
	}
	from := o.heldFrom(e, e.Next.Listed, o.time(e.Next, e.Next.Nominal))
	o.lose(e, Loss{From: from, Replaced: Span{From: from, To: now.Wall}}, now)
	o.Dirty = true
}

// heldFrom returns the time after which a fire that is held takes the place of others: its nominal time, or when the
// clock was set back since.
func (o *owner) heldFrom(e *entry, f ledger.Fire, nominal time.Time) time.Time {
	if set := o.clocks.SetAt; f.Era < e.Peel.Era() && !set.IsZero() {
		return earlier(nominal, set)
	}
	return nominal
}

// noteOverruns marks the runs of an entry that are in flight when its next fire is due.
func (o *owner) noteOverruns(e *entry, nominal time.Time) {
	if e.ClosedBy(nominal) != "" {
		return
	}
	for _, r := range e.runs {
		if !r.overran && r.fire.Trigger != wire.TriggerManual {
			r.overran = true
			r.listRun(ledger.Pending, ledger.Runs)
			o.note(e)
		}
	}
}
