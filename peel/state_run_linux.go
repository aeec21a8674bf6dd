package peel

import (
	"github.com/seed-c01c3da5/zester/peel/state"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// reportStateRun stores the report on a run of all states; announce sends it.
func (p *Peel) reportStateRun(r *state.Result) {
	run := stateRun(p, r)
	last, err := p.lastStateRun()
	if err != nil {
		p.log.Error("report on the last run of states cannot be read: its failed states count as new", "err", err)
	}
	markFailedBefore(&run, &last)
	data, err := canon.Marshal(run)
	if err == nil {
		err = p.stateRun.store(data)
	}
	if err != nil {
		p.log.Error("run of states not reported", "err", err)
		return
	}
	p.stateRunDue.raise()
}

// lastStateRun returns the stored report, a zero one if there is none.
func (p *Peel) lastStateRun() (last wire.StateRun, err error) {
	data, err := p.stateRun.newest()
	if err == nil && len(data) > 0 {
		err = canon.Unmarshal(data, &last)
	}
	return last, err
}

// markFailedBefore marks the failed states of run that also failed in the newest run of other settings. last is the report on the
// run before: of other settings, or with their failed states marked.
func markFailedBefore(run, last *wire.StateRun) {
	before := map[string]bool{}
	for _, s := range last.States {
		before[s.State] = s.Result == string(state.Failed) && (s.Before || last.Digest != run.Digest)
	}
	for i := range run.States {
		s := &run.States[i]
		s.Before = s.Result == string(state.Failed) && before[s.State]
	}
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
	for _, o := range r.States {
		if o.Reason == state.Canceled {
			run.Canceled++
		}
	}
	var failed, drifted, others []wire.StateOutcome
	for _, o := range r.Brief().States {
		s := wire.StateOutcome{State: o.State, Result: string(o.Result), Cause: string(o.Cause)}
		if o.Result == state.Failed {
			s.Error = cut(o.Comment)
		}
		switch {
		case o.Result == state.Failed:
			failed = append(failed, s)
		case o.Cause == state.Drift:
			drifted = append(drifted, s)
		default:
			others = append(others, s)
		}
	}
	run.States = append(append(failed, drifted...), others...)
	run.States = run.States[:min(len(run.States), wire.MaxReported)]
	return run
}
