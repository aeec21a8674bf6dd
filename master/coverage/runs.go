package coverage

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Runs returns the newest runs of the entries that match accepts, by entry and peel: one of each peel that has the
// entry in its settings, also if it has never reported a run. Entries of peel.yaml are not among them, and runs by
// hand are left out as far as reports note the runs before them. Ask [Table.Health] first.
func (t *Table) Runs(match func(entry string) bool) []verdict.Run {
	t.mu.Lock()
	defer t.mu.Unlock()
	wanted := map[string]bool{}
	var list []verdict.Run
	for _, p := range t.peels {
		for i := range p.rows {
			r := &p.rows[i]
			name := r.name.Value()
			want, known := wanted[name]
			if !known {
				want = match(name)
				wanted[name] = want
			}
			if !want || p.document.spec(name) == nil {
				continue
			}
			list = append(list, p.run(r))
		}
	}
	sorting.Func(list, func(a, b verdict.Run) int {
		return cmp.Or(cmp.Compare(a.Entry, b.Entry), cmp.Compare(a.Peel, b.Peel))
	})
	return list
}

// LastRun returns the newest run of an entry on a peel, as [Table.Runs] does. It returns false if the settings of the
// peel do not have the entry.
func (t *Table) LastRun(entry string, id target.PeelID) (run verdict.Run, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peels[id.Wire()]
	if p == nil || p.document.spec(entry) == nil {
		return run, false
	}
	for i := range p.rows {
		if p.rows[i].name.Value() == entry {
			return p.run(&p.rows[i]), true
		}
	}
	return run, false
}

func (p *peel) run(r *row) verdict.Run {
	name := r.name.Value()
	run := verdict.Run{
		Entry: name, Peel: p.id, Started: at(int64(r.started)), Ended: at(int64(r.ended)),
		Failed: r.exit != 0, Exit: exitCode(r.exit), Running: r.is&running != 0,
	}
	for _, e := range p.noted[name] {
		if e.At.Before(run.Ended) {
			run.Before = append(run.Before, e)
		}
	}
	return run
}

// exitCode returns the exit code of a row's field exit; 0 if there was none.
func exitCode(exit uint8) int {
	if exit == noExit {
		return 0
	}
	return int(exit)
}

// lastFire returns how the last run went that no person asked for, if a run by hand followed it and the report notes
// it; else how the last run went.
func lastFire(e *ledger.EntryReport) ledger.RunState {
	last := e.RunState
	if n := len(e.Notes); n == 0 || e.Notes[n-1].Class != ledger.Hand || !e.Notes[n-1].Started.Equal(e.Started) {
		return last
	}
	for _, n := range slices.Backward(e.Notes) {
		if n.Class == ledger.Hand || n.Ended().IsZero() {
			continue
		}
		last.Started, last.Ended, last.Error = n.Started, n.Ended(), n.Error
		if last.Succeeded = (time.Time{}); n.Outcome == ledger.Ran {
			last.Succeeded = n.Ended()
		}
		return last
	}
	return last
}

// note keeps the runs of an entry that a report notes, in the order of their ends, without those by hand.
func (t *Table) note(p *peel, name string, e *ledger.EntryReport) {
	if t.o.Noted == nil || !t.o.Noted(name) {
		return
	}
	var list []verdict.Ended
	for i := range e.Notes {
		n := &e.Notes[i]
		if n.Class == ledger.Hand || n.Ended().IsZero() {
			continue
		}
		exit := exitOf(n.Outcome == ledger.Ran, n.Error)
		ended := n.Ended().Truncate(time.Second).UTC()
		list = append(list, verdict.Ended{At: ended, Failed: exit != 0, Exit: exitCode(exit)})
	}
	sorting.Stable(list, func(a, b verdict.Ended) int { return a.At.Compare(b.At) })
	if p.noted == nil {
		p.noted = map[string][]verdict.Ended{}
	}
	p.noted[name] = list
}
