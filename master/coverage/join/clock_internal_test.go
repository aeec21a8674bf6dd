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

// A host boots several times, and no report arrives: its clock goes on while it is down, unless its marks contradict that.
func TestAClockGoesOnWhileTheHostBoots(t *testing.T) {
	const day = 24 * time.Hour
	began := time.Unix(1_780_000_000, 0)
	at := func(d time.Duration) time.Time { return began.Add(d) }
	boots := func(old, first time.Duration) ledger.Mark {
		return ledger.Mark{Kind: ledger.Starts, Old: at(old), At: at(first)}
	}
	set := func(old, step time.Duration) ledger.Mark {
		return ledger.Mark{Kind: ledger.Clock, Old: at(old), At: at(old + step), Step: step}
	}
	down := func(old, first, step time.Duration) ledger.Mark {
		return ledger.Mark{Kind: ledger.Starts, Old: at(old), At: at(first), Step: step, Known: true}
	}
	const h = time.Hour
	for name, c := range map[string]struct {
		marks    []ledger.Mark
		measured time.Duration // of the first era
		want     []time.Duration
	}{
		"a day behind, right, and a day behind until the second boot": {
			[]ledger.Mark{boots(h-day, 2*h-day), set(3*h-day, day), down(5*h, 6*h-day, -day), boots(7*h-day, 8*h)},
			-day,
			[]time.Duration{-day, -day, 0, -day, 0},
		},
		"a day ahead over a boot": {
			[]ledger.Mark{boots(h, 2*h+day), boots(3*h+day, 4*h+day), set(5*h+day, -day)},
			0,
			[]time.Duration{0, day, day, 0},
		},
		"what a report shows is not corrected": {[]ledger.Mark{boots(8*h, 7*h)}, 0, []time.Duration{0, 0}},
		"an hour behind at a boot, by less than it was down": {
			[]ledger.Mark{boots(2*h, h), boots(90*time.Minute, 4*h), down(5*h, 6*h, 0)},
			0,
			[]time.Duration{0, -h, 0, 0},
		},
	} {
		marks := ledger.Marks{}.Add(ledger.Mark{Kind: ledger.Starts, At: at(c.measured)})
		for _, m := range c.marks {
			marks = marks.Add(m)
		}
		measured := []Measured{{Era: 1, Began: at(c.measured).Unix(), Error: int64(c.measured.Seconds())}}
		for i, e := range clocksOf(marks, at(9*h), at(9*h), measured)[1:] {
			if got := time.Duration(e.error) * time.Second; got != c.want[i] {
				t.Errorf("%s: the clock of era %d was %v ahead, want %v", name, e.number, got, c.want[i])
			}
		}
	}
}

// It is known when a process ended if the host did not boot, or if its clock cannot have been as wrong as the next one.
func TestWhenAProcessEndedIsKnown(t *testing.T) {
	const day, h = 24 * time.Hour, time.Hour
	began := time.Unix(1_780_000_000, 0)
	at := func(d time.Duration) time.Time { return began.Add(d) }
	boots := func(old, first time.Duration) ledger.Mark {
		return ledger.Mark{Kind: ledger.Starts, Old: at(old), At: at(first)}
	}
	boot := func(old time.Duration) ledger.Mark { return boots(old, old+h) }
	setBack := ledger.Mark{Kind: ledger.Starts, Old: at(3 * h), At: at(3 * h), Step: -h, Known: true}
	right := []Measured{{Era: 1, Began: began.Unix()}}
	aDayAhead := []Measured{{Era: 1, Began: began.Unix(), Error: int64(day.Seconds())}}
	for name, c := range map[string]struct {
		marks    []ledger.Mark // of the second and later eras
		measured []Measured
		ahead    time.Duration // of the newest clock
		era      int           // before which the host was down
		isDown   bool
	}{
		"it may have been as wrong": {[]ledger.Mark{boot(h), boots(3*h, 4*h+day)}, nil, day, 3, false},
		"it would have begun before an era that is measured": {
			[]ledger.Mark{boot(h), boots(3*h, 4*h+day)}, right, day, 3, true,
		},
		"it would not have begun before an era that is measured": {
			[]ledger.Mark{boots(h, 2*h+day), boot(3*h + day)}, right, day, 3, false,
		},
		"it would not have begun before an era that is measured as wrong": {
			[]ledger.Mark{boot(h), boot(3 * h)}, aDayAhead, day, 3, false,
		},
		"the step to an era that it would have begun before is known": {
			[]ledger.Mark{boot(h), setBack, boots(4*h, 6*h)}, right, h, 4, true,
		},
		"the host did not boot": {
			[]ledger.Mark{
				boot(h),
				setBack,
				{Kind: ledger.Clock, Old: at(4 * h), At: at(5 * h), Step: h},
				boot(6 * h),
			}, nil, 0, 3, true,
		},
	} {
		marks := ledger.Marks{}.Add(ledger.Mark{Kind: ledger.Starts, At: began})
		for _, m := range c.marks {
			marks = marks.Add(m)
		}
		clocks := clocksOf(marks, at(8*h+c.ahead), at(8*h), c.measured)
		e := &clocks[c.era]
		if got, _ := clocks.isDown(e.real(e.first) - 1800); got != c.isDown {
			t.Errorf("%s: that it was down is known: %v, want %v", name, got, c.isDown)
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
