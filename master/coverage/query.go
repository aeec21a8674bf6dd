package coverage

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/judge"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// ErrBehind is part of each error that says that the table gives no verdicts now.
var ErrBehind = errors.New("no verdicts")

// A Query selects verdicts.
type Query struct {
	Peels map[target.PeelID]bool // nil: all
	Entry func(name string) bool // nil: all
	Since time.Time              // the whole hour of UTC counts
}

// A Cell is one entry on one peel.
type Cell struct {
	Entry     string
	Peel      target.PeelID
	Counts    verdict.Counts // since Query.Since
	State     string         // as the peel reports it; empty: it has not reported the entry
	Why       string         // of the state
	Error     string         // head of the error of the last run
	Next      time.Time      // next nominal time; zero: none is known
	Succeeded time.Time      // end of the last run that succeeded; zero: none is known
	Absent    bool           // the peel does not report
}

// Cells returns what a query selects, sorted by entry and peel. The error is [ErrBehind] if the table gives no verdicts.
func (t *Table) Cells(q Query) ([]Cell, error) {
	if err := t.err(); err != nil {
		return nil, errors.Join(ErrBehind, err)
	}
	now, connected, first := time.Now(), t.connected(), judge.HourOf(q.Since)
	t.mu.Lock()
	defer t.mu.Unlock()
	var cells []Cell
	for _, p := range t.peels {
		if q.Peels != nil && !q.Peels[p.id] {
			continue
		}
		absent := p.hasSchedule() && t.absent(p, now, connected)
		p.hoursOf(func(r *row, hours []judge.Hour) {
			name := r.name.Value()
			if q.Entry != nil && !q.Entry(name) {
				return
			}
			c := Cell{Entry: name, Peel: p.id, State: r.state.String(), Next: at(int64(r.next)), Succeeded: at(int64(r.succeeded)), Absent: absent}
			if r.detail != nil {
				c.Why, c.Error = r.detail.why, r.detail.err
			}
			for i := range hours {
				if hours[i].Hour >= first {
					c.Counts.Add(hours[i].Counts)
				}
			}
			cells = append(cells, c)
		})
	}
	slices.SortFunc(cells, func(a, b Cell) int { return cmp.Or(cmp.Compare(a.Entry, b.Entry), cmp.Compare(a.Peel, b.Peel)) })
	return cells, nil
}
