package coverage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/history"
	"github.com/seed-c01c3da5/zester/master/coverage/judge"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	keepEvery = 5 * time.Minute // write hours whose verdicts have changed
	// MaxSince is how long verdicts are kept.
	MaxSince = 35 * 24 * time.Hour
	// repeated is how many hours before the present one all reports have.
	repeated = 11
)

// keep writes the verdicts that have changed to the history, until ctx ends. What is not written when a master stops is in the
// reports, so that the next one writes it.
func (t *Table) keep(ctx context.Context) {
	written := map[int64]uint64{} // digest of the verdicts, by hour
	every := time.NewTicker(keepEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		if t.err() != nil {
			continue
		}
		err := t.keepOnce(ctx, written)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			t.o.Log.Warn("history of schedules not written, trying again", "err", err)
		}
		t.mu.Lock()
		t.historyErr = err
		t.mu.Unlock()
	}
}

func (t *Table) keepOnce(ctx context.Context, written map[int64]uint64) (failed error) {
	digests := t.digests()
	for hour, digest := range digests {
		if written[hour] == digest {
			delete(digests, hour)
		}
	}
	for hour, cells := range t.cellsOf(func(hour int64) bool { _, changed := digests[hour]; return changed }) {
		if err := t.past.Merge(ctx, hour, cells); err != nil {
			failed = errors.Join(failed, fmt.Errorf("hour %d: %w", hour, err)) // another one may be written all the same
			continue
		}
		written[hour] = digests[hour]
	}
	for hour := range written {
		if hour < judge.HourOf(time.Now())-judge.MaxHours {
			delete(written, hour)
		}
	}
	return failed
}

// digests returns a digest of the verdicts of each hour.
func (t *Table) digests() map[int64]uint64 {
	type part struct {
		entry  string
		peel   target.PeelID
		counts verdict.Counts
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	digests := map[int64]uint64{}
	for _, p := range t.peels {
		p.hoursOf(func(r *row, hours []judge.Hour) {
			for i := range hours {
				digests[hours[i].Hour] += maphash.Comparable(t.seed, part{r.name.Value(), p.id, hours[i].Counts})
			}
		})
	}
	return digests
}

// cellsOf returns the verdicts of the hours that are wanted, sorted by entry and peel.
func (t *Table) cellsOf(wanted func(hour int64) bool) map[int64][]history.Cell {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[int64][]history.Cell{}
	for _, p := range t.peels {
		p.hoursOf(func(r *row, hours []judge.Hour) {
			for i := range hours {
				if h := &hours[i]; wanted(h.Hour) {
					all[h.Hour] = append(all[h.Hour], history.Cell{Entry: r.name.Value(), Peel: p.id, Counts: h.Counts})
				}
			}
		})
	}
	for _, cells := range all {
		slices.SortFunc(cells, func(a, b history.Cell) int { return cmp.Or(cmp.Compare(a.Entry, b.Entry), cmp.Compare(a.Peel, b.Peel)) })
	}
	return all
}

// complete returns the first hour of which this table has the verdicts on all peels. Earlier ones are in the history.
func (t *Table) complete(now time.Time) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.firstHour, judge.HourOf(now)-judge.MaxHours+2)
}

// addPast adds the verdicts of hours before complete to rows.
func (t *Table) addPast(ctx context.Context, q Query, complete int64, rows map[rowKey]Row) error {
	var hours []int64
	for hour := judge.HourOf(q.Since); hour < complete; hour++ {
		hours = append(hours, hour)
	}
	known := t.cellsOf(func(hour int64) bool { return hour < complete })
	add := func(cells []history.Cell) {
		for i := range cells {
			c := &cells[i]
			if q.Peels != nil && !q.Peels[c.Peel] || q.Entry != nil && !q.Entry(c.Entry) {
				continue
			}
			key := q.By.key(c.Entry, c.Peel)
			sum := rows[key]
			sum.Entry, sum.Peel = key.entry, key.peel
			sum.Counts.Add(c.Counts)
			rows[key] = sum
		}
	}
	err := t.past.Read(ctx, hours, func(hour int64, cells []history.Cell) {
		add(history.Merge(cells, known[hour]))
		delete(known, hour)
	})
	for hour, cells := range known {
		if slices.Contains(hours, hour) {
			add(cells)
		}
	}
	return err
}
