package coverage

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/judge"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A total is what happened to one entry on all peels since the table knows them.
type total struct {
	peels     int // that have the entry; without one the total is forgotten
	counts    verdict.Counts
	skips     map[string]uint64
	durations []uint64
	sum       time.Duration
	runs      uint64
}

// total returns the total of an entry. known says that the peel had the entry before.
func (t *Table) total(name string, known bool) *total {
	all := t.totals[name]
	if all == nil {
		all = &total{skips: map[string]uint64{}, durations: make([]uint64, len(verdict.DurationBounds))}
		t.totals[name] = all
	}
	if !known {
		all.peels++
	}
	return all
}

// release forgets the rows before that are not in now.
func (t *Table) release(before, now []row) {
	for _, r := range before {
		if !r.published {
			continue
		}
		name := r.name.Value()
		if _, still := slices.BinarySearchFunc(now, name, compareName); still {
			continue
		}
		if all := t.totals[name]; all.peels > 1 {
			all.peels--
		} else {
			delete(t.totals, name)
		}
	}
}

// add adds what a report says beyond the verdicts before. first says that nothing is known of the peel from earlier reports.
func (all *total) add(before, after []judge.Hour, e *wire.EntryReport, old *row, first bool) {
	gain := gained(before, after)
	all.counts.Add(gain)
	if e == nil {
		return
	}
	if gain.Ran > 0 {
		all.addRuns(gain.Ran, e)
	}
	if first {
		for _, h := range e.Hours {
			for reason, n := range h.Skips {
				all.addSkips(reason, n)
			}
		}
		return
	}
	for reason, n := range e.Skips {
		all.addSkips(reason, n-min(n, old.skipped(reason)))
	}
}

const (
	maxReasons   = 32      // of an entry that are counted by name; peels have 14, but a peel may send any name
	otherReasons = "other" // counts the others
)

func (all *total) addSkips(reason string, n uint64) {
	if _, known := all.skips[reason]; !known && len(all.skips) >= maxReasons {
		reason = otherReasons
	}
	all.skips[reason] += n
}

// addRuns adds n runs to the histogram: the newest with its duration, the others with the median of all, because a report has no more.
func (all *total) addRuns(n uint64, e *wire.EntryReport) {
	if took := e.Ended.Sub(e.Started); took >= 0 && !e.Started.IsZero() && !e.Ended.IsZero() {
		all.addDuration(1, took)
		n--
	}
	if n > 0 {
		all.addDuration(n, e.Median)
	}
}

func (all *total) addDuration(n uint64, took time.Duration) {
	took = max(took, 0)
	for i, bound := range verdict.DurationBounds {
		if took <= bound {
			all.durations[i] += n
		}
	}
	if high, low := bits.Mul64(n, uint64(took)); high > 0 || low > uint64(math.MaxInt64-all.sum) {
		all.sum = math.MaxInt64
	} else {
		all.sum += time.Duration(low)
	}
	all.runs += n
}

// skipped returns how many fires were skipped for a reason by the report that the row was made from.
func (r *row) skipped(reason string) uint64 {
	if r.detail != nil {
		for _, s := range r.detail.skips {
			if s.reason.Value() == reason {
				return s.n
			}
		}
	}
	return 0
}

// gained returns by how much the verdicts have grown, hour by hour.
func gained(before, after []judge.Hour) (sum verdict.Counts) {
	for _, h := range after {
		i, found := slices.BinarySearchFunc(before, h.Hour, func(h judge.Hour, hour int64) int { return cmp.Compare(h.Hour, hour) })
		if !found {
			sum.Add(h.Counts)
			continue
		}
		old, now, to := before[i].Numbers(), h.Numbers(), sum.Numbers()
		for j := range now {
			*to[j] += *now[j] - min(*now[j], *old[j])
		}
	}
	return sum
}

// gain adds what verdicts say beyond those before, with the reasons of skips.
func (all *total) gain(before, after []join.Hour) {
	all.counts.Add(gained(before, after))
	for i := range after {
		old := join.Hour{}
		if k := slices.IndexFunc(before, func(h join.Hour) bool { return h.Hour == after[i].Hour }); k >= 0 {
			old = before[k]
		}
		for _, r := range after[i].Reasons {
			if r.Verdict == join.Skipped {
				was := old.Skips(r.Why)
				all.addSkips(r.Why, r.N-min(r.N, was))
			}
		}
	}
}
