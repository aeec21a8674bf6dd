package coverage

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
)

// Of two masters' verdicts on an hour those stay that account for more fires, a skip as well as a run, or else expect more.
func TestTheVerdictsThatAccountForMoreStay(t *testing.T) {
	ran := verdict.Counts{Expected: 4, Ran: 2, Unknown: 2}
	for name, better := range map[string]verdict.Counts{
		"skipped":  {Expected: 4, Ran: 1, Skipped: 2, Unknown: 1},
		"missed":   {Expected: 4, Missed: 3, Unknown: 1},
		"expected": {Expected: 5, Ran: 2, Unknown: 3},
	} {
		a, b := []HistoryCell{{Entry: "e", Peel: "p", Counts: ran}}, []HistoryCell{{Entry: "e", Peel: "p", Counts: better}}
		for _, got := range [][]HistoryCell{MergeHistory(a, b), MergeHistory(b, a)} {
			if len(got) != 1 || got[0].Counts != better {
				t.Errorf("%s: %+v, want %+v", name, got, better)
			}
		}
	}
}

// A stored hour may be damaged, or written by somebody else.
func TestRangesBeyondThePeelsOfAnHourAreUnreadable(t *testing.T) {
	hour := func(gap, length uint64) []byte {
		plain := binary.AppendUvarint(nil, 2)
		for _, id := range []string{"a", "b"} {
			plain = appendText(binary.AppendUvarint(plain, 0), id)
		}
		plain = binary.AppendUvarint(appendText(plain, "entry"), 1)
		plain = appendHistory(plain, &HistoryCell{})
		for _, n := range []uint64{1, gap, length} {
			plain = binary.AppendUvarint(plain, n)
		}
		out := bytes.NewBuffer([]byte{version})
		w, err := flate.NewWriter(out, flate.DefaultCompression)
		if err == nil {
			_, err = w.Write(plain)
		}
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	if cells, err := decode(hour(1, 1)); err != nil || len(cells) != 1 || cells[0].Peel != "b" {
		t.Errorf("%+v, %v", cells, err)
	}
	for _, r := range [][2]uint64{{1, 2}, {2, 1}, {3, 0}, {0, 3}} {
		if _, err := decode(hour(r[0], r[1])); !errors.Is(err, ErrUnreadable) {
			t.Errorf("gap %d, length %d: %v", r[0], r[1], err)
		}
	}
}
