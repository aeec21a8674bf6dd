package ledger

import (
	"testing"
	"time"
)

// A list of an entry that fires each five minutes and fails each seventh time tells all fires of seven days, also after its parts were
// stored and read.
func TestAListTellsForSevenDaysWhatItHasForgotten(t *testing.T) {
	begin := noon.Add(-9 * 24 * time.Hour)
	l, stored := List{From: begin}, List{}
	marks := Marks{}.Add(Mark{Kind: Starts, At: begin})
	n := 0
	for at := begin; at.Before(noon); at = at.Add(5 * time.Minute) {
		f := Fire{Era: 1, Nominal: at, Outcome: Ran}
		if n++; n%7 == 0 {
			f.Outcome = Failed
		}
		l.Put(f)
		if code := l.Forget(marks, at); code != nil {
			if err := stored.RestorePast(code); err != nil {
				t.Fatal(err)
			}
		}
	}
	stored.Restore(l.Runs())
	stored.From, stored.PastFrom = l.From, l.PastFrom
	for name, l := range map[string]*List{"the list": &l, "what was stored": &stored} {
		runs, since, err := l.Between(noon.Add(-7*24*time.Hour), noon.Add(-time.Minute))
		if err != nil || !since.Equal(noon.Add(-7*24*time.Hour-5*time.Minute).Truncate(time.Hour)) {
			t.Errorf("%s tells since %v, %v", name, since, err)
		}
		count, failed := 0, 0
		for _, r := range runs {
			count += r.Count
			if r.Outcome == Failed {
				failed += r.Count
			}
		}
		if count != 7*24*12 || failed != 7*24*12/7 {
			t.Errorf("%s tells %d fires, of which %d failed", name, count, failed)
		}
	}
	if got := l.Len(); got > 49*12 {
		t.Errorf("the list itself has %d fires", got)
	}
	if runs, _, _ := l.Between(begin, noon.Add(-6*24*time.Hour-time.Second)); len(runs) == 0 || runs[0].Nominal.Before(noon.Add(-7*24*time.Hour-2*time.Hour)) {
		t.Errorf("of the first of seven days it tells %v", runs)
	}
}

// Fires that differ take more room: the oldest go, and the list says since when it has all.
func TestThePastOfAnEntryIsBounded(t *testing.T) {
	l := List{From: noon}
	marks := Marks{}.Add(Mark{Kind: Starts, At: noon})
	end := noon.Add(8 * 24 * time.Hour)
	for i, at := 0, noon; at.Before(end); i, at = i+1, at.Add(45*time.Second) {
		l.Put(Fire{Era: 1, Nominal: at, Outcome: Ran, Late: i%2 == 0})
		l.Forget(marks, at)
	}
	size := 0
	for _, code := range l.PastParts() {
		size += len(code)
	}
	runs, since, err := l.Between(noon, end)
	if err != nil || size > maxPast || size < maxPast/2 {
		t.Fatalf("%d bytes, %v", size, err)
	}
	if since.Before(end.Add(-KeptPast).Add(time.Hour)) || !since.Before(l.From) || runs[0].Nominal.Before(since) || runs[0].Nominal.Sub(since) > time.Hour {
		t.Errorf("it tells all since %v, the first is of %v", since, runs[0].Nominal)
	}
}

// A part that goes, and leaves room for the next one, may have had any fire up to its newest.
func TestWhenAPartGoesTheListBeginsAfterIt(t *testing.T) {
	part := func(from time.Time) []byte {
		var runs []Run
		for i := range 2000 {
			runs = append(runs, Run{Fire: Fire{Era: 1, Nominal: from.Add(time.Duration(i) * time.Second), Outcome: Ran, Late: i%2 == 0}, Count: 1})
		}
		return AppendRuns(nil, runs)
	}
	first, second := noon.Add(-72*time.Hour), noon.Add(-60*time.Hour)
	l := List{From: noon.Add(-Kept), PastFrom: first}
	for _, from := range []time.Time{first, second} {
		if err := l.RestorePast(part(from)); err != nil {
			t.Fatal(err)
		}
	}
	runs, since, err := l.Between(first, noon)
	n := 0
	for _, r := range runs {
		n += r.Count
	}
	if want := first.Add(2000 * time.Second); err != nil || n != 2000 || !runs[0].Nominal.Equal(second) || !since.Equal(want) {
		t.Errorf("%d fires, complete since %v, want %v; %v", n, since, want, err)
	}
}

// Of an hour that is kept as numbers the list cannot tell a part: it tells all of it, up to its last fire.
func TestAPartOfAnHourThatIsKeptAsNumbersIsToldWhole(t *testing.T) {
	l := List{From: noon}
	for i := range 180 {
		l.Put(ran(1, noon.Add(time.Duration(i)*10*time.Second)))
	}
	for _, c := range []struct {
		from, to time.Duration
		want     int
	}{{-time.Hour, -time.Second, 0}, {-time.Hour, 0, 180}, {20 * time.Minute, time.Hour, 180}, {30 * time.Minute, time.Hour, 0}} {
		runs, _, err := l.Between(noon.Add(c.from), noon.Add(c.to))
		n := 0
		for _, r := range runs {
			n += r.Count
		}
		if err != nil || n != c.want {
			t.Errorf("from %v to %v it tells %d fires, want %d; %v", c.from, c.to, n, c.want, err)
		}
	}
}

// A part has fires of two settings of the clock, and the last in its order is not the newest.
func TestAPartIsKeptAsLongAsItsNewestFire(t *testing.T) {
	newest := noon.Add(-KeptPast + 12*time.Hour)
	parts := AppendRuns(nil, []Run{{Fire: ran(1, newest), Count: 1}, {Fire: ran(2, newest.Add(-48*time.Hour)), Count: 1}})
	l := List{From: noon.Add(-Kept), PastFrom: noon.Add(-30 * 24 * time.Hour)}
	if err := l.RestorePast(parts); err != nil {
		t.Fatal(err)
	}
	l.Forget(Marks{}.Add(Mark{Kind: Starts, At: noon.Add(-30 * 24 * time.Hour)}), noon)
	if runs, _, err := l.Between(newest, newest); err != nil || len(runs) != 1 {
		t.Errorf("%v, %v", runs, err)
	}
}
