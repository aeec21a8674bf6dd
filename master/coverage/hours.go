package coverage

import (
	"encoding/binary"

	"github.com/seed-c01c3da5/zester/master/coverage/judge"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
)

// The verdicts of a peel are kept in a few bytes: for each entry a number of runs of hours with equal verdicts, and for each run
// its first hour, its length, a mask of the [verdict.Counts.Numbers] that are not zero, and these. Numbers are varints. Most entries have the same
// verdicts in all hours in which they fire.

// pack encodes the verdicts of all entries of a peel.
func pack(entries [][]judge.Hour) []byte {
	var data []byte
	for _, hours := range entries {
		runs, count := []byte(nil), 0
		last := int64(0)
		for i := 0; i < len(hours); count++ {
			length, step := runOf(hours[i:])
			first := hours[i].Hour
			runs = binary.AppendUvarint(runs, uint64(first-last))
			runs = binary.AppendUvarint(runs, uint64(length))
			if length > 1 {
				runs = binary.AppendUvarint(runs, uint64(step))
			}
			runs = appendCounts(runs, hours[i].Counts)
			last = first
			i += length
		}
		data = binary.AppendUvarint(data, uint64(count))
		data = append(data, runs...)
	}
	return append(make([]byte, 0, len(data)), data...)
}

// runOf returns how many of the first hours have equal verdicts and equal steps between them.
func runOf(hours []judge.Hour) (length int, step int64) {
	length = 1
	for length < len(hours) && hours[length].Counts == hours[0].Counts {
		next := hours[length].Hour - hours[length-1].Hour
		if length > 1 && next != step {
			break
		}
		step = next
		length++
	}
	return length, step
}

func appendCounts(data []byte, c verdict.Counts) []byte {
	mask := uint64(0)
	for i, n := range c.Numbers() {
		if *n > 0 {
			mask |= 1 << i
		}
	}
	data = binary.AppendUvarint(data, mask)
	for _, n := range c.Numbers() {
		if *n > 0 {
			data = binary.AppendUvarint(data, *n)
		}
	}
	return data
}

// An unpacker reads what pack has encoded, entry by entry.
type unpacker struct{ data []byte }

func (u *unpacker) number() uint64 {
	n, size := binary.Uvarint(u.data)
	u.data = u.data[max(size, 0):]
	return n
}

// next appends the hours of the next entry to list.
func (u *unpacker) next(list []judge.Hour) []judge.Hour {
	last := int64(0)
	for range u.number() {
		first := last + int64(u.number())
		length, step := u.number(), uint64(0)
		if length > 1 {
			step = u.number()
		}
		c := u.counts()
		for i := range length {
			list = append(list, judge.Hour{Hour: first + int64(i*step), Counts: c})
		}
		last = first
	}
	return list
}

func (u *unpacker) counts() (c verdict.Counts) {
	mask := u.number()
	for i, n := range c.Numbers() {
		if mask&(1<<i) > 0 {
			*n = u.number()
		}
	}
	return c
}

// unpack decodes the verdicts of n entries.
func unpack(data []byte, n int) [][]judge.Hour {
	u := unpacker{data}
	entries := make([][]judge.Hour, n)
	for i := range entries {
		entries[i] = u.next(nil)
	}
	return entries
}
