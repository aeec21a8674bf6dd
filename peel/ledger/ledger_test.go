package ledger

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)

func ran(era uint32, at time.Time) Fire { return Fire{Era: era, Nominal: at, Outcome: Ran} }

func TestTheEndOfAFireReplacesItWhereItWasPending(t *testing.T) {
	var l List
	f := Fire{Era: 1, Nominal: noon, Outcome: Pending, Why: Splay}
	l.Put(f)
	l.Put(Fire{Era: 1, Class: Hand, Nominal: noon, Outcome: Failed})
	l.Put(Fire{Era: 2, Nominal: noon, Outcome: Missed, Why: Down})
	f.Outcome, f.Why, f.Late = Ran, "", true
	l.Put(f)
	want := []Fire{f, {Era: 1, Class: Hand, Nominal: noon, Outcome: Failed}, {Era: 2, Nominal: noon, Outcome: Missed, Why: Down}}
	if got := slices.Collect(l.All()); !slices.Equal(got, want) {
		t.Errorf("the list is %v, want %v", got, want)
	}
	for _, has := range []struct {
		era   uint32
		class Class
		at    time.Time
		want  bool
	}{{1, Timer, noon, true}, {1, Needs, noon, false}, {2, Timer, noon, true}, {2, Hand, noon, false}, {1, Timer, noon.Add(time.Second), false}} {
		if got := l.Has(has.era, has.class, has.at); got != has.want {
			t.Errorf("Has(%d, %s, %v) is %v", has.era, has.class, has.at, got)
		}
	}
}

func TestManyFiresOfAnHourAreKeptAsNumbers(t *testing.T) {
	var l List
	for i := range 360 {
		f := ran(1, noon.Add(time.Duration(i)*10*time.Second))
		if i%10 == 0 {
			f.Outcome = Failed
		}
		l.Put(Fire{Era: 1, Nominal: f.Nominal, Outcome: Pending, Why: Runs})
		l.Put(f)
	}
	waits := Fire{Era: 1, Nominal: noon.Add(time.Hour - time.Second), Outcome: Pending, Why: Waits}
	l.Put(waits)
	for range 2 {
		runs := l.Runs()
		numbers := map[Outcome]int{}
		for _, r := range runs {
			numbers[r.Outcome] += r.Count
		}
		if want := map[Outcome]int{Ran: 324, Failed: 36, Pending: 1}; !reflect.DeepEqual(numbers, want) || len(runs) > 10 {
			t.Errorf("%d runs with %v, want %v", len(runs), numbers, want)
		}
		if last := noon.Add(3590 * time.Second); !l.Has(1, Timer, last.Add(-1800*time.Second)) || !l.Has(1, Timer, last) || l.Has(1, Timer, last.Add(5*time.Second)) {
			t.Error("the numbers of an hour are not those up to the newest fire of it")
		}
		parsed, err := ParseRuns(AppendRuns(nil, runs))
		if err != nil || !reflect.DeepEqual(parsed, runs) {
			t.Errorf("%v %v, want %v", parsed, err, runs)
		}
		l = List{}
		l.Restore(parsed)
	}
}

func TestAListForgetsWhatIsOlderThanTwoDays(t *testing.T) {
	l := List{From: noon.Add(-100 * time.Hour)}
	marks := Marks{}.Add(Mark{Kind: Starts, At: noon.Add(-100 * time.Hour)}).
		Add(Mark{Kind: Clock, At: noon.Add(-10 * time.Hour), Old: noon.Add(14 * time.Hour), Step: -24 * time.Hour})
	ahead := ran(1, noon.Add(-30*time.Hour)) // by a clock that was a day ahead: 54 hours ago
	same := ran(1, noon.Add(-20*time.Hour))
	old := ran(2, noon.Add(-49*time.Hour))
	held := Fire{Era: 2, Nominal: noon.Add(-60 * time.Hour), Outcome: Pending, Why: Held}
	fresh := ran(2, noon.Add(-47*time.Hour))
	for _, f := range []Fire{ahead, same, old, held, fresh} {
		l.Put(f)
	}
	l.Mark(Mark{Kind: Begins, Era: 1, At: noon.Add(-100 * time.Hour)})
	l.Forget(marks, noon)
	if got, want := slices.Collect(l.All()), []Fire{same, held, fresh}; !slices.Equal(got, want) {
		t.Errorf("the list is %v, want %v", got, want)
	}
	if !l.From.Equal(noon.Add(-48*time.Hour)) || len(l.Marks) != 1 {
		t.Errorf("it is complete from %v on, with %v", l.From, l.Marks)
	}
	l.Forget(Marks{{Kind: Clock, Era: 3, At: noon}}, noon)
	if got, want := slices.Collect(l.All()), []Fire{held}; !slices.Equal(got, want) {
		t.Errorf("of eras that have no mark it has %v, want %v", got, want)
	}
}

