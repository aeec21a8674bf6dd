package coverage

import (
	"fmt"
	"maps"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
)

// SetClock replaces the clock of this master. It must be called before Run.
func (t *Table) SetClock(now func() time.Time) { t.clock.own = now }

// Measured is what a table remembers of the clock of a peel after reports with these errors, which arrived at these
// times.
func Measured(all []join.Measured, arrived []time.Time) []join.Measured {
	var l lists
	for i, m := range all {
		l.measure(m, arrived[i])
	}
	return l.measured
}

// CheckSums compares the sums with the hours of all peels.
func (t *Table) CheckSums() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	want := map[string]map[int64]verdict.Counts{}
	for _, p := range t.peels {
		p.hoursOf(func(r *row, hours []join.Hour) {
			name := r.name.Value()
			if !r.published {
				return
			}
			if want[name] == nil {
				want[name] = map[int64]verdict.Counts{}
			}
			for _, h := range hours {
				if sum := want[name][h.Hour]; h.Counts != (verdict.Counts{}) {
					sum.Add(h.Counts)
					want[name][h.Hour] = sum
				}
			}
		})
	}
	for name, all := range t.totals {
		if !maps.Equal(all.hours, want[name]) {
			return fmt.Errorf("the sums of %s are %+v, the peels have %+v", name, all.hours, want[name])
		}
	}
	if len(want) != len(t.totals) {
		return fmt.Errorf("%d entries have sums, peels have %d", len(t.totals), len(want))
	}
	return nil
}
