// File history.go keeps the verdicts of past hours: which counts each entry had on each peel, and why fires were
// skipped, missed or unknown, for 35 days. Open the stream with [OpenHistory]; call [HistoryStore.Merge] for an hour
// that has changed and [HistoryStore.Read] for hours that are over.
//
// A message of the stream has one hour of the whole fleet. Peels with equal verdicts on an entry are kept as ranges of
// a sorted list, so that an hour of 10,000 peels with 10 entries takes some 30 KiB.
//
// Guarantees: Merge never replaces a verdict by one that accounts for fewer fires, so any master may call it at any
// time, as often as it wants, and in any order; a write that another master has overtaken is repeated. An hour that
// this version cannot read, such as one that a newer version wrote, is never replaced.

package coverage

import (
	"bytes"
	"cmp"
	"compress/flate"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	maxMessage = 900 << 10 // bytes of an encoded hour; the bus carries 1 MiB
	maxDecoded = 64 << 20  // bytes of an hour before compression
	attempts   = 8         // to write an hour that other masters write too
	maxPause   = 100 * time.Millisecond
)

// ErrUnreadable is part of each error about an hour that is damaged, or that a newer version wrote.
var ErrUnreadable = errors.New("it is damaged, or of a newer version")

// A HistoryCell has the verdicts on one entry of one peel in one hour.
type HistoryCell struct {
	Entry  string
	Peel   target.PeelID
	Counts verdict.Counts
	// Reasons are those of fires that did not run as planned, sorted; see [join.Hour].
	Reasons []join.Reason
}

// Equal reports whether two cells are equal in all fields.
func (c HistoryCell) Equal(o HistoryCell) bool {
	return c.Entry == o.Entry && c.Peel == o.Peel && c.Counts == o.Counts && slices.Equal(c.Reasons, o.Reasons)
}

// accounted is how many fires the peel has accounted for.
func (c *HistoryCell) accounted() uint64 { return c.Counts.Ran + c.Counts.Skipped + c.Counts.Missed }

func compare(a, b HistoryCell) int {
	return cmp.Or(cmp.Compare(a.Entry, b.Entry), cmp.Compare(a.Peel, b.Peel))
}

// MergeHistory adds the cells of more to those of have. Of two cells of one entry and peel it keeps the one that
// accounts for more fires, or else expects more. Both are sorted by entry and peel, and so is the result.
func MergeHistory(have, more []HistoryCell) []HistoryCell {
	all := make([]HistoryCell, 0, max(len(have), len(more)))
	for len(have) > 0 && len(more) > 0 {
		switch order := compare(have[0], more[0]); {
		case order < 0:
			all, have = append(all, have[0]), have[1:]
		case order > 0:
			all, more = append(all, more[0]), more[1:]
		default:
			best := have[0]
			if n := cmp.Or(cmp.Compare(more[0].accounted(), best.accounted()),
				cmp.Compare(more[0].Counts.Expected, best.Counts.Expected)); n > 0 {
				best = more[0]
			}
			all, have, more = append(all, best), have[1:], more[1:]
		}
	}
	return append(append(all, have...), more...)
}

// A HistoryStore reads and writes the stream.
type HistoryStore struct{ js jetstream.JetStream }

// OpenHistory returns the store of the stream, which has to exist when the store is used.
func OpenHistory(js jetstream.JetStream) *HistoryStore { return &HistoryStore{js} }

// subjectOf returns the subject of an hour.
func subjectOf(hour int64) string { return natsd.CoverageSubject + strconv.FormatInt(hour, 10) }

// Read calls got for each of the hours that is stored, and returns those of them that cannot be read. Hours are counted
// since the Unix epoch.
func (s *HistoryStore) Read(ctx context.Context, hours []int64,
	got func(hour int64, cells []HistoryCell),
) (unreadable []int64, err error) {
	for part := range slices.Chunk(hours, 48) { // which bounds the memory for a month
		subjects := make([]string, len(part))
		for i, hour := range part {
			subjects[i] = subjectOf(hour)
		}
		found, err := bucket.Newest(ctx, s.js.Conn(), wire.StreamCoverage, subjects)
		if err != nil {
			return nil, fmt.Errorf("cannot read the history of schedules: %w", err)
		}
		for i, hour := range part {
			m, ok := found[subjects[i]]
			if !ok {
				continue
			}
			if cells, err := decode(m.Data); err == nil {
				got(hour, cells)
			} else {
				unreadable = append(unreadable, hour)
			}
		}
	}
	return unreadable, nil
}

