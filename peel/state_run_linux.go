package peel

import (
	"github.com/seed-c01c3da5/zester/peel/state"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// reportStateRun stores the report on a run of all states; announce sends it.
func (p *Peel) reportStateRun(r *state.Result) {
	data, err := canon.Marshal(stateRun(p, r))
	if err == nil {
		err = p.stateRun.store(data)
	}
	if err != nil {
		p.log.Error("run of states not reported", "err", err)
		return
	}
	p.stateRunDue.raise()
}

// stateRun returns the report on a run whose result is masked.
func stateRun(p *Peel, r *state.Result) wire.StateRun {
	run := wire.StateRun{
		Peel: p.o.ID, Commit: string(r.Commit), Digest: string(r.Digest), Test: r.Test, Time: r.Time.UTC(),
		Counts: make(map[string]int, len(r.Counts)), Owed: r.Owed[:min(len(r.Owed), wire.MaxReported)], V: wire.Version,
	}
	for verdict, n := range r.Counts {
		run.Counts[string(verdict)] = n
	}
	var failed, others []wire.StateOutcome
	for _, o := range r.Brief().States {
		s := wire.StateOutcome{State: o.State, Result: string(o.Result), Cause: string(o.Cause)}
		if o.Result == state.Failed {
			s.Error = cut(o.Comment)
			failed = append(failed, s)
		} else {
			others = append(others, s)
		}
	}
	run.States = append(failed, others...)
	run.States = run.States[:min(len(run.States), wire.MaxReported)]
	return run
}
