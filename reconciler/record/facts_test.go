package record

import (
	"testing"
	"time"
)

func TestLosses(t *testing.T) {
	a, b := MarkPeel("a"), MarkPeel("b")
	now := time.Unix(1_800_000_000, 0)
	all := NewLosses(map[Mark]DatedLoss{a: {Loss{5, 3, 2}, now}, b: {Loss{100_000, 1, 0}, now.Add(-time.Hour)}}).Within(now)
	if len(all) != 2 || all[a] != (DatedLoss{Loss{5, 3, 2}, now}) || all[b] != (DatedLoss{Loss{65_535, 1, 0}, now.Add(-time.Hour)}) {
		t.Errorf("%v", all)
	}
	if got := all[a].Add(Loss{4, 1, 1}); got != (Loss{5, 4, 3}) {
		t.Errorf("a peel that loses more: %v", got)
	}
	if got := all[a].Add(Loss{5, 3, 3}).Add(Loss{5, 3, 3}); got != (Loss{5, 5, 5}) {
		t.Errorf("a peel that changes there and back: %v", got)
	}
	if got := (Loss{}).Add(Loss{7, 2, 1}); got != (Loss{7, 2, 1}) {
		t.Errorf("the first loss: %v", got)
	}
}

func TestWhatFactsTookCountsForADay(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	a, b := MarkPeel("a"), MarkPeel("b")
	taken := NewLosses(map[Mark]DatedLoss{a: {Loss{5, 3, 2}, noon}, b: {Loss{5, 1, 1}, noon.Add(23 * time.Hour)}})
	for after, want := range map[time.Duration][]Mark{FactsWindow - 1: {a, b}, FactsWindow: {b}, FactsWindow + 23*time.Hour: {}} {
		got := taken.Within(noon.Add(after))
		if len(got) != len(want) {
			t.Errorf("%v after noon %d losses count, want %d", after, len(got), len(want))
		}
		for _, mark := range want {
			if got[mark].Had != 5 {
				t.Errorf("%v after noon: %+v", after, got[mark])
			}
		}
	}
}
