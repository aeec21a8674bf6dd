package ledger

import (
	"slices"
	"testing"
	"time"
)

func TestWhichFireIsPending(t *testing.T) {
	var l List
	put := func(era uint32, minute int, o Outcome) {
		l.Put(Fire{Era: era, Class: Timer, Nominal: noon.Add(time.Duration(minute) * time.Minute), Outcome: o})
	}
	put(1, 0, Pending)
	put(1, 1, Pending)
	put(2, 1, Pending)
	put(1, 2, Pending)
	put(2, 2, Ran)
	put(1, 3, Ran)
	for minute, era := range []uint32{1, 2, 1, 0, 0} {
		f, ok := l.Pending(Timer, noon.Add(time.Duration(minute)*time.Minute))
		if ok != (era != 0) || ok && (f.Era != era || f.Outcome != Pending) {
			t.Errorf("minute %d: era %d, %v, want %d", minute, f.Era, ok, era)
		}
	}
	if f, ok := l.Pending(Class(Timer+1), noon); ok {
		t.Errorf("of another class: %v", f)
	}
}

func TestACopyOfAListSharesNothing(t *testing.T) {
	l := List{From: noon, PastFrom: noon.Add(time.Hour), Marks: []Mark{{At: noon}}}
	for n := range maxSingle + 5 {
		l.Put(Fire{Class: Timer, Nominal: noon.Add(time.Duration(n) * time.Second), Outcome: Ran})
	}
	l.Put(Fire{Class: Timer, Nominal: noon.Add(2 * time.Hour), Outcome: Ran})
	c := l.Clone()
	if !c.From.Equal(l.From) || !c.PastFrom.Equal(l.PastFrom) || len(c.Marks) != 1 || !slices.Equal(c.Runs(), l.Runs()) {
		t.Errorf("%+v", c)
	}
	before := c.Runs()
	l.Marks[0].At = noon.Add(time.Hour)
	l.Put(Fire{Class: Timer, Nominal: noon.Add(time.Minute), Outcome: Ran})
	l.Put(Fire{Class: Timer, Nominal: noon.Add(2 * time.Hour), Outcome: Failed})
	if !slices.Equal(c.Runs(), before) || !c.Marks[0].At.Equal(noon) {
		t.Error("a change of the list changes its copy")
	}
}

func TestADoubtBeginsTheListAnew(t *testing.T) {
	l := List{From: noon, PastFrom: noon.Add(-time.Hour)}
	l.Put(Fire{Class: Timer, Nominal: noon, Outcome: Ran})
	l.DoubtBefore(noon.Add(time.Hour))
	if !l.From.Equal(noon.Add(time.Hour)) || !l.PastFrom.IsZero() || l.Len() != 1 {
		t.Errorf("%+v", l)
	}
	var never List
	if never.DoubtBefore(noon); !never.From.IsZero() {
		t.Errorf("an entry that was never active has fires since %v", never.From)
	}
}

// Fires are forgotten by whole hours, 48 hours after they were decided. What is pending stays.
func TestWhichFiresAreForgotten(t *testing.T) {
	now := noon.Add(49*time.Hour + 30*time.Minute)
	var l List
	l.From = noon.Add(-time.Hour)
	for _, minute := range []int{-30, 0, 59, 60, 61} {
		l.Put(Fire{Class: Timer, Nominal: noon.Add(time.Duration(minute) * time.Minute), Outcome: Ran})
	}
	l.Put(Fire{Class: Timer, Nominal: noon.Add(-45 * time.Minute), Outcome: Pending})
	l.Forget(nil, now)
	var left []int
	for f := range l.All() {
		left = append(left, int(f.Nominal.Sub(noon)/time.Minute))
	}
	if !slices.Equal(left, []int{-45, 60, 61}) || !l.From.Equal(noon.Add(time.Hour)) {
		t.Errorf("%v since %v", left, l.From)
	}

	// Of an era that the peel no longer knows nothing stays but what is pending.
	l = List{From: noon}
	l.Put(Fire{Era: 1, Class: Timer, Nominal: noon, Outcome: Ran})
	l.Put(Fire{Era: 2, Class: Timer, Nominal: noon, Outcome: Ran})
	l.Forget(Marks{{Era: 2, At: noon}}, noon.Add(time.Minute))
	if all := slices.Collect(l.All()); len(all) != 1 || all[0].Era != 2 {
		t.Errorf("%v", all)
	}
}

// A host starts with a clock that is a day ahead, for example because it has no battery, and sets it right. Nobody told
// the list of the first step: with the second alone all that ran before the start is a day older than it is.
func TestAClockThatWasAheadAtAStartForgetsNothingEarlier(t *testing.T) {
	const ahead = 24 * time.Hour
	peel := Marks{}.Add(Mark{Kind: Starts, At: noon})
	l := List{From: noon}
	l.Mark(Mark{Kind: Begins, Era: 1, At: noon})
	l.Mark(Mark{Kind: Begins, Era: 1, At: noon.Add(time.Minute)})
	l.Put(Fire{Era: 1, Class: Timer, Nominal: noon.Add(time.Minute), Outcome: Ran})
	peel = peel.Add(Mark{Kind: Starts, At: noon.Add(ahead + 3*time.Hour), Old: noon.Add(2 * time.Hour)})
	peel = peel.Add(Mark{Kind: Clock, At: noon.Add(4 * time.Hour), Old: noon.Add(ahead + 4*time.Hour), Step: -ahead})
	l.Put(Fire{Era: 2, Class: Timer, Nominal: noon.Add(ahead + 3*time.Hour), Outcome: Ran})
	l.Forget(peel, noon.Add(Kept))
	if l.Len() != 2 || len(l.Marks) != 2 {
		t.Errorf("after two days it has %d fires and %v", l.Len(), l.Marks)
	}
	l.Forget(peel, noon.Add(Kept+time.Hour+time.Minute))
	if l.Len() != 1 || len(l.Marks) != 1 {
		t.Errorf("an hour later it has %d fires and %v", l.Len(), l.Marks)
	}

	// A further start says nothing of the step before it: the fire of the clock that was ahead goes in its time.
	at := noon.Add(Kept + 5*time.Hour)
	l.Forget(peel.Add(Mark{Kind: Starts, At: at, Old: at.Add(-time.Minute)}), at)
	if l.Len() != 0 {
		t.Errorf("after another start it has %d fires", l.Len())
	}
}

