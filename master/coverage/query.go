package coverage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	fleetpkg "github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// ErrBehind is part of each error that says that the table gives no verdicts now.
var ErrBehind = errors.New("no verdicts are given")

// A Query selects verdicts.
type Query struct {
	Peels map[target.PeelID]bool // nil: all
	Entry func(name string) bool // nil: all
	Key   string                 // functions Entry with equal keys select equal entries; empty: others may
	Since time.Time              // the whole hour of UTC counts
	By    By
}

// By says what a [Row] is about.
type By int

// The values of [Query.By].
const (
	ByEntry        By = iota // one entry on all peels that have it in their settings
	ByPeel                   // all entries on one peel
	ByPeelAndEntry           // one entry on one peel
)

// A Row has the verdicts on an entry, a peel, or both.
type Row struct {
	Cell       // of ByPeelAndEntry; else only Entry or Peel, and Counts
	Peels  int // that have the entry now
	Absent int // of them, do not report; not in rows by entry without Query.Peels
	// Took is how long the runs of an entry took on these peels, as long as their hosts have counted. Rows by peel have
	// none, nor have rows by entry without Query.Peels.
	Took ledger.Took
	// Disagrees says of a row by peel what is not as masters expect on the peel or with its entry; empty: nothing.
	Disagrees string
	// of a row by peel: its newest report lacks fires before it; zero: it goes back as far as reports do
	From time.Time
}

// A Cell is one entry on one peel, as the peel reported it, with the verdicts.
type Cell struct {
	Entry     string
	Peel      target.PeelID
	Counts    verdict.Counts // since [Query.Since]
	Local     bool           // the settings of the peel do not have the entry
	State     string         // empty: the peel has not reported the entry
	Why       string         // of the state
	Error     string         // head of the error of the last run
	Next      time.Time      // next nominal time; zero: none is known
	Succeeded time.Time      // end of the last run that succeeded; zero: none is known
	Started   time.Time      // of the last run; zero: none is known
	Ended     time.Time      // of the last run that ended
	Running   bool           // a run is in flight
	InRow     uint64         // failures in a row
}

// Cells returns the entries that a query selects on each peel, sorted by entry and peel. The error is [ErrBehind] if
// the table gives no verdicts.
func (t *Table) Cells(q Query) ([]Cell, error) {
	if err := t.err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBehind, err)
	}
	q.By = ByPeelAndEntry
	var cells []Cell
	for _, r := range sorted(t.present(q)) {
		cells = append(cells, r.Cell)
	}
	return cells, nil
}

func sorted(rows map[rowKey]*Row) []*Row { return sorting.Values(maps.Values(rows), compareRows) }

func compareRows(a, b *Row) int {
	return cmp.Or(strings.Compare(a.Entry, b.Entry), strings.Compare(string(a.Peel), string(b.Peel)))
}

// A rowKey identifies a row.
type rowKey struct {
	entry string
	peel  target.PeelID
}

func (b By) key(entry string, id target.PeelID) rowKey {
	switch b {
	case ByEntry:
		return rowKey{entry: entry}
	case ByPeel:
		return rowKey{peel: id}
	}
	return rowKey{entry, id}
}

// Rows returns what a query selects, sorted by entry and peel, and the hours whose stored verdicts this master cannot
// read: they are not in the rows, beyond what the table has of them. Callers must not change the rows. The error is
// [ErrBehind] if the table gives no verdicts.
func (t *Table) Rows(ctx context.Context, q Query) (list []*Row, unread []time.Time, err error) {
	if err := t.err(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrBehind, err)
	}
	now := t.clock.now()
	if oldest := now.Add(-MaxSince); q.Since.Before(oldest) {
		q.Since = oldest
	}
	complete := t.complete(now)
	recent := q
	if join.HourOf(q.Since) < complete {
		recent.Since = join.StartOf(complete)
	}
	if recent.Since == q.Since {
		list, err = t.kept(ctx, q)
		return list, nil, err
	}
	rows := t.present(recent)
	if unread, err = t.addPast(ctx, q, complete, rows); err != nil {
		return nil, nil, err
	}
	return sorted(rows), unread, nil
}