// An entry that is active for the first time after its host has had it for days has all its fires since then, and not since before.
func TestAListThatNeverBeganIsCompleteFromNoTime(t *testing.T) {
	var l List
	marks := Marks{}.Add(Mark{Kind: Starts, At: noon.Add(-240 * time.Hour)})
	for i := range 10 {
		l.Forget(marks, noon.Add(time.Duration(i-10)*24*time.Hour))
	}
	if !l.From.IsZero() || !l.PastFrom.IsZero() {
		t.Errorf("it is complete from %v on, with what it has forgotten from %v on", l.From, l.PastFrom)
	}
	l.From = noon
	l.Forget(marks, noon)
	if _, since, err := l.Between(noon.Add(-time.Hour), noon); !since.Equal(noon) || err != nil {
		t.Errorf("it tells since %v, %v", since, err)
	}
	for len(marks) < MaxMarks {
		marks = marks.Add(Mark{Kind: Clock, At: noon})
	}
	l = List{}
	if l.Forget(marks, noon); !l.From.IsZero() {
		t.Errorf("with all marks it is complete from %v on", l.From)
	}
}

func TestTheOldestMarksGo(t *testing.T) {
	var marks Marks
	var l List
	for i := range 70 {
		marks = marks.Add(Mark{Kind: Clock, At: noon.Add(time.Duration(i) * time.Minute)})
		l.Mark(Mark{Kind: Begins, Era: marks.Era(), At: marks[len(marks)-1].At})
	}
	if len(marks) != MaxMarks || marks[0].Era != 7 || marks.Era() != 70 {
		t.Errorf("%d marks, from era %d to %d", len(marks), marks[0].Era, marks.Era())
	}
	if len(l.Marks) != MaxMarks || !l.From.Equal(noon.Add(6*time.Minute)) {
		t.Errorf("%d marks of an entry, from %v", len(l.Marks), l.From)
	}
}

func TestEqualFiresAreOneRun(t *testing.T) {
	var fires []Fire
	for i := range 576 {
		fires = append(fires, ran(3, noon.Add(time.Duration(i)*5*time.Minute)))
	}
	fires[100].Outcome = Failed
	fires[200].Late = true
	runs := Group(fires)
	if len(runs) != 5 || runs[0].Count != 100 || runs[0].Step != 5*time.Minute || runs[1].Outcome != Failed {
		t.Errorf("%d runs: %+v", len(runs), runs)
	}
	b := AppendRuns(nil, runs)
	if len(b) > 40 {
		t.Errorf("%d fires take %d bytes", len(fires), len(b))
	}
	if got, err := ParseRuns(b); err != nil || !reflect.DeepEqual(got, runs) {
		t.Errorf("%v %v, want %v", got, err, runs)
	}
}

func TestWhatANewerVersionWritesIsOther(t *testing.T) {
	var l List
	l.Restore([]Run{{Fire: ran(0, noon), Count: 1}})
	f := code(6<<outcomeShift|7<<classShift|1000<<reasonShift).fire(1, noon.Unix())
	if f.Outcome != Other || f.Class != OtherClass || f.Why != OtherReason {
		t.Errorf("%v %v %v", f.Class, f.Outcome, f.Why)
	}
	if words := fmt.Sprint(f.Class, f.Outcome, Timer, Missed); words != "other other timer missed" {
		t.Error(words)
	}
}

func TestBadRunsAreRefused(t *testing.T) {
	for name, b := range map[string][]byte{
		"cut":              {0x80},
		"no code":          {2},
		"no count":         {2, 3, 60},
		"too many":         {2, 3, 1, 0xff, 0xff, 0xff, 1},
		"no step":          {2, 3, 0, 5},
		"back in time":     {4, 2, 1, 2},
		"an era before":    {2, eraMark, 1, eraMark},
		"an era twice":     {2, eraMark, 0, eraMark},
		"beyond all time":  {0xfe, 0xff, 0xff, 0xff, 0xff, 0x1f, 2},
		"an end beyond it": {2, 3, 0xff, 0xff, 0xff, 0xff, 0x0f, 10},
	} {
		if runs, err := ParseRuns(b); err == nil {
			t.Errorf("%s: %v", name, runs)
		}
	}
}

