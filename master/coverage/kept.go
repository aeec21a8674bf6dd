// File kept.go keeps for a short time what a look at each of many peels has found: browsers ask again and again for one
// entry, or for one target. What is kept is no older than the table: see [Table.refresh].

package coverage

import (
	"context"
	"maps"
	"slices"
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

// A place is where the scan of a key is kept.
type place struct {
	key   scanKey
	peels map[target.PeelID]bool // nil: all
	turn  chan struct{}          // has a value while somebody makes the scan; the others wait for their turn
	scan  *scan                  // guarded by turn; nil: there is none yet
	rows  int                    // of the scan; guarded by scans.mu
}

// scans are the scans that are kept.
type scans struct {
	mu     sync.Mutex // guards places; it is not held while peels are looked at
	places []*place   // the oldest first
}

// kept returns what a query selects in the table, sorted by entry and peel. Callers must not change it. The error comes
// from ctx.
func (t *Table) kept(ctx context.Context, q Query) ([]*Row, error) {
	if q.Entry != nil && q.Key == "" || q.By == ByEntry && q.Peels == nil {
		return sorted(t.present(q)), nil
	}
	key := scanKey{entries: q.Key, by: q.By, first: join.HourOf(q.Since)}
	s, err := t.scan(ctx, key, q, func(s *scan) { s.rows = sorted(t.present(q)) })
	if err != nil {
		return nil, err
	}
	return s.rows, nil
}

// keptHours returns the verdicts of the table on some peels. Callers must not change them. The error comes from ctx.
func (t *Table) keptHours(
	ctx context.Context, peels map[target.PeelID]bool,
) (map[hourKey]verdict.Counts, error) {
	key := scanKey{isHours: true}
	s, err := t.scan(ctx, key, Query{Peels: peels}, func(s *scan) { s.hours = t.hoursBy(peels) })
	if err != nil {
		return nil, err
	}
	return s.hours, nil
}

// scan returns a scan that is kept and as new as the table, else one that look makes. Those who ask for one scan at a
// time make it once.
func (t *Table) scan(ctx context.Context, key scanKey, q Query, look func(s *scan)) (*scan, error) {
	at := t.scans.at(key, q.Peels)
	select {
	case at.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-at.turn }()
	if at.scan != nil {
		at.scan = t.refresh(at.scan, q)
	}
	if at.scan == nil {
		t.mu.Lock()
		s := &scan{seen: t.changes.n}
		t.mu.Unlock()
		look(s)
		at.scan = s
	}
	t.scans.note(at, len(at.scan.rows))
	return at.scan, nil
}

// at returns the place of a key. A new one stays for a while, as far as there is room.
func (s *scans) at(key scanKey, peels map[target.PeelID]bool) *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.places {
		if p.key == key && (p.peels == nil) == (peels == nil) && maps.Equal(p.peels, peels) {
			return p
		}
	}
	p := &place{key: key, peels: peels, turn: make(chan struct{}, 1)}
	s.places = append(s.places, p)
	if len(s.places) > maxScans {
		s.places = slices.Delete(s.places, 0, 1)
	}
	time.AfterFunc(keptTime, func() { s.drop(p) })
	return p
}

// drop forgets a place.
func (s *scans) drop(one *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places = slices.DeleteFunc(s.places, func(p *place) bool { return p == one })
}

// note counts the rows of a place. One that is too large is forgotten, else the oldest are as far as there is no room.
func (s *scans) note(one *place, rows int) {
	if rows > maxScanRows {
		s.drop(one)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one.rows = rows
	sum := 0
	for _, p := range s.places {
		sum += p.rows
	}
	for sum > maxScanRows {
		sum -= s.places[0].rows
		s.places = slices.Delete(s.places, 0, 1)
	}
}

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