// Merge adds cells, sorted by entry and peel, to an hour. It writes nothing if the hour has them already, or if what is
// stored of the hour cannot be read; then the error is [ErrUnreadable].
func (s *HistoryStore) Merge(ctx context.Context, hour int64, cells []HistoryCell) (err error) {
	for range attempts {
		if err = s.merge(ctx, hour, cells); !bucket.IsConflict(err) {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rand.N(maxPause)): // a cluster may still be storing what another master wrote
		}
	}
	if err != nil {
		return fmt.Errorf("cannot write the history of schedules of %s: %w", text(hour), err)
	}
	return nil
}

// text writes an hour for people.
func text(hour int64) string { return time.Unix(hour*3600, 0).UTC().Format("2006-01-02 15:04 UTC") }

func (s *HistoryStore) merge(ctx context.Context, hour int64, cells []HistoryCell) error {
	stream, err := s.js.Stream(ctx, wire.StreamCoverage)
	if err != nil {
		return err
	}
	var have []HistoryCell
	last := uint64(0)
	m, err := stream.GetLastMsgForSubject(ctx, subjectOf(hour))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
	case err != nil:
		return err
	default:
		last = m.Sequence
		if have, err = decode(m.Data); err != nil {
			return err
		}
	}
	all := MergeHistory(have, cells)
	if last > 0 && slices.EqualFunc(all, have, HistoryCell.Equal) {
		return nil
	}
	data, err := encode(all)
	if err != nil {
		return err
	}
	_, err = s.js.Publish(ctx, subjectOf(hour), data, jetstream.WithExpectLastSequencePerSubject(last))
	return err
}

// version is the first byte of an encoded hour. The order of [verdict.Counts.Numbers], and the numbers of
// [join.Verdict], are part of it.
const version = 2

// encode returns the bytes of an hour, whose cells are sorted by entry and peel.
func encode(cells []HistoryCell) ([]byte, error) {
	peels := peelsOf(cells)
	var plain []byte
	plain = binary.AppendUvarint(plain, uint64(len(peels)))
	before := ""
	for _, id := range peels {
		same := 0
		for same < min(len(before), len(id)) && before[same] == id[same] {
			same++
		}
		plain = appendText(binary.AppendUvarint(plain, uint64(same)), string(id[same:]))
		before = string(id)
	}
	for len(cells) > 0 {
		n := 1
		for n < len(cells) && cells[n].Entry == cells[0].Entry {
			n++
		}
		plain = appendEntry(plain, cells[:n], peels)
		cells = cells[n:]
	}
	var out bytes.Buffer
	out.WriteByte(version)
	w, err := flate.NewWriter(&out, flate.DefaultCompression)
	if err == nil {
		_, err = w.Write(plain)
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil && out.Len() > maxMessage {
		err = fmt.Errorf("it takes %d bytes, the limit is %d", out.Len(), maxMessage)
	}
	return out.Bytes(), err
}

func appendText(data []byte, text string) []byte {
	return append(binary.AppendUvarint(data, uint64(len(text))), text...)
}

// peelsOf returns the peels of cells, sorted.
func peelsOf(cells []HistoryCell) []target.PeelID {
	var peels []target.PeelID
	known := map[target.PeelID]bool{}
	for i := range cells {
		if id := cells[i].Peel; !known[id] {
			known[id] = true
			peels = append(peels, id)
		}
	}
	slices.Sort(peels)
	return peels
}

// appendEntry appends an entry: its name, and for each kind of verdicts the ranges of peels that have them.
func appendEntry(data []byte, cells []HistoryCell, peels []target.PeelID) []byte {
	groups := map[string][]int{} // by encoded verdicts
	var order []string
	at := 0
	for i := range cells {
		for peels[at] != cells[i].Peel {
			at++
		}
		key := string(appendHistory(nil, &cells[i]))
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], at)
	}
	data = binary.AppendUvarint(appendText(data, cells[0].Entry), uint64(len(order)))
	for _, key := range order {
		data = appendRanges(append(data, key...), groups[key])
	}
	return data
}