// TestRandomLists compares a list with a map.
func TestRandomLists(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var l List
		type key struct {
			era   uint32
			class Class
			at    time.Time
		}
		want := map[key]Fire{}
		for range 100 {
			f := Fire{
				Era: r.Uint32N(3), Class: Class(r.IntN(4)), Nominal: noon.Add(time.Duration(r.IntN(100)) * time.Minute),
				Outcome: Outcome(r.IntN(6)), Why: reasons[r.IntN(len(reasons)-1)], Late: r.IntN(2) == 0, Overran: r.IntN(2) == 0,
			}
			l.Put(f)
			want[key{f.Era, f.Class, f.Nominal}] = f
		}
		var back List
		runs, err := ParseRuns(AppendRuns(nil, l.Runs()))
		back.Restore(runs)
		got := slices.Collect(back.All())
		if err != nil || len(got) != len(want) || !slices.Equal(got, slices.Collect(l.All())) {
			t.Fatalf("seed %d: %d fires, want %d, %v", seed, len(got), len(want), err)
		}
		for _, f := range got {
			if want[key{f.Era, f.Class, f.Nominal}] != f {
				t.Fatalf("seed %d: %v, want %v", seed, f, want[key{f.Era, f.Class, f.Nominal}])
			}
		}
	}
}

func FuzzParseRuns(f *testing.F) {
	f.Add(AppendRuns(nil, Group([]Fire{ran(1, noon), ran(1, noon.Add(time.Minute)), ran(1, noon.Add(2*time.Minute)), ran(2, noon)})))
	f.Add(AppendRuns(nil, []Run{{Fire: ran(1, noon), Hour: true, Step: time.Minute, Count: 500}, {Fire: ran(1, noon), Count: 1}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		runs, err := ParseRuns(b)
		if err != nil {
			return
		}
		again, err := ParseRuns(AppendRuns(nil, runs))
		if err != nil || len(runs) > 0 && !reflect.DeepEqual(again, runs) {
			t.Fatalf("%v %v, want %v", again, err, runs)
		}
	})
}

func BenchmarkRuns(b *testing.B) {
	var l List
	for i := range 576 {
		l.Put(ran(1, noon.Add(time.Duration(i)*5*time.Minute)))
	}
	for b.Loop() {
		if _, err := ParseRuns(AppendRuns(nil, l.Runs())); err != nil {
			b.Fatal(err)
		}
	}
}

// The clock goes back within an hour that is kept as numbers: those up to its newest fire stay known.
func TestAnEarlierFireLeavesTheNewestOfItsHour(t *testing.T) {
	var l List
	for i := range maxSingle + 1 {
		l.Put(ran(1, noon.Add(time.Duration(i)*20*time.Second)))
	}
	newest := noon.Add(maxSingle * 20 * time.Second)
	l.Put(ran(1, noon.Add(time.Second)))
	if !l.Has(1, Timer, newest) || l.Has(1, Timer, newest.Add(time.Second)) {
		t.Errorf("of the hour there are the numbers %+v", l.Runs())
	}
}

// A mark that was made by a clock that was days ahead is as old as by the clock of now.
func TestAMarkOfAClockThatWasAheadIsForgotten(t *testing.T) {
	const ahead = 72 * time.Hour
	peel := Marks{}.Add(Mark{Kind: Starts, At: noon.Add(ahead)})
	l := List{From: noon.Add(ahead)}
	l.Mark(Mark{Kind: Begins, Era: peel.Era(), At: noon.Add(ahead)})
	l.Mark(Mark{Kind: Rests, Era: peel.Era(), At: noon.Add(ahead + time.Minute)})
	peel = peel.Add(Mark{Kind: Clock, At: noon.Add(time.Hour), Old: noon.Add(ahead + time.Hour), Step: -ahead})
	l.Mark(Mark{Kind: Begins, Era: peel.Era(), At: noon.Add(2 * time.Hour)})
	l.Forget(peel, noon.Add(Kept))
	if len(l.Marks) != 3 {
		t.Errorf("after two days it has %v", l.Marks)
	}
	l.Forget(peel, noon.Add(Kept+90*time.Minute))
	if len(l.Marks) != 1 || l.Marks[0].Era != 2 {
		t.Errorf("an hour later it has %v", l.Marks)
	}
}
