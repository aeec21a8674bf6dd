// File sums.go keeps the verdicts of the whole fleet by entry and hour, so that a list of entries needs no look at each
// peel. A sum changes where the hours of a peel are replaced: call [Table.replace] with what was and what is.

package coverage

import (
	"slices"

	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
)

// replace changes the sums of an entry as the verdicts of a peel on it are replaced. Both lists are sorted by hour.
func (all *total) replace(before, after []join.Hour) {
	for len(before) > 0 || len(after) > 0 {
		var was, is verdict.Counts
		hour := int64(0)
		if len(before) > 0 && (len(after) == 0 || before[0].Hour <= after[0].Hour) {
			hour, was, before = before[0].Hour, before[0].Counts, before[1:]
		}
		if len(after) > 0 && (hour == 0 || after[0].Hour == hour) {
			hour, is, after = after[0].Hour, after[0].Counts, after[1:]
		}
		if was == is {
			continue
		}

		sum := all.hours[hour]
		have, minus := sum.Numbers(), was.Numbers()
		for i := range have {
			*have[i] -= *minus[i] // which the sum has
		}
		if sum.Add(is); sum == (verdict.Counts{}) {
			delete(all.hours, hour)
		} else {
			all.hours[hour] = sum
		}
	}
}

// since returns the verdicts of the hours from first on.
func (all *total) since(first int64) (sum verdict.Counts) {
	for hour, counts := range all.hours {
		if hour >= first {
			sum.Add(counts)
		}
	}
	return sum
}

// summed returns the rows by entry of all peels, from the sums.
func (t *Table) summed(q Query) map[rowKey]*Row {
	first := join.HourOf(q.Since)
	t.mu.Lock()
	defer t.mu.Unlock()
	rows := make(map[rowKey]*Row, len(t.totals))
	for name, all := range t.totals {
		if q.Entry != nil && !q.Entry(name) {
			continue
		}
		key := ByEntry.key(name, "")
		rows[key] = &Row{Cell: Cell{Entry: name, Counts: all.since(first)}, Peels: all.peels}
	}
	return rows
}

// release forgets the rows of a peel that are not in now, and how it counts. It is called with each change of a peel,
// while the hours of the peel are still those of its rows.
func (t *Table) release(p *peel, now []row) {
	t.touch(p, now == nil)
	t.standings.drop(p)
	if t.standings.lull.unsettled != nil { // else the next scan looks at all peels
		t.standings.lull.unsettled[p] = struct{}{}
	}
	var hours [][]join.Hour
	for i, r := range p.rows {
		if !r.published {
			continue
		}
		name := r.name.Value()
		if _, still := slices.BinarySearchFunc(now, name, compareName); still {
			continue
		}
		if hours == nil {
			hours = unpack(p.hours, len(p.rows))
		}
		all := t.totals[name]
		if all.replace(hours[i], nil); all.peels > 1 {
			all.peels--
		} else {
			delete(t.totals, name)
		}
	}
}
