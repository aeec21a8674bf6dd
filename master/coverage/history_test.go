package coverage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestMain(m *testing.M) { natstest.InMemory(m) }

// fleet is an hour of peels with entries, of which some went wrong.
func fleet(peels, entries int) []HistoryCell {
	r := rand.New(rand.NewPCG(1, 2))
	var cells []HistoryCell
	for p := range peels {
		for e := range entries {
			c := HistoryCell{Entry: fmt.Sprintf("entry-%02d", e), Peel: target.PeelID(fmt.Sprintf("web-%05d.example.com", p)), Counts: verdict.Counts{Expected: 12, Ran: 12}}
			switch r.IntN(50) {
			case 0:
				c.Counts.Failed = 1 + r.Uint64N(3)
			case 1:
				c.Counts.Ran, c.Counts.Missed = 11, 1
				c.Reasons = []join.Reason{{Verdict: join.Missed, Why: "down", N: 1}}
			case 2:
				c.Counts.Ran, c.Counts.Unknown = 3, 9
				c.Reasons = []join.Reason{{Verdict: join.Unknown, Why: join.NoReport, N: 5}, {Verdict: join.Unknown, Why: join.WrongClock, N: 4}}
			}
			cells = append(cells, c)
		}
	}
	slices.SortFunc(cells, compare)
	return cells
}

func TestAnHourIsReadAsItWasWritten(t *testing.T) {
	for _, cells := range [][]HistoryCell{nil, fleet(1, 1), fleet(300, 7)} {
		data, err := encode(cells)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decode(data); err != nil || !slices.EqualFunc(got, cells, HistoryCell.Equal) {
			t.Errorf("%d cells became %d, %v", len(cells), len(got), err)
		}
	}
}

func TestAnHourWithAnEntryOnAPeelTwiceIsDamaged(t *testing.T) {
	cell := HistoryCell{Entry: "backup", Peel: "web-01", Counts: verdict.Counts{Expected: 1, Ran: 1}}
	other := cell
	other.Counts.Failed = 1
	for name, cells := range map[string][]HistoryCell{"with other counts": {cell, other}, "behind another entry": {cell, {Entry: "a", Peel: "web-01"}, cell}} {
		data, err := encode(cells)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decode(data); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestADayOfTenThousandPeelsTakesLessThan20MB(t *testing.T) {
	data, err := encode(fleet(10_000, 10))
	if err != nil {
		t.Fatal(err)
	}
	day := 24 * len(data)
	t.Logf("an hour takes %d bytes, a day %.1f MB", len(data), float64(day)/1e6)
	if day > 20e6 {
		t.Errorf("a day takes %d bytes", day)
	}
}

func TestTheCellThatAccountsForMoreIsKept(t *testing.T) {
	cell := func(peel target.PeelID, c verdict.Counts) HistoryCell {
		return HistoryCell{Entry: "backup", Peel: peel, Counts: c}
	}
	unknown, settled := verdict.Counts{Expected: 12, Unknown: 12}, verdict.Counts{Expected: 12, Missed: 12}
	part, whole := verdict.Counts{Expected: 3, Ran: 3}, verdict.Counts{Expected: 12, Ran: 12}
	have := []HistoryCell{cell("a", unknown), cell("b", whole), cell("c", part), cell("e", part)}
	more := []HistoryCell{cell("a", settled), cell("b", part), cell("c", whole), cell("d", part)}
	want := []HistoryCell{cell("a", settled), cell("b", whole), cell("c", whole), cell("d", part), cell("e", part)}
	if got := MergeHistory(have, more); !slices.EqualFunc(got, want, HistoryCell.Equal) {
		t.Errorf("%v", got)
	}
	if got := MergeHistory(more, have); !slices.EqualFunc(got, want, HistoryCell.Equal) {
		t.Errorf("in the other order: %v", got)
	}
}

func TestTwoMastersMergeOneHour(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		cells := fleet(40, 3)
		done := make(chan error)
		for part := range slices.Chunk(cells, 30) {
			s := OpenHistory(b.JetStream(t))
			go func() { done <- s.Merge(context.Background(), 490_000, part) }()
		}
		for range 4 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		s := OpenHistory(b.JetStream(t))
		read := 0
		if unreadable, err := s.Read(t.Context(), []int64{489_999, 490_000}, func(hour int64, got []HistoryCell) {
			if read++; hour != 490_000 || !slices.EqualFunc(got, cells, HistoryCell.Equal) {
				t.Errorf("hour %d has %d cells", hour, len(got))
			}
		}); err != nil || read != 1 || len(unreadable) > 0 {
			t.Errorf("%d hours, %d unreadable, %v", read, len(unreadable), err)
		}
	})
}

