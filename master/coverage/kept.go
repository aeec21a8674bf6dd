// File kept.go keeps for a short time what a look at each of many peels has found: browsers ask again and again for one
// entry, or for one target. What is kept is no older than the table: see [Table.refresh].

package coverage

import (
	"maps"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	keptTime    = 5 * time.Second
	maxScans    = 8
	maxScanRows = 100_000 // of all scans: 40 MB
)

// A scan is what was found on some peels: rows, or hours. Nothing of it is changed, as it is read without a lock.
type scan struct {
	key   scanKey
	peels map[target.PeelID]bool // nil: all
	until time.Time
	seen  uint64 // the changes of the table that are in it
	rows  []*Row
	hours map[hourKey]verdict.Counts
}

// An hourKey identifies an hour of an entry.
type hourKey struct {
	entry string
	hour  int64
}

// A scanKey says what was looked for.
type scanKey struct {
	entries string // [Query.Key]
	by      By
	first   int64 // the first hour
	isHours bool
}

// scans are the scans that are kept.
type scans struct {
	mu   sync.Mutex // also for the time of a scan: one is made at a time
	list []*scan    // the oldest first
}

// kept returns what a query selects in the table, sorted by entry and peel. Callers must not change it.
func (t *Table) kept(q Query) []*Row {
	if q.Entry != nil && q.Key == "" || q.By == ByEntry && q.Peels == nil {
		return sorted(t.present(q))
	}
	key := scanKey{entries: q.Key, by: q.By, first: join.HourOf(q.Since)}
	return t.scan(key, q, func(s *scan) { s.rows = sorted(t.present(q)) }).rows
}

// keptHours returns the verdicts of the table on some peels. Callers must not change them.
func (t *Table) keptHours(peels map[target.PeelID]bool) map[hourKey]verdict.Counts {
	return t.scan(scanKey{isHours: true}, Query{Peels: peels}, func(s *scan) { s.hours = t.hoursBy(peels) }).hours
}

// scan returns a scan that is kept and as new as the table, else one that look makes.
func (t *Table) scan(key scanKey, q Query, look func(s *scan)) *scan {
	t.scans.mu.Lock()
	defer t.scans.mu.Unlock()
	for i, s := range t.scans.list {
		if s.key != key || (s.peels == nil) != (q.Peels == nil) || !maps.Equal(s.peels, q.Peels) {
			continue
		}
		if s = t.refresh(s, q); s != nil {
			t.scans.list[i] = s
			return s
		}
		t.scans.list = append(t.scans.list[:i:i], t.scans.list[i+1:]...)
		break
	}

	t.mu.Lock()
	s := &scan{key: key, peels: q.Peels, seen: t.changes.n, until: time.Now().Add(keptTime)}
	t.mu.Unlock()
	look(s)
	t.scans.add(s)
	return s
}

// add keeps a scan for a while, and those before it as far as there is room.
func (s *scans) add(one *scan) {
	if len(one.rows) > maxScanRows {
		return
	}
	s.list = append(s.list, one)
	rows := 0
	for _, other := range s.list {
		rows += len(other.rows)
	}
	for len(s.list) > maxScans || rows > maxScanRows {
		rows -= len(s.list[0].rows)
		s.drop()
	}
	time.AfterFunc(keptTime, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for len(s.list) > 0 && !time.Now().Before(s.list[0].until) {
			s.drop()
		}
	})
}

// drop forgets the oldest scan, and lets its memory go.
func (s *scans) drop() { s.list[0], s.list = nil, s.list[1:] }

// changes count the changes of peels in a table.
type changes struct {
	n      uint64
	ofLost uint64 // the last one that took all rows from a peel
}

// touch notes that a peel changes.
func (t *Table) touch(p *peel, isLost bool) {
	t.changes.n++
	if p.changed = t.changes.n; isLost {
		t.changes.ofLost = t.changes.n
	}
}

// refresh returns a scan with what has changed since it was made; nil: all peels are to be looked at. Peels that only
// became silent meanwhile have not changed.
func (t *Table) refresh(s *scan, q Query) *scan {
	changed := map[target.PeelID]bool{}
	t.mu.Lock()
	next := *s
	next.seen = t.changes.n
	isLost := t.changes.ofLost > s.seen
	if next.seen > s.seen && !isLost {
		for _, p := range t.selectedLocked(q.Peels) {
			if p.changed > s.seen {
				changed[p.id] = true
			}
		}
	}
	t.mu.Unlock()
	switch {
	case isLost, len(changed) > 0 && q.By != ByPeelAndEntry:
		return nil
	case len(changed) == 0:
		return &next
	}

	q.Peels = changed
	found := sorted(t.present(q))
	next.rows = make([]*Row, 0, len(s.rows)+len(found))
	for _, r := range s.rows {
		if changed[r.Peel] {
			continue
		}
		for len(found) > 0 && compareRows(found[0], r) < 0 {
			next.rows, found = append(next.rows, found[0]), found[1:]
		}
		next.rows = append(next.rows, r)
	}
	next.rows = append(next.rows, found...)
	return &next
}
