package coverage

import (
	"cmp"
	"slices"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
)

// Runs returns the newest runs of the entries that match accepts, by entry and peel: one of each peel that has the entry in its
// settings, also if it has never reported a run. Entries of peel.yaml are not among them. Ask [Table.Health] first.
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
			run := verdict.Run{
				Entry: name, Peel: p.id, Started: at(int64(r.started)), Ended: at(int64(r.ended)), Failed: r.exit != 0, Running: r.is&running != 0,
			}
			if r.exit != noExit {
				run.Exit = int(r.exit)
			}
			list = append(list, run)
		}
	}
	slices.SortFunc(list, func(a, b verdict.Run) int { return cmp.Or(cmp.Compare(a.Entry, b.Entry), cmp.Compare(a.Peel, b.Peel)) })
	return list
}
