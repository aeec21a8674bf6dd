// File hourly.go sums verdicts by hour: for the newest hours from the table, for earlier ones from the history, which
// is read once in the background. Call [Table.Hours].

package coverage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// An HourSum has the verdicts on the fires of one hour of UTC, of all entries and peels that were asked for.
type HourSum struct {
	Hour time.Time // its beginning
	verdict.Counts
}

// Hours returns what a query selects by hour, from its beginning to the present hour, and the hours whose stored
// verdicts this master cannot read. Hours without fires are in the list; Query.By is not used. The error is [ErrBehind]
// if the table gives no verdicts.
func (t *Table) Hours(ctx context.Context, q Query) (list []HourSum, unread []time.Time, err error) {
	if err := t.err(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrBehind, err)
	}
	now := t.clock.now()
	if oldest := now.Add(-MaxSince); q.Since.Before(oldest) {
		q.Since = oldest
	}
	first, complete := join.HourOf(q.Since), t.complete(now)
	sums, err := t.hourly(ctx, max(first, complete), q)
	if err != nil {
		return nil, nil, err
	}
	if first < complete {
		if unread, err = t.hourlyPast(ctx, q, complete, sums); err != nil {
			return nil, nil, err
		}
	}
	for hour := first; hour <= join.HourOf(now); hour++ {
		list = append(list, HourSum{join.StartOf(hour), sums[hour]})
	}
	return list, unread, nil
}

// hourly returns the verdicts of the table by hour since first. The error comes from ctx.
func (t *Table) hourly(ctx context.Context, first int64, q Query) (map[int64]verdict.Counts, error) {
	sums := map[int64]verdict.Counts{}
	add := func(name string, hour int64, counts verdict.Counts) {
		if hour < first || q.Entry != nil && !q.Entry(name) {
			return
		}
		sum := sums[hour]
		sum.Add(counts)
		sums[hour] = sum
	}
	if q.Peels != nil {
		hours, err := t.keptHours(ctx, q.Peels)
		for key, counts := range hours {
			add(key.entry, key.hour, counts)
		}
		return sums, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, all := range t.totals {
		for hour, counts := range all.hours {
			add(name, hour, counts)
		}
	}
	return sums, nil
}

// hoursBy returns the verdicts of the table on some peels.
func (t *Table) hoursBy(peels map[target.PeelID]bool) map[hourKey]verdict.Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	sums := map[hourKey]verdict.Counts{}
	for _, p := range t.selectedLocked(peels) {
		p.hoursOf(func(r *row, hours []join.Hour) {
			for i := range hours {
				if r.published {
					key := hourKey{r.name.Value(), hours[i].Hour}
					sum := sums[key]
					sum.Add(hours[i].Counts)
					sums[key] = sum
				}
			}
		})
	}
	return sums
}

// hourlyPast adds the verdicts of hours before complete to sums.
func (t *Table) hourlyPast(
	ctx context.Context, q Query, complete int64, sums map[int64]verdict.Counts,
) (unread []time.Time, err error) {
	q.By = ByEntry
	hours, unread := t.summedPast(q, complete, func(hour int64, _ string, counts verdict.Counts) {
		sum := sums[hour]
		sum.Add(counts)
		sums[hour] = sum
	})
	damaged, err := t.eachPast(ctx, hours, func(hour int64, cells []HistoryCell) {
		sum := sums[hour]
		for i := range cells {
			if q.selects(&cells[i]) {
				sum.Add(cells[i].Counts)
			}
		}
		sums[hour] = sum
	})
	return append(unread, damaged...), err
}

const (
	sumPastEvery = 5 * time.Minute
	// sumAgainAfter is how long the sum of an hour is kept that other masters may still change.
	sumAgainAfter = time.Hour
	// sumPastAtOnce bounds the hours that are in memory with all their peels while they are summed.
	sumPastAtOnce = 4
)

// pastSums are the verdicts on entries over all peels in hours that are read from the history.
type pastSums struct {
	mu    sync.Mutex
	hours map[int64]pastSum
}

// A pastSum is one hour of the history.
type pastSum struct {
	entries map[string]verdict.Counts
	damaged bool      // the stored verdicts cannot be read
	until   time.Time // when it is to be read again; zero: other masters change the hour no more
}

// summedPast calls add with the sums of the hours before complete, and returns the hours that are not summed, and those
// that are damaged. Only sums over all peels are kept.
func (t *Table) summedPast(
	q Query, complete int64, add func(hour int64, entry string, counts verdict.Counts),
) (missing []int64, damaged []time.Time) {
	t.pastSums.mu.Lock()
	defer t.pastSums.mu.Unlock()
	for hour := join.HourOf(q.Since); hour < complete; hour++ {
		sum, known := t.pastSums.hours[hour]
		if !known || q.By != ByEntry || q.Peels != nil {
			missing = append(missing, hour)
			continue
		}
		if sum.damaged {
			damaged = append(damaged, join.StartOf(hour))
		}
		for name, counts := range sum.entries {
			if q.Entry == nil || q.Entry(name) {
				add(hour, name, counts)
			}
		}
	}
	return missing, damaged
}

// sumPast reads the history into the sums, the newest hours first, until ctx ends. Hours that other masters may still
// change are read again.
func (t *Table) sumPast(ctx context.Context) {
	every := time.NewTicker(sumPastEvery)
	defer every.Stop()
	for {
		if err := t.sumPastOnce(ctx); err != nil && ctx.Err() == nil {
			t.o.Log.Warn("history of schedules not summed, trying again", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// sumPastOnce reads the hours that are not summed, and those whose sum is old.
func (t *Table) sumPastOnce(ctx context.Context) error {
	now := t.clock.now()
	oldest := join.HourOf(now.Add(-MaxSince))
	for hours := range slices.Chunk(t.pastSums.due(oldest, t.complete(now), now), sumPastAtOnce) {
		if err := t.sumHours(ctx, hours, now); err != nil {
			return err
		}
	}
	return nil
}

// due drops the hours before oldest, and returns those before complete that are to be read, the newest first.
func (s *pastSums) due(oldest, complete int64, now time.Time) (hours []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.hours, func(hour int64, _ pastSum) bool { return hour < oldest })
	for hour := complete - 1; hour >= oldest; hour-- {
		sum, known := s.hours[hour]
		if !known || !sum.until.IsZero() && now.After(sum.until) {
			hours = append(hours, hour)
		}
	}
	return hours
}

// sumHours reads hours of the history into the sums.
func (t *Table) sumHours(ctx context.Context, hours []int64, now time.Time) error {
	found := map[int64]pastSum{}
	for _, hour := range hours {
		sum := pastSum{entries: map[string]verdict.Counts{}}
		if hour >= join.HourOf(now)-maxHours {
			sum.until = now.Add(sumAgainAfter)
		}
		found[hour] = sum
	}
	damaged, err := t.eachPast(ctx, hours, func(hour int64, cells []HistoryCell) {
		entries := found[hour].entries
		for i := range cells {
			counts := entries[cells[i].Entry]
			counts.Add(cells[i].Counts)
			entries[cells[i].Entry] = counts
		}
	})
	if err != nil {
		return err
	}
	for _, at := range damaged {
		sum := found[join.HourOf(at)]
		sum.damaged = true
		found[join.HourOf(at)] = sum
	}
	t.pastSums.mu.Lock()
	defer t.pastSums.mu.Unlock()
	maps.Copy(t.pastSums.hours, found)
	return nil
}
