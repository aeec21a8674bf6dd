package coverage

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
)

// A took is how many runs of one entry on one peel took how long, as the peel counts them: by the bounds of the
// histogram, with the longer ones last.
type took struct {
	runs [len(ledger.TookBounds) + 1]uint64
	sum  time.Duration
}

// tookOf returns what an entry reports.
func tookOf(e *ledger.EntryReport) (t took) {
	before := uint64(0)
	for i, n := range e.Took.UpTo {
		t.runs[i] = n - min(n, before)
		before = max(before, n)
	}
	t.runs[len(ledger.TookBounds)] = e.Took.Runs - min(e.Took.Runs, before)
	t.sum = e.Took.Sum.Truncate(time.Millisecond)

	return t
}

// packTook encodes the durations of the rows of a peel: of each how many bytes follow, a mask of the numbers that are
// not zero, these, and the sum. A row without runs has no bytes.
func packTook(list []took) []byte {
	var all, data []byte
	for i := range list {
		mask := uint64(0)
		data = data[:0]
		for bound, n := range list[i].runs {
			if n > 0 {
				mask |= 1 << bound
			}
		}
		if mask > 0 {
			data = binary.AppendUvarint(data, mask)
		}
		for _, n := range list[i].runs {
			if n > 0 {
				data = binary.AppendUvarint(data, n)
			}
		}
		if mask > 0 {
			data = binary.AppendUvarint(data, uint64(list[i].sum/time.Millisecond))
		}
		all = append(binary.AppendUvarint(all, uint64(len(data))), data...)
	}
	return append(make([]byte, 0, len(all)), all...)
}

// unpackTook decodes the durations of n rows.
func unpackTook(data []byte, n int) []took {
	list, u := make([]took, n), unpacker{data}
	for i := range list {
		list[i] = u.took()
	}
	return list
}

// took decodes the durations of the next row.
func (u *unpacker) took() (t took) {
	part := u.part()
	if len(part.data) == 0 {
		return t
	}
	mask := part.number()
	for bound := range t.runs {
		if mask&(1<<bound) > 0 {
			t.runs[bound] = part.number()
		}
	}
	t.sum = time.Duration(part.number()) * time.Millisecond

	return t
}

// addTo adds the runs to those of other peels. Numbers that would overflow are left out: a peel may report any.
func (t *took) addTo(all *ledger.Took) {
	runs := uint64(0)
	for _, n := range t.runs {
		if runs += n; n > math.MaxInt32 {
			return
		}
	}
	if runs == 0 || t.sum > math.MaxInt64-all.Sum {
		return
	}
	if all.UpTo == nil {
		all.UpTo = make([]uint64, len(ledger.TookBounds))
	}
	upTo := uint64(0)
	for i := range all.UpTo {
		upTo += t.runs[i]
		all.UpTo[i] += upTo
	}
	all.Runs += runs
	all.Sum += t.sum
}

// What a peel cannot have run between two reports is not added: its numbers could make the totals of the fleet
// overflow.
const (
	maxNewRuns = 1 << 24
	maxRunTime = 7 * 24 * time.Hour // of these runs, on average
)

// ran adds the runs that a peel has counted since the report before. A peel that has lost its ledger counts anew.
func (all *total) ran(now, before took) {
	if now.sum < before.sum {
		before = took{}
	}
	added := now.without(before)
	runs := uint64(0)
	for _, n := range added.runs {
		if n > maxNewRuns {
			return
		}
		runs += n
	}
	if runs > maxNewRuns || uint64(added.sum/maxRunTime) > runs {
		return
	}
	upTo := uint64(0)
	for i := range all.durations {
		upTo += added.runs[i]
		all.durations[i] += upTo
	}
	all.runs += runs
	if gain := added.sum; gain <= math.MaxInt64-all.sum {
		all.sum += gain
	} else {
		all.sum = math.MaxInt64
	}
}

// without returns the runs of t that before does not have.
func (t took) without(before took) took {
	for i := range t.runs {
		t.runs[i] -= min(t.runs[i], before.runs[i])
	}
	t.sum -= before.sum

	return t
}
