package coverage

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	keepEvery = 5 * time.Minute // write hours whose verdicts have changed
	// MaxSince is how long verdicts are kept.
	MaxSince = 35 * 24 * time.Hour
	// maxHours is how many hours the table has: those that a report has as a whole, and the present one.
	maxHours = join.Kept + 1
)

// keep writes the verdicts that have changed to the history, until ctx ends. What is not written when a master stops is
// in the reports, so that the next one writes it.
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

// keepOnce writes the hours whose digest is not in written. An hour that this master cannot read is left as it is;
// whoever wrote it, such as a master of a newer version, has the verdicts too.
func (t *Table) keepOnce(ctx context.Context, written map[int64]uint64) (failed error) {
	digests := t.digests()
	var unreadable []time.Time
	for hour, digest := range digests {
		if written[hour] == digest {
			delete(digests, hour)
		}
	}
	for hour, cells := range t.cellsOf(func(hour int64) bool { _, changed := digests[hour]; return changed }) {
		switch err := t.past.Merge(ctx, hour, cells); {
		case errors.Is(err, ErrUnreadable):
			if t.addUnreadable(hour) {
				unreadable = append(unreadable, join.StartOf(hour))
			}
		case err != nil:
			failed = errors.Join(failed, err) // another one may be written all the same
			continue
		}
		written[hour] = digests[hour]
	}
	if len(unreadable) > 0 {
		sorting.Func(unreadable, time.Time.Compare)
		t.o.Log.Warn("hours in the history of schedules are left as they are: they are damaged, "+
			"or a newer version wrote them",
			"first", unreadable[0], "last", unreadable[len(unreadable)-1], "hours", len(unreadable))
	}
	for hour := range written {
		if hour < join.HourOf(time.Now())-maxHours {
			delete(written, hour)
		}
	}
	return failed
}

// addUnreadable notes an hour of the history that this master cannot read; new is false if it is known.
func (t *Table) addUnreadable(hour int64) (new bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	new = !t.unreadable[hour]
	t.unreadable[hour] = true
	return new
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
		p.hoursOf(func(r *row, hours []join.Hour) {
			for i := range hours {
				if !r.published {
					continue
				}
				digests[hours[i].Hour] += maphash.Comparable(t.seed, part{r.name.Value(), p.id, hours[i].Counts})
			}
		})
	}
	return digests
}

// cellsOf returns the verdicts of the hours that are wanted, sorted by entry and peel.
func (t *Table) cellsOf(wanted func(hour int64) bool) map[int64][]HistoryCell {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[int64][]HistoryCell{}
	for _, p := range t.peels {
		p.hoursOf(func(r *row, hours []join.Hour) {
			for i := range hours {
				if h := &hours[i]; r.published && wanted(h.Hour) {
					all[h.Hour] = append(all[h.Hour], HistoryCell{
						Entry: r.name.Value(), Peel: p.id, Counts: h.Counts, Reasons: h.Reasons,
					})
				}
			}
		})
	}
	for _, cells := range all {
		sorting.Func(cells, func(a, b HistoryCell) int {
			return cmp.Or(cmp.Compare(a.Entry, b.Entry), cmp.Compare(a.Peel, b.Peel))
		})
	}
	return all
}

// complete returns the first hour for which this table has the verdicts on all peels. Earlier ones are in the history.
func (t *Table) complete(now time.Time) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.firstHour, join.HourOf(now)-maxHours+2)
}

// addPast adds the verdicts of hours before complete to rows, and returns the hours whose stored verdicts cannot be
// read.
func (t *Table) addPast(ctx context.Context, q Query, complete int64,
	rows map[rowKey]*Row,
) (unread []time.Time, err error) {
	add := func(entry string, id target.PeelID, counts verdict.Counts) {
		key := q.By.key(entry, id)
		if rows[key] == nil {
			rows[key] = &Row{Cell: Cell{Entry: key.entry, Peel: key.peel}}
		}
		rows[key].Counts.Add(counts)
	}
	hours, unread := t.summedPast(q, complete, func(_ int64, entry string, counts verdict.Counts) {
		add(entry, "", counts)
	})
	damaged, err := t.eachPast(ctx, hours, func(_ int64, cells []HistoryCell) {
		for i := range cells {
			if c := &cells[i]; q.selects(c) {
				add(c.Entry, c.Peel, c.Counts)
			}
		}
	})
	return append(unread, damaged...), err
}

// selects reports whether a query is about a cell of the history.
func (q *Query) selects(c *HistoryCell) bool {
	return (q.Peels == nil || q.Peels[c.Peel]) && (q.Entry == nil || q.Entry(c.Entry))
}

// eachPast calls visit with the cells of each of the hours that the history or the table has, and returns the hours
// whose stored verdicts cannot be read. Of these visit gets what the table has.
func (t *Table) eachPast(
	ctx context.Context, hours []int64, visit func(hour int64, cells []HistoryCell),
) (unread []time.Time, err error) {
	if len(hours) == 0 {
		return nil, nil
	}
	wanted := map[int64]bool{}
	for _, hour := range hours {
		wanted[hour] = true
	}
	known := t.cellsOf(func(hour int64) bool { return wanted[hour] })
	unreadable, err := t.past.Read(ctx, hours, func(hour int64, cells []HistoryCell) {
		visit(hour, MergeHistory(cells, known[hour]))
		delete(known, hour)
	})
	for hour, cells := range known {
		visit(hour, cells)
	}
	for _, hour := range unreadable {
		unread = append(unread, join.StartOf(hour))
	}
	return unread, err
}
