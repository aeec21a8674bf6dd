package scheduler

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/peel/scheduler/rules"
)

// How fires that were missed are made up.
const (
	catchUpEvery = 5 * time.Second // at the least between two of them
	catchUpBurst = 5               // so many may start at once, over all entries
)

// catchUp makes the entry owe what it missed while the process was down: fires of the same timing, after the last
// one, and after it was active for the last time without a break; and what the process before owed still.
func (o *owner) catchUp(e *entry, now rules.Instant) {
	if e.Active.IsZero() {
		return
	}
	// What lies ahead since the wall clock was set back is left to the timer, unless that has passed it.
	e.Owed = slices.DeleteFunc(e.Owed, func(at time.Time) bool { return at.After(now.Wall) && at.After(e.Nominal) })
	from := e.Active
	if e.Nominal.After(from) {
		from = e.Nominal
	}
	o.owe(e, e.Rhythm.MissedFrom(&e.Entry, from, now), now)
}

// limitOwed drops the oldest missed fires beyond the limit of catch_up.
func (o *owner) limitOwed(e *entry) {
	if n := len(e.Owed) - e.CatchUpLimit(); n > 0 {
		e.Owed, o.dirty = slices.Delete(e.Owed, 0, n), true
		o.s.log.Info("missed fires dropped, catch_up allows no more", "entry", e.Name, "fires", n)
	}
}

// owe makes the entry owe the fires of (from, now] as well, as far as catch_up wants them. It reports whether the entry
// owes any.
func (o *owner) owe(e *entry, from time.Time, now rules.Instant) bool {
	if n := e.CatchUpLimit(); n > 0 {
		e.Owed = append(e.Owed, e.MissedFires(from, now.Wall, n, o.s.o.Zone)...)
	}
	o.limitOwed(e)
	if len(e.Owed) == 0 {
		return false
	}
	if !slices.Contains(o.backlog, e) {
		o.backlog = append(o.backlog, e)
	}
	e.catchUpFrom = now.Up + e.Draw(o.s.o.Peel, now.Wall)
	o.s.log.Info("fires were missed and are made up", "entry", e.Name, "fires", len(e.Owed), "first", e.Owed[0])
	return true
}

// makeUp starts missed fires whose turn has come, and returns how many.
func (o *owner) startCatchUps(now rules.Instant, limit int) (started int) {
	for _, e := range o.readyBacklog() {
		if started >= limit || o.nextCatchUpOf(e) > now.Up {
			return started
		}
		if o.free(e) <= 0 { // another of its group has just started
			continue
		}
		f := Fire{
			Name: e.Name, Trigger: history.TriggerCatchUp, Nominal: e.Owed[0],
			Fired: now.Wall.In(o.s.o.Zone), Started: now.Wall.In(o.s.o.Zone),
		}
		why := o.refusal(e, f, now)
		if opens, ok := e.Deferred(now); ok && opens.After(now.Wall) {
			e.catchUpFrom = now.Up + opens.Sub(now.Wall)
			continue
		}
		e.Owed, o.dirty = e.Owed[1:], true
		if f.Nominal.After(e.Nominal) {
			e.Nominal = f.Nominal
		}
		if why != "" {
			o.skip(e, skipped{why, f.Nominal, 1})
			continue
		}
		e.catchUpFrom = now.Up + catchUpEvery
		o.nextCatchUp = max(o.nextCatchUp, now.Up) + catchUpEvery
		o.start(e, f)
		started++
	}
	return started
}

// readyBacklog are the entries with missed fires that are free to run them, by their turn.
func (o *owner) readyBacklog() []*entry {
	o.backlog = slices.DeleteFunc(o.backlog, func(e *entry) bool { return len(e.Owed) == 0 })
	var list []*entry
	for _, e := range o.backlog {
		if o.free(e) > 0 {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.catchUpFrom, b.catchUpFrom), a.Owed[0].Compare(b.Owed[0]),
			strings.Compare(a.Name, b.Name))
	})
	return list
}

// nextCatchUpOf is when the entry may make up its next fire.
func (o *owner) nextCatchUpOf(e *entry) time.Duration {
	return max(e.catchUpFrom, o.nextCatchUp-(catchUpBurst-1)*catchUpEvery)
}

// settleLate makes a fire of the wall clock's timing, which was due at a time, stand for the newest nominal time that has
// passed by now and is within the start deadline, of a minute at the least, as a fire may be noticed so late. It reports
// false if there is none, or if the entry owes the fire as a catch-up run.
func (o *owner) settleLate(e *entry, f *Fire, due time.Time, now rules.Instant) bool {
	deadline := max(e.Spec.Missed.StartDeadline, maxSleep)
	from, missed, ok := f.Nominal, 0, true
	if f.Started.Sub(due) > deadline {
		if o.owe(e, f.Nominal.Add(-1), now) {
			f.Nominal = e.Owed[len(e.Owed)-1]
			return false
		}
		o.skip(e, skipped{history.DeadlineExceeded, f.Nominal, 1})
		from, ok = f.Started.Add(-deadline-1), false
	}
	first := f.Nominal
	for {
		t, more := e.Timing.Next(from)
		if !more || t.After(f.Started) || !e.MayFire(t) {
			break
		}
		if ok {
			missed++
		} else {
			first = t
		}
		from, f.Nominal, ok = t, t.In(o.s.o.Zone), true
	}
	if missed > 0 {
		o.skip(e, skipped{history.Superseded, first, missed})
	}
	return ok
}
