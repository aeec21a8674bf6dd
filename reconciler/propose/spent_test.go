package propose_test

import (
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/propose"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

func entry(change func(*schedule.Entry)) *schedule.Entry {
	e := schedule.New("once")
	e.Module, e.API.ID, e.Life.DeleteAfterRun = "test.ping", 7, true
	e.Clock.At = []time.Time{at}
	e.Splay.Max = time.Hour
	if change != nil {
		change(e)
	}
	return e
}

var (
	at     = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	latest = at.Add(4*time.Hour + time.Minute) // splay, start_deadline and the margin
)

func TestWhenAnEntryIsRemoved(t *testing.T) {
	is := func(s propose.SpentState) *propose.SpentRecord {
		r := &propose.SpentRecord{Hash: entry(nil).Hash(), State: s}
		if s != propose.SpentWaiting {
			r.Why = "why"
		}
		return r
	}
	ran, runs, silent, missed := propose.SpentPeel{Reported: at.Add(time.Second), Ran: true}, propose.SpentPeel{Reported: at, Running: true}, propose.SpentPeel{Reported: at}, propose.SpentPeel{Reported: latest.Add(time.Second)}
	soon, over := at.Add(time.Minute), latest.Add(time.Minute)
	catchUp := func(e *schedule.Entry) { e.Missed.CatchUp, e.Missed.StartDeadline = schedule.CatchUpRunOnce, 0 }
	defers := func(e *schedule.Entry) { e.Windows.Outside = schedule.OutsideDefer }
	tomorrow := func(e *schedule.Entry) { e.Clock.At = []time.Time{at.Add(24 * time.Hour)} }
	other := func(e *schedule.Entry) { e.Module = "test.echo" }
	twice := func(e *schedule.Entry) { e.Clock.At = append(e.Clock.At, at.Add(24*time.Hour)) }
	for _, c := range []struct {
		name   string
		was    *propose.SpentRecord
		change func(*schedule.Entry) // of the entry since it was recorded; for both if both is set
		both   bool
		now    time.Time
		peels  []propose.SpentPeel
		want   propose.SpentState
		why    string
	}{
		{name: "it is new", now: over, peels: []propose.SpentPeel{ran}, want: propose.SpentWaiting},
		{name: "before its time", was: is(propose.SpentWaiting), now: at.Add(-1), peels: []propose.SpentPeel{ran}, want: propose.SpentWaiting},
		{name: "all ran", was: is(propose.SpentWaiting), now: soon, peels: []propose.SpentPeel{ran, ran}, want: propose.SpentRemoving, why: "delete_after_run: it ran on 2 of 2 peels."},
		{name: "one has not run", was: is(propose.SpentWaiting), now: soon, peels: []propose.SpentPeel{ran, silent}, want: propose.SpentWaiting},
		{name: "one still runs, though none starts any more", was: is(propose.SpentWaiting), now: over, peels: []propose.SpentPeel{ran, runs}, want: propose.SpentWaiting},
		{name: "one never reported", was: is(propose.SpentWaiting), now: soon, peels: []propose.SpentPeel{ran, {}}, want: propose.SpentWaiting},
		{name: "until its latest start", was: is(propose.SpentWaiting), now: latest, peels: []propose.SpentPeel{ran, silent}, want: propose.SpentWaiting},
		{name: "after its latest start", was: is(propose.SpentWaiting), now: latest.Add(1), peels: []propose.SpentPeel{ran, silent, {}}, want: propose.SpentRemoving, why: "delete_after_run: it ran on 1 of 3 peels."},
		{name: "it ran nowhere", was: is(propose.SpentWaiting), now: over, peels: []propose.SpentPeel{missed, missed}, want: propose.SpentLeft, why: "it ran on none of 2 peels"},
		{name: "no peel has it", was: is(propose.SpentWaiting), now: over, want: propose.SpentLeft, why: "it ran on none of 0 peels"},
		{name: "no peel has it yet", was: is(propose.SpentWaiting), now: soon, want: propose.SpentWaiting},
		{name: "a peel that is away may have run it", was: is(propose.SpentWaiting), now: over, peels: []propose.SpentPeel{missed, silent}, want: propose.SpentWaiting},
		{name: "one that makes up missed fires", was: is(propose.SpentWaiting), change: catchUp, both: true, now: over.Add(1000 * time.Hour), peels: []propose.SpentPeel{ran, missed}, want: propose.SpentWaiting},
		{name: "one that waits for its windows", was: is(propose.SpentWaiting), change: defers, both: true, now: over, peels: []propose.SpentPeel{ran, missed}, want: propose.SpentWaiting},
		{name: "the first of two times passed", was: is(propose.SpentWaiting), change: twice, both: true, now: over, peels: []propose.SpentPeel{ran, missed}, want: propose.SpentWaiting},
		{name: "all ran at the first of two times", was: is(propose.SpentWaiting), change: twice, both: true, now: over, peels: []propose.SpentPeel{ran}, want: propose.SpentRemoving, why: "delete_after_run: it ran on 1 of 1 peels."},
		{name: "changed before its time", was: is(propose.SpentWaiting), change: other, now: at.Add(-1), want: propose.SpentWaiting},
		{name: "changed after its time", was: is(propose.SpentWaiting), change: other, now: soon, peels: []propose.SpentPeel{ran}, want: propose.SpentLeft, why: "somebody changed it after its time had come"},
		{name: "changed while it is removed", was: is(propose.SpentRemoving), change: other, now: soon, want: propose.SpentLeft, why: "somebody changed it after its time had come"},
		{name: "it gets a new time", was: is(propose.SpentWaiting), change: tomorrow, now: soon, want: propose.SpentWaiting},
		{name: "one that stays gets a new time", was: is(propose.SpentLeft), change: tomorrow, now: soon, want: propose.SpentWaiting},
		{name: "one that stays", was: is(propose.SpentLeft), now: soon, peels: []propose.SpentPeel{ran}, want: propose.SpentLeft, why: "why"},
		{name: "one that stays is changed", was: is(propose.SpentLeft), change: other, now: soon, want: propose.SpentLeft, why: "why"},
		{name: "the master died before the commit", was: is(propose.SpentRemoving), now: soon, want: propose.SpentRemoving, why: "why"},
		{name: "a pull request is open", was: is(propose.SpentProposed), now: over, want: propose.SpentProposed, why: "why"},
	} {
		e := entry(c.change)
		if c.both {
			c.was.Hash = e.Hash()
		}
		got := propose.DecideSpent(c.was, e, "settings/api/once.yaml", c.peels, c.now)
		if got.State != c.want || got.Why != c.why || got.Hash != e.Hash() {
			t.Errorf("%s: %+v, want %s: %s", c.name, got, c.want, c.why)
		}
		if needs := propose.NeedsPeels(c.was, e, c.now); c.want == propose.SpentRemoving && c.was.State == propose.SpentWaiting && !needs {
			t.Errorf("%s: its peels are not read", c.name)
		} else if needs && c.was.Hash != e.Hash() {
			t.Errorf("%s: its peels are read, and what they say is not about this entry", c.name)
		}
	}
}

func TestWhichEntriesAreRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*schedule.Entry)
		want   bool
	}{
		"of a request":   {nil, true},
		"of people":      {func(e *schedule.Entry) { e.API.ID = 0 }, false},
		"to be kept":     {func(e *schedule.Entry) { e.Life.DeleteAfterRun = false }, false},
		"without a time": {func(e *schedule.Entry) { e.Clock.At = nil }, false},
	} {
		if got := propose.SpentConcerns(entry(c.change)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
