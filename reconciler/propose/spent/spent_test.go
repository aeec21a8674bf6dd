package spent_test

import (
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/propose/spent"
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
	is := func(s spent.State) *spent.Record {
		r := &spent.Record{Hash: entry(nil).Hash(), State: s}
		if s != spent.Waiting {
			r.Why = "why"
		}
		return r
	}
	ran, runs, silent, missed := spent.Peel{Reported: at.Add(time.Second), Ran: true}, spent.Peel{Reported: at, Running: true}, spent.Peel{Reported: at}, spent.Peel{Reported: latest.Add(time.Second)}
	soon, over := at.Add(time.Minute), latest.Add(time.Minute)
	catchUp := func(e *schedule.Entry) { e.Missed.CatchUp, e.Missed.StartDeadline = schedule.CatchUpRunOnce, 0 }
	defers := func(e *schedule.Entry) { e.Windows.Outside = schedule.OutsideDefer }
	tomorrow := func(e *schedule.Entry) { e.Clock.At = []time.Time{at.Add(24 * time.Hour)} }
	other := func(e *schedule.Entry) { e.Module = "test.echo" }
	twice := func(e *schedule.Entry) { e.Clock.At = append(e.Clock.At, at.Add(24*time.Hour)) }
	for _, c := range []struct {
		name   string
		was    *spent.Record
		change func(*schedule.Entry) // of the entry since it was recorded; for both if both is set
		both   bool
		now    time.Time
		peels  []spent.Peel
		want   spent.State
		why    string
	}{
		{name: "it is new", now: over, peels: []spent.Peel{ran}, want: spent.Waiting},
		{name: "before its time", was: is(spent.Waiting), now: at.Add(-1), peels: []spent.Peel{ran}, want: spent.Waiting},
		{name: "all ran", was: is(spent.Waiting), now: soon, peels: []spent.Peel{ran, ran}, want: spent.Removing, why: "delete_after_run: it ran on 2 of 2 peels."},
		{name: "one has not run", was: is(spent.Waiting), now: soon, peels: []spent.Peel{ran, silent}, want: spent.Waiting},
		{name: "one still runs, though none starts any more", was: is(spent.Waiting), now: over, peels: []spent.Peel{ran, runs}, want: spent.Waiting},
		{name: "one never reported", was: is(spent.Waiting), now: soon, peels: []spent.Peel{ran, {}}, want: spent.Waiting},
		{name: "until its latest start", was: is(spent.Waiting), now: latest, peels: []spent.Peel{ran, silent}, want: spent.Waiting},
		{name: "after its latest start", was: is(spent.Waiting), now: latest.Add(1), peels: []spent.Peel{ran, silent, {}}, want: spent.Removing, why: "delete_after_run: it ran on 1 of 3 peels."},
		{name: "it ran nowhere", was: is(spent.Waiting), now: over, peels: []spent.Peel{missed, missed}, want: spent.Left, why: "it ran on none of 2 peels"},
		{name: "no peel has it", was: is(spent.Waiting), now: over, want: spent.Left, why: "it ran on none of 0 peels"},
		{name: "no peel has it yet", was: is(spent.Waiting), now: soon, want: spent.Waiting},
		{name: "a peel that is away may have run it", was: is(spent.Waiting), now: over, peels: []spent.Peel{missed, silent}, want: spent.Waiting},
		{name: "one that makes up missed fires", was: is(spent.Waiting), change: catchUp, both: true, now: over.Add(1000 * time.Hour), peels: []spent.Peel{ran, missed}, want: spent.Waiting},
		{name: "one that waits for its windows", was: is(spent.Waiting), change: defers, both: true, now: over, peels: []spent.Peel{ran, missed}, want: spent.Waiting},
		{name: "the first of two times passed", was: is(spent.Waiting), change: twice, both: true, now: over, peels: []spent.Peel{ran, missed}, want: spent.Waiting},
		{name: "all ran at the first of two times", was: is(spent.Waiting), change: twice, both: true, now: over, peels: []spent.Peel{ran}, want: spent.Removing, why: "delete_after_run: it ran on 1 of 1 peels."},
		{name: "changed before its time", was: is(spent.Waiting), change: other, now: at.Add(-1), want: spent.Waiting},
		{name: "changed after its time", was: is(spent.Waiting), change: other, now: soon, peels: []spent.Peel{ran}, want: spent.Left, why: "somebody changed it after its time had come"},
		{name: "changed while it is removed", was: is(spent.Removing), change: other, now: soon, want: spent.Left, why: "somebody changed it after its time had come"},
		{name: "it gets a new time", was: is(spent.Waiting), change: tomorrow, now: soon, want: spent.Waiting},
		{name: "one that stays gets a new time", was: is(spent.Left), change: tomorrow, now: soon, want: spent.Waiting},
		{name: "one that stays", was: is(spent.Left), now: soon, peels: []spent.Peel{ran}, want: spent.Left, why: "why"},
		{name: "one that stays is changed", was: is(spent.Left), change: other, now: soon, want: spent.Left, why: "why"},
		{name: "the master died before the commit", was: is(spent.Removing), now: soon, want: spent.Removing, why: "why"},
		{name: "a pull request is open", was: is(spent.Proposed), now: over, want: spent.Proposed, why: "why"},
	} {
		e := entry(c.change)
		if c.both {
			c.was.Hash = e.Hash()
		}
		got := spent.Decide(c.was, e, "settings/api/once.yaml", c.peels, c.now)
		if got.State != c.want || got.Why != c.why || got.Hash != e.Hash() {
			t.Errorf("%s: %+v, want %s: %s", c.name, got, c.want, c.why)
		}
		if needs := spent.NeedsPeels(c.was, e, c.now); c.want == spent.Removing && c.was.State == spent.Waiting && !needs {
			t.Errorf("%s: its peels are not read", c.name)
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
		if got := spent.Concerns(entry(c.change)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
