package ledger

import (
	"slices"
	"testing"
	"time"
)

// 120 decided fires of an hour are kept one by one, and all of 121 as a number. Later times of the hour are in no number.
func TestAnHourBecomesANumberWithItsNextFire(t *testing.T) {
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	at := func(i int) time.Time { return noon.Add(time.Duration(i) * 20 * time.Second) }
	var l List
	for i := range maxSingle {
		l.Put(Fire{Nominal: at(i), Outcome: Ran})
	}
	if _, ok := l.Find(0, Timer, at(7)); !ok || l.Len() != maxSingle {
		t.Errorf("%d fires are kept as %d, one of them alone: %v", maxSingle, l.Len(), ok)
	}
	last := at(maxSingle)
	l.Put(Fire{Nominal: last, Outcome: Ran})
	if _, ok := l.Find(0, Timer, at(7)); ok || l.Len() != 1 {
		t.Errorf("%d fires are kept as %d, one of them alone: %v", maxSingle+1, l.Len(), ok)
	}
	for nominal, want := range map[time.Time]int{at(7): 1, last: 1, last.Add(time.Second): 0} {
		n := 0
		for range l.Outcomes(Timer, nominal) {
			n++
		}
		if n != want {
			t.Errorf("the fire of %v has %d outcomes, want %d", nominal.Sub(noon), n, want)
		}
	}
}

// A process that starts with a clock behind the last record shows that the clock was set back by that much at least.
func TestAClockThatIsBehindAtAStartWasSetBack(t *testing.T) {
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	m := Marks{}.Add(Mark{Kind: Starts, At: noon}).Add(Mark{Kind: Starts, At: noon.Add(time.Hour), Old: noon.Add(3 * time.Hour)}).
		Add(Mark{Kind: Clock, At: noon.Add(2 * time.Hour), Step: 10 * time.Minute}).
		Add(Mark{Kind: Starts, At: noon.Add(3 * time.Hour), Step: time.Minute, Known: true})
	for era, want := range map[uint32]time.Duration{1: -109 * time.Minute, 2: 11 * time.Minute, 3: time.Minute, 4: 0} {
		if got := m.Shift(era); got != want {
			t.Errorf("since era %d the clock was set by %v, want %v", era, got, want)
		}
	}
	if got, want := m.reaches(1, noon), noon.Add(109*time.Minute); !got.Equal(want) {
		t.Errorf("the first clock showed %v, want %v", got, want)
	}
}

// Of a fire that was written twice, the last form counts.
func TestSortedFiresHaveTheLastForm(t *testing.T) {
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	fire := Fire{Era: 1, Nominal: noon, Outcome: Pending, Why: Runs}
	ended := Fire{Era: 1, Nominal: noon, Outcome: Failed}
	hand := Fire{Era: 1, Nominal: noon, Class: Hand, Outcome: Ran}
	if got := Sorted([]Fire{fire, hand, ended}); !slices.Equal(got, []Fire{ended, hand}) {
		t.Errorf("%v", got)
	}
}
