package join

import (
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/ledger"
)

func TestTheErrorOfAnEarlierEraIsKnownFromItsMarksAlone(t *testing.T) {
	began := time.Unix(1_780_000_000, 0)
	later := began.Add(10 * time.Hour)
	for name, c := range map[string]struct {
		second   ledger.Mark
		measured Measured
		want     int64
	}{
		"measured":                  {ledger.Mark{}, Measured{Era: 1, Began: began.Unix(), Error: 5000}, 5000},
		"another ledger":            {ledger.Mark{}, Measured{Era: 1, Began: began.Unix() - 100, Error: 5000}, 0},
		"another era":               {ledger.Mark{}, Measured{Era: 2, Began: began.Unix(), Error: 5000}, 0},
		"ahead at the end":          {ledger.Mark{Old: later.Add(time.Hour)}, Measured{}, 3600},
		"ahead as clocks may be":    {ledger.Mark{Old: later.Add(time.Minute)}, Measured{}, 0},
		"set by as much as is told": {ledger.Mark{Known: true, Step: -time.Hour}, Measured{}, 3600},
	} {
		c.second.Kind, c.second.At = ledger.Starts, later
		marks := ledger.Marks{}.Add(ledger.Mark{Kind: ledger.Starts, At: began}).Add(c.second)
		made := later.Add(time.Hour)
		list := clocksOf(marks, made, made, []Measured{c.measured})
		if got := list[list.find(1)].error; got != c.want {
			t.Errorf("%s: the clock of the first era was %d s ahead, want %d", name, got, c.want)
		}
		if got := list.find(99); got != 0 {
			t.Errorf("%s: an era that has no mark is number %d, want the one before all marks", name, got)
		}
	}
}

// A host boots with a clock that shows less than before, it is set a little, and the host boots again with the right time.
func TestAnEraDoesNotBeginBeforeTheLastRecordOfTheOneBefore(t *testing.T) {
	began := time.Unix(1_780_000_000, 0)
	at := func(d time.Duration) time.Time { return began.Add(d) }
	marks := ledger.Marks{}.Add(ledger.Mark{Kind: ledger.Starts, At: began}).
		Add(ledger.Mark{Kind: ledger.Starts, Old: at(3 * time.Hour), At: at(2 * time.Hour)}).
		Add(ledger.Mark{Kind: ledger.Clock, Old: at(150 * time.Minute), At: at(160 * time.Minute), Step: 10 * time.Minute}).
		Add(ledger.Mark{Kind: ledger.Starts, Old: at(170 * time.Minute), At: at(5 * time.Hour)})
	c := clocksOf(marks, at(6*time.Hour), at(6*time.Hour), []Measured{{Era: 1, Began: began.Unix()}})
	for i, want := range []int64{0, 0, -3600, -3000, 0} {
		if c[i].error != want {
			t.Errorf("the clock of era %d was %d s ahead, want %d", i, c[i].error, want)
		}
	}
}

// A time is missed up to the moment at which the process started, also if the clock was set since.
func TestATimeIsMissedUpToTheStart(t *testing.T) {
	down := time.Unix(1_780_000_000, 0)
	up, set := down.Add(time.Hour), down.Add(3*time.Hour)
	marks := ledger.Marks{}.Add(ledger.Mark{Kind: ledger.Starts, At: down.Add(-time.Hour)}).
		Add(ledger.Mark{Kind: ledger.Starts, At: up, Old: down, Known: true}).
		Add(ledger.Mark{Kind: ledger.Clock, At: set, Old: set.Add(-5 * time.Second), Step: 5 * time.Second})
	made := set.Add(time.Hour)
	c := clocksOf(marks, made, made, nil)
	for _, w := range []struct {
		at   time.Time
		want bool
	}{{down, false}, {down.Add(time.Second), true}, {up, true}, {up.Add(time.Second), false}, {set, true}} {
		if is, _ := c.isMissed(c.find(3), w.at.Unix()); is != w.want {
			t.Errorf("%v was missed: %v, want %v", w.at.Sub(down), is, w.want)
		}
	}
}

func TestPeriodsMeetAGap(t *testing.T) {
	p := periods{{10, 20}, {40, 50}}
	for _, c := range []struct {
		first, last int64
		want        bool
	}{{1, 9, false}, {5, 10, true}, {5, 60, true}, {15, 16, true}, {20, 30, true}, {21, 39, false}, {51, 60, false}} {
		if got := p.meets(c.first, c.last); got != c.want {
			t.Errorf("from %d to %d: %v, want %v", c.first, c.last, got, c.want)
		}
	}
}

// Runs that no plan asked for stay in the hours when the list of the peel has forgotten them.
func TestUnexpectedRunsStay(t *testing.T) {
	was := Hour{Hour: 100, Counts: verdict.Counts{Unexpected: 1}, Reasons: []Reason{{Unexpected, ByHand, 1}}}
	if got := Replace([]Hour{was}, nil, Bounds{Oldest: 90}); len(got) != 1 || got[0].Counts != was.Counts {
		t.Errorf("%+v", got)
	}
	if got := Replace([]Hour{was}, nil, Bounds{Oldest: 101}); len(got) != 0 {
		t.Errorf("an hour before the oldest stays: %+v", got)
	}
}
