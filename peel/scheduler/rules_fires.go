package scheduler

import (
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
)

// Write writes what became of a fire into the list of the entry, and returns it as it is there. A fire without an era
// is the one that is pending, else one of the present era.
func (e *Entry) Write(f ledger.Fire) ledger.Fire {
	if f.Era == 0 {
		f = e.written(f)
	}
	e.List.Put(f)
	e.Unsaved = append(e.Unsaved, f)
	if e.Wrote != nil {
		e.Wrote(f)
	}
	if f.Class != ledger.Hand && f.Outcome != ledger.Skipped && (f.Outcome != ledger.Pending || f.Late || f.Overran) {
		e.newest = Newest{max(f.Outcome, ledger.Ran), f.Late, f.Overran}
	}
	return f
}

// written gives a fire the era and nominal time of the one that is pending in the list, and the present era if there is
// none. The nominal time of an interval is computed from the clocks, which may be corrected by less than a second while
// it is pending.
func (e *Entry) written(f ledger.Fire) ledger.Fire {
	for _, apart := range []time.Duration{0, -time.Second, time.Second} {
		p, ok := e.List.Pending(f.Class, f.Nominal.Add(apart))
		if ok && (apart == 0 || p.Why == ledger.Splay) {
			f.Era, f.Nominal = p.Era, p.Nominal
			return f
		}
		if e.Rhythm.OnWall() {
			break
		}
	}
	f.Era = e.Peel.Era()
	return f
}

// NotRun writes into the list that a fire of the timing does not run.
func (e *Entry) NotRun(nominal time.Time, why ledger.Reason) {
	e.WriteNotRun(ledger.Fire{Class: ledger.Timer, Nominal: ledger.At(nominal)}, why)
}

// WriteNotRun writes into the list that a fire does not run.
func (e *Entry) WriteNotRun(f ledger.Fire, why ledger.Reason) {
	f.Outcome, f.Why = ledger.Skipped, why
	if why.IsMissed() {
		f.Outcome = ledger.Missed
	}
	e.Write(f)
}

// WritePending writes into the list that a fire waits, and returns it.
func (e *Entry) WritePending(f ledger.Fire, why ledger.Reason) ledger.Fire {
	f.Outcome, f.Why = ledger.Pending, why
	return e.Write(f)
}

// MarkBegins marks that the entry is active from a time on, unless it was with the same timing. anew says that the same
// timing has other times than before.
func (e *Entry) MarkBegins(at time.Time, anew bool) {
	m := ledger.Mark{Kind: ledger.Begins, Era: e.Peel.Era(), At: at.UTC(), Timing: ledger.TimingOf(e.TimingHash)}
	if last := e.lastMark(); last.Kind == m.Kind && last.Timing == m.Timing && !anew {
		return
	}
	if e.List.From.IsZero() {
		e.List.From = ledger.At(at)
	}
	e.List.Mark(m)
}

// MarkRests marks that the entry is not active from a time on.
func (e *Entry) MarkRests(at time.Time, why ledger.Reason) {
	if e.lastMark().Kind != ledger.Begins {
		return
	}
	m := ledger.Mark{Kind: ledger.Rests, Era: e.Peel.Era(), At: at.UTC(), Why: why}
	if e.Paused != nil {
		m.By = e.Paused.By
	}
	e.List.Mark(m)
}

func (e *Entry) lastMark() ledger.Mark {
	if n := len(e.List.Marks); n > 0 {
		return e.List.Marks[n-1]
	}
	return ledger.Mark{}
}
