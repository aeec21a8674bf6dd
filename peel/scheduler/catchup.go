package scheduler

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// How fires that were missed are made up.
const (
	catchUpEvery = 5 * time.Second // at the least between two of them
	catchUpBurst = 5               // so many may start at once, over all entries
)

// catchUp makes the entry owe what it missed while the process was down: fires of the same timing, after the last
// one, and after it was active for the last time without a break; and what the process before owed still.
func (o *owner) catchUp(e *entry, now instant) {
	if e.Active.IsZero() {
		return
	}
	// What lies ahead since the wall clock was set back is left to the timer, unless that has passed it.
	e.Owed = slices.DeleteFunc(e.Owed, func(at time.Time) bool { return at.After(now.wall) && at.After(e.Nominal) })
	from := e.Active
	if e.Nominal.After(from) {
		from = e.Nominal
	}
	o.owe(e, e.rhythm.missedFrom(e, from, now), now)
}

// catchUpLimit is how many missed fires the entry may owe.
func (e *entry) catchUpLimit() int {
	switch e.spec.Missed.CatchUp {
	case schedule.CatchUpRunOnce:
		return 1
	case schedule.CatchUpRunAll:
		return e.spec.Missed.CatchUpMax
	}
	return 0
}

// limitOwed drops the oldest missed fires beyond the limit of catch_up.
func (o *owner) limitOwed(e *entry) {
	if n := len(e.Owed) - e.catchUpLimit(); n > 0 {
		e.Owed, o.dirty = slices.Delete(e.Owed, 0, n), true
		o.s.log.Info("missed fires dropped, catch_up allows no more", "entry", e.name, "fires", n)
	}
}

// owe makes the entry owe the fires of (from, now] as well, as far as catch_up wants them. It reports whether the entry
// owes any.
func (o *owner) owe(e *entry, from time.Time, now instant) bool {
	if n := e.catchUpLimit(); n > 0 {
		e.Owed = append(e.Owed, o.missed(e, from, now.wall, n)...)
	}
	o.limitOwed(e)
	if len(e.Owed) == 0 {
		return false
	}
	if !slices.Contains(o.backlog, e) {
		o.backlog = append(o.backlog, e)
	}
	e.catchUpFrom = now.up + o.draw(e, now.wall)
	o.s.log.Info("fires were missed and are made up", "entry", e.name, "fires", len(e.Owed), "first", e.Owed[0])
	return true
}

// maxLooks bounds the nominal times that one search for missed fires looks at.
const maxLooks = 100_000

// missed are the last n nominal times in (from, to] at which the entry would have run.
func (o *owner) missed(e *entry, from, to time.Time, n int) []time.Time {
	if limit := to.Add(-longAgo); from.Before(limit) {
		from = limit
	}
	for back := time.Minute; ; back *= 2 {
		start, looks := e.rhythm.alignedStart(e, from, to, back), 0
		var list []time.Time
		for at := range e.timing.Between(start, to) {
			if looks++; looks > maxLooks {
				break
			}
			if e.mayFire(at) && e.closed(at) == "" {
				list = append(list, at.In(o.s.o.Zone))
			}
		}
		if len(list) >= n || !start.After(from) || looks > maxLooks {
			return slices.Clone(list[max(0, len(list)-n):])
		}
	}
}

// makeUp starts missed fires whose turn has come, and returns how many.
func (o *owner) startCatchUps(now instant, limit int) (started int) {
	for _, e := range o.readyBacklog() {
		if started >= limit || o.nextCatchUpOf(e) > now.up {
			return started
		}
		if o.free(e) <= 0 { // another of its group has just started
			continue
		}
		f := Fire{
			Name: e.name, Trigger: history.TriggerCatchUp, Nominal: e.Owed[0],
			Fired: now.wall.In(o.s.o.Zone), Started: now.wall.In(o.s.o.Zone),
		}
		why := o.refusal(e, f, now)
		if opens, ok := e.deferred(now); ok && opens.After(now.wall) {
			e.catchUpFrom = now.up + opens.Sub(now.wall)
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
		e.catchUpFrom = now.up + catchUpEvery
		o.nextCatchUp = max(o.nextCatchUp, now.up) + catchUpEvery
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
			strings.Compare(a.name, b.name))
	})
	return list
}

// nextCatchUpOf is when the entry may make up its next fire.
func (o *owner) nextCatchUpOf(e *entry) time.Duration {
	return max(e.catchUpFrom, o.nextCatchUp-(catchUpBurst-1)*catchUpEvery)
}