// appendHistory appends the counts of a cell, and the number of its reasons with the reasons.
func appendHistory(data []byte, c *HistoryCell) []byte {
	for _, n := range c.Counts.Numbers() {
		data = binary.AppendUvarint(data, *n)
	}
	data = binary.AppendUvarint(data, uint64(len(c.Reasons)))
	for _, r := range c.Reasons {
		data = appendText(binary.AppendUvarint(data, uint64(r.Verdict)), r.Why)
		data = binary.AppendUvarint(data, r.N)
	}
	return data
}

// appendRanges appends numbers that grow, as ranges: the gap before each one, and its length.
func appendRanges(data []byte, numbers []int) []byte {
	var ranges []byte
	count, next := 0, 0
	for i := 0; i < len(numbers); count++ {
		n := 1
		for i+n < len(numbers) && numbers[i+n] == numbers[i]+n {
			n++
		}
		ranges = binary.AppendUvarint(binary.AppendUvarint(ranges, uint64(numbers[i]-next)), uint64(n))
		next = numbers[i] + n
		i += n
	}
	return append(binary.AppendUvarint(data, uint64(count)), ranges...)
}

// decode returns the cells of an hour, sorted by entry and peel. The error is [ErrUnreadable] if the bytes are not an
// hour of this version, or have an entry on a peel twice.
func decode(data []byte) ([]HistoryCell, error) {
	if len(data) == 0 || data[0] != version {
		return nil, ErrUnreadable
	}
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(data[1:])), maxDecoded))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	d := decoder{data: plain}
	peels := make([]target.PeelID, 0, min(d.number(), uint64(len(plain))))
	for range cap(peels) {
		before := ""
		if n := len(peels); n > 0 {
			before = string(peels[n-1])
		}
		same := min(d.number(), uint64(len(before)))
		peels = append(peels, target.PeelID(before[:same]+d.text()))
	}
	var cells []HistoryCell
	for len(d.data) > 0 && !d.damaged {
		cells = d.entry(cells, peels)
	}
	if d.damaged {
		return nil, ErrUnreadable
	}
	sorting.Stable(cells, compare)

	for i := 1; i < len(cells); i++ {
		if compare(cells[i-1], cells[i]) == 0 {
			return nil, ErrUnreadable
		}
	}
	return cells, nil
}

// A decoder reads numbers and texts. After the first that is not there, damaged is set and all are zero.
type decoder struct {
	data    []byte
	damaged bool
}

func (d *decoder) number() uint64 {
	n, size := binary.Uvarint(d.data)
	if size <= 0 {
		d.data, d.damaged = nil, true
		return 0
	}
	d.data = d.data[size:]
	return n
}

func (d *decoder) text() string {
	n := d.number()
	if n > uint64(len(d.data)) {
		d.data, d.damaged = nil, true
		return ""
	}
	text := string(d.data[:n])
	d.data = d.data[n:]
	return text
}

// maxCells bounds the cells of an hour: ten times those of 10,000 peels with 100 entries.
const maxCells = 10_000_000

func (d *decoder) entry(cells []HistoryCell, peels []target.PeelID) []HistoryCell {
	c := HistoryCell{Entry: d.text()}
	for groups := d.number(); groups > 0 && !d.damaged; groups-- {
		d.verdicts(&c)
		next := uint64(0)
		for ranges := d.number(); ranges > 0 && !d.damaged; ranges-- {
			gap, length := d.number(), d.number()
			first := next + gap
			if gap > uint64(len(peels)) || length > uint64(len(peels)) || first+length > uint64(len(peels)) ||
				len(cells) > maxCells {
				d.data, d.damaged = nil, true
				return nil
			}
			for _, id := range peels[first : first+length] {
				c.Peel = id
				cells = append(cells, c)
			}
			next = first + length
		}
	}
	return cells
}

// verdicts reads what [appendHistory] wrote. The reasons are new ones, so cells may share them.
func (d *decoder) verdicts(c *HistoryCell) {
	for _, n := range c.Counts.Numbers() {
		*n = d.number()
	}
	c.Reasons = nil
	for n := d.number(); n > 0 && !d.damaged; n-- {
		r := join.Reason{Verdict: join.Verdict(min(d.number(), math.MaxUint8)), Why: d.text(), N: d.number()}
		if d.damaged = d.damaged || r.Verdict > join.Unexpected; d.damaged {
			return
		}
		c.Reasons = append(c.Reasons, r)
	}
}