// The clock of a host is set, and shows 25 hours more after a boot: by how much it was set then, nobody told the list.
func TestAClockThatWasSetBeforeABootForgetsNothingEarlier(t *testing.T) {
	for back, early := range map[time.Duration]time.Duration{
		24 * time.Hour: 0, 30 * time.Hour: 5 * time.Hour, -24 * time.Hour: -24 * time.Hour,
	} {
		peel := Marks{}.Add(Mark{Kind: Starts, At: noon}).
			Add(Mark{Kind: Clock, At: noon.Add(time.Hour - back), Old: noon.Add(time.Hour), Step: -back}).
			Add(Mark{Kind: Starts, At: noon.Add(3*time.Hour + 25*time.Hour - back), Old: noon.Add(3*time.Hour - back)})
		l := List{From: noon}
		l.Put(Fire{Era: 1, Class: Timer, Nominal: noon.Add(time.Minute), Outcome: Ran})
		if l.Forget(peel, noon.Add(Kept-early)); l.Len() != 1 {
			t.Errorf("set back by %v: it has forgotten a fire %v too early", back, early)
		}
		if l.Forget(peel, noon.Add(Kept-early+time.Hour)); l.Len() != 0 {
			t.Errorf("set back by %v: it has a fire an hour too long", back)
		}
	}
}

// While a clock is behind, a list that is complete since a later time stays so: by the right clock it has nothing earlier.
func TestAListThatBeginsLaterThanNowStaysSo(t *testing.T) {
	l := List{From: noon}
	l.Forget(nil, noon.Add(-24*time.Hour))
	if !l.From.Equal(noon) {
		t.Errorf("it is complete since %v", l.From)
	}
}

func TestAListIsShortenedByHalf(t *testing.T) {
	l := List{From: noon}
	for hour := range 10 {
		l.Put(Fire{Class: Timer, Nominal: noon.Add(time.Duration(hour) * time.Hour), Outcome: Ran})
	}
	l.Shorten(nil, noon.Add(9*time.Hour))
	var left []int
	for f := range l.All() {
		left = append(left, int(f.Nominal.Sub(noon)/time.Hour))
	}
	if !slices.Equal(left, []int{4, 5, 6, 7, 8, 9}) || !l.From.Equal(noon.Add(4*time.Hour)) {
		t.Errorf("%v since %v", left, l.From)
	}
}

// What a code of a newer version means comes back as other.
func TestCodesOfANewerVersion(t *testing.T) {
	for n := range len(reasons) + 2 {
		f := code(n<<reasonShift).fire(1, noon.Unix())
		if want := append(slices.Clone(reasons), OtherReason, OtherReason)[n]; f.Why != want || f.Era != 1 || !f.Nominal.Equal(noon) {
			t.Errorf("%d: %+v, want %s", n, f, want)
		}
	}
	if f := code(7<<classShift|7<<outcomeShift).fire(1, 0); f.Class != OtherClass || f.Outcome != Other {
		t.Errorf("%+v", f)
	}
}

func TestWhichReasonsAreMisses(t *testing.T) {
	var missed []Reason
	for _, r := range append(slices.Clone(reasons), OtherReason) {
		if r.IsMissed() {
			missed = append(missed, r)
		}
	}
	slices.Sort(missed)
	want := []Reason{Down, DeadlineExceeded, NotMadeUp}
	slices.Sort(want)
	if !slices.Equal(missed, want) {
		t.Errorf("%q", missed)
	}
}

func TestWhenARunEnded(t *testing.T) {
	for outcome, want := range map[Outcome]time.Time{
		Ran: noon.Add(time.Minute), Failed: noon.Add(time.Minute), Interrupted: {}, Pending: {}, Missed: {},
	} {
		n := Note{Started: noon, Took: time.Minute}
		n.Outcome = outcome
		if got := n.Ended(); !got.Equal(want) {
			t.Errorf("%s: %v, want %v", outcome, got, want)
		}
		n.Started = time.Time{}
		if got := n.Ended(); !got.IsZero() {
			t.Errorf("%s, not started: %v", outcome, got)
		}
	}
}

func TestEntriesOfAReport(t *testing.T) {
	r := &Report{Entries: []EntryReport{{Place: 1}, {Name: "z"}, {Place: 0}}}
	names := []string{"a", "b", "c"}
	for name, want := range map[string]*EntryReport{
		"a": &r.Entries[2], "b": &r.Entries[0], "c": nil, "z": &r.Entries[1], "d": nil,
	} {
		if got := r.Entry(name, names); got != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := r.Entry("a", nil); got != nil {
		t.Errorf("without the names: %+v", got)
	}
	if got := r.Entry("z", nil); got != &r.Entries[1] {
		t.Errorf("by its name: %+v", got)
	}
}