// Masters of a cluster write one hour at the same time. A cluster refuses some of the writes with a code of its own.
func TestMastersOfAClusterMergeOneHour(t *testing.T) {
	c := natstest.ListenCluster(t)
	const masters, hours = 4, 12
	cells := fleet(masters, 3)
	var merging sync.WaitGroup
	for i := range masters {
		js, err := jetstream.New(c.Conn(t, grants.RoleMaster, fmt.Sprintf("m%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		mine := slices.DeleteFunc(slices.Clone(cells), func(c HistoryCell) bool { return c.Peel != target.PeelID(fmt.Sprintf("web-%05d.example.com", i)) })
		for hour := range int64(hours) {
			merging.Go(func() {
				if err := OpenHistory(js).Merge(t.Context(), hour, mine); err != nil {
					t.Error(err)
				}
			})
		}
	}
	merging.Wait()
	js, err := jetstream.New(c.Conn(t, grants.RoleMaster, "m0"))
	if err != nil {
		t.Fatal(err)
	}
	for hour := range int64(hours) {
		m, err := js.Stream(t.Context(), wire.StreamCoverage)
		if err != nil {
			t.Fatal(err)
		}
		stored, err := m.GetLastMsgForSubject(t.Context(), subjectOf(hour))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decode(stored.Data); err != nil || !slices.EqualFunc(got, cells, HistoryCell.Equal) {
			t.Errorf("hour %d has %d cells, %v; want %d", hour, len(got), err, len(cells))
		}
	}
}

// What a newer version wrote, or what is damaged, stays as it is, and is not taken for an hour without fires.
func TestAnHourThatCannotBeReadIsLeftAlone(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		s := OpenHistory(js)
		for hour, data := range map[int64]string{1: "\x03of a newer version", 2: "\x02damaged", 4: "\x01of an older version"} {
			if _, err := js.Publish(t.Context(), subjectOf(hour), []byte(data)); err != nil {
				t.Fatal(err)
			}
			if err := s.Merge(t.Context(), hour, fleet(1, 1)); !errors.Is(err, ErrUnreadable) {
				t.Errorf("hour %d: %v", hour, err)
			}
			stream, err := js.Stream(t.Context(), wire.StreamCoverage)
			if err != nil {
				t.Fatal(err)
			}
			if m, err := stream.GetLastMsgForSubject(t.Context(), subjectOf(hour)); err != nil || string(m.Data) != data {
				t.Errorf("hour %d is %q, %v", hour, m.Data, err)
			}
		}
		unreadable, err := s.Read(t.Context(), []int64{1, 2, 3, 4}, func(hour int64, cells []HistoryCell) { t.Errorf("hour %d has %d cells", hour, len(cells)) })
		if err != nil || !slices.Equal(unreadable, []int64{1, 2, 4}) {
			t.Errorf("unreadable: %v, %v", unreadable, err)
		}
	})
}

// A verdict that this version does not know has no word.
func TestAnHourWithAnUnknownVerdictCannotBeRead(t *testing.T) {
	cells := fleet(1, 1)
	for n, unreadable := range map[join.Verdict]bool{join.Unexpected: false, join.Unexpected + 1: true} {
		cells[0].Reasons = []join.Reason{{Verdict: n, Why: "new", N: 1}}
		data, err := encode(cells)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decode(data); errors.Is(err, ErrUnreadable) != unreadable {
			t.Errorf("verdict %d: %v", n, err)
		}
	}
}

// Bytes of any kind are refused, or are an hour that can be written again.
func FuzzDecode(f *testing.F) {
	for _, cells := range [][]HistoryCell{nil, fleet(1, 1), fleet(5, 3)} {
		data, err := encode(cells)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cells, err := decode(data)
		if err != nil {
			return
		}
		for i := 1; i < len(cells); i++ {
			if compare(cells[i-1], cells[i]) >= 0 {
				t.Fatal("not sorted, or twice")
			}
		}
	})
}

// Other masters may still change the hours that reports have: their sums are read again after an hour. Those of earlier hours
// stay.
func TestTheSumsOfNewHoursAreReadAgain(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		past := OpenHistory(b.JetStream(t))
		table := &Table{past: past, pastSums: pastSums{hours: map[int64]pastSum{}}}
		now := time.Date(2026, 6, 1, 9, 30, 0, 0, time.UTC)
		present := join.HourOf(now)
		old, fresh := present-maxHours-1, present-maxHours
		merge := func(peel target.PeelID, hour int64) {
			t.Helper()
			cell := HistoryCell{Entry: "backup", Peel: peel, Counts: verdict.Counts{Expected: 1, Ran: 1}}
			if err := past.Merge(t.Context(), hour, []HistoryCell{cell}); err != nil {
				t.Fatal(err)
			}
		}
		sum := func(now time.Time, want ...int64) {
			t.Helper()
			due := table.pastSums.due(old, present, now)
			due = slices.DeleteFunc(due, func(hour int64) bool { return hour > fresh })
			if !slices.Equal(due, want) {
				t.Errorf("at %v the hours %v are due, want %v", now, due, want)
			}
			if err := table.sumHours(t.Context(), due, now); err != nil {
				t.Fatal(err)
			}
		}

		merge("a", old)
		merge("a", fresh)
		sum(now, fresh, old)
		sum(now.Add(sumAgainAfter))
		merge("b", fresh)
		sum(now.Add(sumAgainAfter+time.Second), fresh)
		for hour, want := range map[int64]uint64{old: 1, fresh: 2} {
			if got := table.pastSums.hours[hour].entries["backup"].Ran; got != want {
				t.Errorf("hour %d has %d runs, want %d", hour, got, want)
			}
		}
	})
}
