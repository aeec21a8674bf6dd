package peel

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/google/renameio/v2"

	"github.com/seed-c01c3da5/zester/peel/state"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// A stateRunFile holds the encoded report on the newest run of all states, so that a restart does not lose it while the bus
// cannot be reached.
type stateRunFile struct {
	path string
	mu   sync.Mutex
}

func (f *stateRunFile) store(report []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return renameio.WriteFile(f.path, report, 0o600)
}

// newest returns the report, nil if there was no run.
func (f *stateRunFile) newest() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	data, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

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

// sendStateRun reports whether the report has to be sent again.
func (p *Peel) sendStateRun(send func(subject string, data []byte) bool) (again bool) {
	data, err := p.stateRun.newest()
	if err != nil {
		p.log.Error("report on the newest run of states cannot be read", "err", err)
	}
	return len(data) > 0 && !send(wire.StateRunOf(p.o.ID.Wire()), data)
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
	named := slices.Clone(r.Brief().States)
	failedFirst := func(o state.Outcome) int {
		if o.Result == state.Failed {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(named, func(a, b state.Outcome) int { return cmp.Compare(failedFirst(a), failedFirst(b)) })
	for _, o := range named[:min(len(named), wire.MaxReported)] {
		s := wire.StateOutcome{State: o.State, Result: string(o.Result), Cause: string(o.Cause)}
		if o.Result == state.Failed {
			s.Error = cut(o.Comment)
		}
		run.States = append(run.States, s)
	}
	return run
}
