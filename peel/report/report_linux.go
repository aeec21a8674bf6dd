package report

import (
	"github.com/seed-c01c3da5/zester/peel/state"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// StateRunOf returns the report of a peel on a run whose result is masked. last is the report on the run before, a zero
// one if there was none.
func StateRunOf(peel target.PeelID, r *state.Result, last wire.StateRun) wire.StateRun {
	run := wire.StateRun{
		Peel: peel, Commit: string(r.Commit), Digest: string(r.Digest), Test: r.Test, Time: r.Time.UTC(),
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
			s.Error = ErrorText(o.Comment)
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
	markFailedBefore(&run, &last)
	return run
}

// markFailedBefore marks the failed states of run that also failed in the newest run of other settings. last is the
// report on the run before: of other settings, or with their failed states marked.
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
