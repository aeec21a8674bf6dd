package coverage

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Detail is what the table has of one peel.
type Detail struct {
	Rows     []*Row            // its entries, by name
	Problems []verdict.Problem // with its entries, and with the peel as a whole
	Reported time.Time         // when its newest report came; zero: none did
	Offset   time.Duration     // that its clock was ahead then
}

// Detail returns what the table has of one peel, with the verdicts since an hour that the table still has: 46 hours
// ago at most. The error is [ErrBehind] if the table gives no verdicts.
func (t *Table) Detail(id target.PeelID, since time.Time) (d Detail, err error) {
	if err := t.err(); err != nil {
		return d, fmt.Errorf("%w: %w", ErrBehind, err)
	}
	d.Rows = sorted(t.present(Query{Peels: map[target.PeelID]bool{id: true}, Since: since, By: ByPeelAndEntry}))
	now, connected := t.clock.now(), t.connected()
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peels[id.Wire()]
	if p == nil || p.id != id {
		return d, nil
	}
	d.Problems = slices.Clone(t.problemsOf(p, now, connected))
	d.Reported, d.Offset = at(p.arrived), time.Duration(p.offset)*time.Second
	return d, nil
}
