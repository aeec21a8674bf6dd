package coverage

import (
	"encoding/binary"
	"slices"

	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/peel/ledger"
)

// The verdicts of a peel are kept in a few bytes: for each entry the number of bytes, and for each run of hours with
// equal verdicts its first hour, its length, a mask of the [verdict.Counts.Numbers] that are not zero, and these. Two
// more bits of the mask say that the number of pending fires follows, and the number of reasons with these. Numbers are
// varints. Most entries have the same verdicts in all hours in which they fire.

const (
	pendingBit = 1 << 9
	reasonsBit = 1 << 10
)

// reasons are the reasons of verdicts, by their number. Others are kept as the first.
var reasons = []string{
	string(ledger.OtherReason), join.Unaccounted, join.WrongClock, join.CutList, join.NoReport, join.ByHand,
	join.Repeated, join.NotPlanned,
	string(ledger.AlreadyRunning), string(ledger.QueueFull), string(ledger.Superseded), string(ledger.OutsideWindow),
	string(ledger.InBlackout), string(ledger.CircuitOpen), string(ledger.NeedsUnmet), string(ledger.SkippedOnce),
	string(ledger.MaxRuns), string(ledger.Paused), string(ledger.Disabled), string(ledger.Removed),
	string(ledger.Down), string(ledger.DeadlineExceeded), string(ledger.NotMadeUp), "",
}

// pack encodes the verdicts of all entries of a peel.
func pack(entries [][]join.Hour) []byte {
	var data []byte
	for _, hours := range entries {
		runs, last := []byte(nil), int64(0)
		for i := 0; i < len(hours); {
			length, step := runOf(hours[i:])
			first := hours[i].Hour
			runs = binary.AppendUvarint(runs, uint64(first-last))
			runs = binary.AppendUvarint(runs, uint64(length))
			if length > 1 {
				runs = binary.AppendUvarint(runs, uint64(step))
			}
			runs = appendVerdicts(runs, &hours[i])
			last = first
			i += length
		}
		data = binary.AppendUvarint(data, uint64(len(runs)))
		data = append(data, runs...)
	}
	return append(make([]byte, 0, len(data)), data...)
}

// runOf returns how many of the first hours have equal verdicts and equal steps between them.
func runOf(hours []join.Hour) (length int, step int64) {
	length = 1
	for length < len(hours) && hours[length].Equal(&hours[0]) {
		next := hours[length].Hour - hours[length-1].Hour
		if length > 1 && next != step {
			break
		}
		step = next
		length++
	}
	return length, step
}

func appendVerdicts(data []byte, h *join.Hour) []byte {
	mask := uint64(0)
	for i, n := range h.Numbers() {
		if *n > 0 {
			mask |= 1 << i
		}
	}
	if h.Pending > 0 {
		mask |= pendingBit
	}
	if len(h.Reasons) > 0 {
		mask |= reasonsBit
	}
	data = binary.AppendUvarint(data, mask)
	for _, n := range h.Numbers() {
		if *n > 0 {
			data = binary.AppendUvarint(data, *n)
		}
	}
	if h.Pending > 0 {
		data = binary.AppendUvarint(data, h.Pending)
	}
	if len(h.Reasons) > 0 {
		data = binary.AppendUvarint(data, uint64(len(h.Reasons)))
	}
	for _, r := range h.Reasons {
		word := max(0, slices.Index(reasons, r.Why))
		data = binary.AppendUvarint(data, uint64(word)<<3|uint64(r.Verdict))
		data = binary.AppendUvarint(data, r.N)
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
func (u *unpacker) next(list []join.Hour) []join.Hour {
	last := int64(0)
	for u := u.part(); len(u.data) > 0; {
		first := last + int64(u.number())
		length, step := u.number(), uint64(0)
		if length > 1 {
			step = u.number()
		}
		h := u.verdicts()
		for i := range length {
			h.Hour = first + int64(i*step)
			list = append(list, h)
		}
		last = first
	}
	return list
}

// part returns the bytes of the next entry and passes over them.
func (u *unpacker) part() unpacker {
	n := u.number()
	part := unpacker{u.data[:n]}
	u.data = u.data[n:]
	return part
}

func (u *unpacker) verdicts() (h join.Hour) {
	mask := u.number()
	for i, n := range h.Numbers() {
		if mask&(1<<i) > 0 {
			*n = u.number()
		}
	}
	if mask&pendingBit > 0 {
		h.Pending = u.number()
	}
	if mask&reasonsBit > 0 {
		h.Reasons = make([]join.Reason, u.number())
	}
	for i := range h.Reasons {
		word := u.number()
		h.Reasons[i] = join.Reason{Verdict: join.Verdict(word & 7), Why: reasons[word>>3], N: u.number()}
	}
	return h
}

// unpack decodes the verdicts of n entries.
func unpack(data []byte, n int) [][]join.Hour {
	u := unpacker{data}
	entries := make([][]join.Hour, n)
	for i := range entries {
		entries[i] = u.next(nil)
	}
	return entries
}
