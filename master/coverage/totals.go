package coverage

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
)

// A total is what happened to one entry on all peels since the table knows them.
type total struct {
	peels     int                      // that have the entry; without one the total is forgotten
	hours     map[int64]verdict.Counts // of these peels now, by hour; they decrease when a peel goes
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
		all = &total{
			hours:     map[int64]verdict.Counts{},
			skips:     map[string]uint64{},
			durations: make([]uint64, len(verdict.DurationBounds)),
		}
		t.totals[name] = all
	}
	if !known {
		all.peels++
	}
	return all
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

// gained returns by how much the verdicts have grown, hour by hour.
func gained(before, after []join.Hour) (sum verdict.Counts) {
	for _, h := range after {
		i, found := slices.BinarySearchFunc(before,
			h.Hour, func(h join.Hour, hour int64) int { return cmp.Compare(h.Hour, hour) })
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
