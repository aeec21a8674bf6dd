package record

import (
	"testing"
	"time"
)

func TestLosses(t *testing.T) {
	a, b := MarkPeel("a"), MarkPeel("b")
	all := NewLosses(map[Mark]Loss{a: {5, 3, 2}, b: {100_000, 1, 0}}).All()
	if len(all) != 2 || all[a] != (Loss{5, 3, 2}) || all[b] != (Loss{65_535, 1, 0}) {
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
	taken := NewLosses(map[Mark]Loss{MarkPeel("a"): {5, 3, 2}})
	f := Facts{Since: noon, Taken: taken}
	if since, got := f.Window(noon.Add(FactsWindow - 1)); !since.Equal(noon) || len(got) != len(taken) {
		t.Errorf("within the window: %v %v", since, got)
	}
	later := noon.Add(FactsWindow)
	if since, got := f.Window(later); !since.Equal(later) || got != nil {
		t.Errorf("after it: %v %v", since, got)
	}
	f.Hash = "h1"
	if since, got := f.Window(later); !since.Equal(noon) || got == nil {
		t.Errorf("while a change waits: %v %v", since, got)
	}
}