// present returns the rows of the table.
func (t *Table) present(q Query) map[rowKey]*Row {
	if q.By == ByEntry && q.Peels == nil {
		return t.summed(q)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	rows := map[rowKey]*Row{}
	first := join.HourOf(q.Since)
	var hours []join.Hour
	absent := map[*peel]bool{}
	t.eachLocked(q.Peels, func(p *peel, isAbsent bool, _ fleetpkg.Presence) {
		if isAbsent {
			absent[p] = true
		}
	})
	for _, p := range t.selectedLocked(q.Peels) {
		verdicts, tooks := unpacker{p.hours}, unpacker{p.lists.took}
		for i := range p.rows {
			r := &p.rows[i]
			name := r.name.Value()
			if q.Entry != nil && !q.Entry(name) || q.By == ByEntry && !r.published {
				verdicts.part()
				tooks.part()
				continue
			}
			runs := tooks.took()
			key := q.By.key(name, p.id)
			sum := rows[key]
			if sum == nil {
				sum = &Row{Cell: Cell{Entry: key.entry, Peel: key.peel}}
				rows[key] = sum
			}
			t.addRow(sum, q.By, onPeel{p, r, absent[p]})
			hours = verdicts.next(hours[:0])
			for i := range hours {
				if hours[i].Hour >= first {
					sum.Counts.Add(hours[i].Counts)
				}
			}
			if q.By != ByPeel {
				runs.addTo(&sum.Took)
			}
		}
	}
	return rows
}

// An onPeel is an entry on a peel.
type onPeel struct {
	p        *peel
	r        *row
	isAbsent bool // the peel does not report
}

// addRow adds to a row what is known of an entry on a peel, without its verdicts.
func (t *Table) addRow(sum *Row, by By, on onPeel) {
	switch {
	case on.isAbsent:
	case by == ByPeel && sum.Peels == 0:
		sum.Disagrees, sum.From = t.disagrees(on.p, ""), at(int64(on.p.from))
	case by == ByPeelAndEntry:
		sum.Disagrees = t.disagrees(on.p, sum.Entry)
	}
	if by != ByPeel || sum.Peels == 0 {
		sum.Peels++
		if on.isAbsent {
			sum.Absent++
		}
	}
	if by == ByPeelAndEntry {
		sum.describe(on.r)
	}
}

// selectedLocked returns the peels of the table that are in a set, with their wire IDs; nil: all of them.
func (t *Table) selectedLocked(peels map[target.PeelID]bool) iter.Seq2[string, *peel] {
	if peels == nil {
		return maps.All(t.peels)
	}
	return func(yield func(string, *peel) bool) {
		for id, is := range peels {
			key := id.Wire()
			if p := t.peels[key]; is && p != nil && p.id == id && !yield(key, p) {
				return
			}
		}
	}
}

// disagrees returns what is not as masters expect on a peel or with one of its entries; with the first one that
// disagrees if the name is empty.
func (t *Table) disagrees(p *peel, entry string) string {
	if text := p.disagreement(t); text != "" {
		return text
	}
	for _, problem := range p.problems {
		if problem.Kind == verdict.Disagrees && (entry == "" || entry == problem.Entry) {
			return problem.Entry + ": " + problem.Text
		}
	}
	return ""
}

// describe adds what an entry is like on a peel.
func (sum *Row) describe(r *row) {
	sum.Local = !r.published
	sum.State, sum.Next, sum.Succeeded = r.state.String(), at(int64(r.next)), at(int64(r.succeeded))
	sum.Started, sum.Ended, sum.Running = at(int64(r.started)), at(int64(r.ended)), r.is&running != 0
	if r.detail != nil {
		sum.Why, sum.Error, sum.InRow = r.detail.why, r.detail.err, r.detail.inRow
	}
}

// Count returns how many of the peels have a schedule, and how many of these report; nil: of all.
func (t *Table) Count(peels map[target.PeelID]bool) (scheduled, reporting int) {
	if peels == nil {
		w := t.wrong(nil)
		scheduled = w.Well
		for _, n := range w.Peels {
			scheduled += n
		}
		return scheduled, scheduled - w.Peels[verdict.NotReporting]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.eachLocked(peels, func(_ *peel, isAbsent bool, _ fleetpkg.Presence) {
		if scheduled++; !isAbsent {
			reporting++
		}
	})
	return scheduled, reporting
}
