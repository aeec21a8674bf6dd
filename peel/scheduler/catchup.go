package scheduler

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// The rate of catch-up runs over all entries: catchUpBurst at once, then one every catchUpEvery. Two runs of one entry
// are at least catchUpEvery apart.
const (
	catchUpEvery = 5 * time.Second
	catchUpBurst = 5
)

// unlistedSince returns the time, by the present clock, after which the list of the process before may lack fires that
// were due: a minute before its last record. A wake starts at most five runs and writes them; others that were due with
// them start at the next wake. Nothing is looked for before that process started, or before the clock was set. If the
// host has booted since, nobody knows by how much the clock was set. starts is the mark of this process.
func unlistedSince(marks ledger.Marks, starts ledger.Mark) time.Time {
	if starts.Old.IsZero() {
		return time.Time{}
	}
	since := starts.Old.Add(-maxSleep)
	if n := len(marks); n > 0 && marks[n-1].At.After(since) {
		since = marks[n-1].At
	}
	return since.Add(starts.Step)
}

// catchUp adds to Owed what the entry missed while the process was down: fires of the same timing that the list
// lacks since about the last record of the process before, or since the entry was last activated. expired is the
// fire whose splay has passed, nil if there is none.
func (o *owner) catchUp(e *entry, expired *Delay, now Instant) {
	if e.Active.IsZero() {
		return
	}
	o.dropAhead(e, now)
	o.missNeeds(e)
	from := e.Active
	if o.unlisted.After(from) {
		from = o.unlisted
	}
	loss := Loss{From: e.Rhythm.MissedFrom(&e.Entry, from, now), After: from, Missed: ledger.Down}
	if expired != nil && (!expired.Nominal.After(from) || e.Has(expired.Nominal)) {
		loss.Planned, loss.From = expired.Nominal, expired.Nominal
	}
	if at, ok := e.SkipSince(loss, now.Wall); ok {
		o.skip(e, ledger.SkippedOnce, ledger.Fire{Nominal: ledger.At(at)}, at)
	}
	if !o.owe(e, loss, now) {
		o.lose(e, loss, now)
	}
}

// dropAhead drops fires that are owed and lie ahead of the clock. The timer fires them.
func (o *owner) dropAhead(e *entry, now Instant) {
	e.Owed = slices.DeleteFunc(e.Owed, func(at time.Time) bool {
		if at.After(now.Wall) {
			e.NotRun(at, ledger.NotMadeUp)
		}
		return at.After(now.Wall)
	})
}

// limitOwed drops the oldest missed fires beyond the limit of catch_up.
func (o *owner) limitOwed(e *entry) {
	if n := len(e.Owed) - e.CatchUpLimit(); n > 0 {
		for _, at := range e.Owed[:n] {
			e.NotRun(at, ledger.NotMadeUp)
		}
		e.Owed, o.Dirty, e.dirty = slices.Delete(e.Owed, 0, n), true, true
		o.s.log.Info("missed fires dropped, catch_up allows no more", "entry", e.Name, "fires", n)
	}
}

// owe adds the fires of a loss until now to Owed, up to the limit of catch_up, and counts the others. It returns false
// if the entry has no missed fires; then it has counted none.
func (o *owner) owe(e *entry, l Loss, now Instant) bool {
	if n := e.CatchUpLimit(); n > 0 && !e.hasAllRuns() {
		l.Except = e.MissedFires(l, now.Wall, n, o.s.o.Zone)
		e.Owed = append(e.Owed, l.Except...)
		for _, at := range l.Except {
			e.WritePending(ledger.Fire{Nominal: ledger.At(at)}, ledger.Owed)
		}
	}
	o.limitOwed(e)
	if len(e.Owed) == 0 {
		return false
	}
	o.lose(e, l, now)
	if !slices.Contains(o.backlog, e) {
		o.backlog = append(o.backlog, e)
	}
	e.catchUpFrom = now.Up + e.Draw(o.s.o.Peel, o.s.random, now.Wall)
	o.s.log.Info("fires were missed and are made up", "entry", e.Name, "fires", len(e.Owed), "first", e.Owed[0])
	return true
}

// startCatchUps starts at most limit catch-up runs and returns how many.
func (o *owner) startCatchUps(now Instant, limit int) (started int) {
	for _, e := range o.readyBacklog() {
		if started >= limit || o.nextCatchUpOf(e) > now.Up {
			return started
		}
		if !o.mayStart(e) { // another entry of its group has just started
			continue
		}
		at := now.Wall.In(o.s.o.Zone)
		f := Fire{
			Name:    e.Name,
			Trigger: wire.TriggerCatchUp,
			Nominal: e.Owed[0],
			Fired:   at,
			Started: at,
			listed:  e.owedFire(),
		}
		why := o.refusal(e, f, now)
		if opens, ok := e.Deferred(now); ok && opens.After(now.Wall) {
			e.catchUpFrom = now.Up + opens.Sub(now.Wall)
			continue
		}
		e.Owed, o.Dirty, e.dirty = e.Owed[1:], true, true
		if f.Nominal.After(e.Nominal) {
			e.Nominal = f.Nominal
		}
		if why != "" {
			o.skip(e, why, f.listed, f.Nominal)
			continue
		}
		e.catchUpFrom = now.Up + catchUpEvery
		o.nextCatchUp = max(o.nextCatchUp, now.Up) + catchUpEvery
		o.start(e, f)
		started++
	}
	return started
}

// owedFire returns the first fire that is owed, as it is in the list.
func (e *entry) owedFire() ledger.Fire {
	f := ledger.Fire{Nominal: ledger.At(e.Owed[0])}
	if p, ok := e.List.Pending(f.Class, f.Nominal); ok {
		return p
	}
	f.Era = e.Peel.Era()
	return f
}

// missNeeds counts the fires by need that were due as the last process ended: those that waited for their splay, and
// those of runs whose end that process did not come to.
func (o *owner) missNeeds(e *entry) {
	for _, f := range slices.Collect(e.List.All()) {
		if f.Class == ledger.Needs && f.Outcome == ledger.Pending && f.Why == ledger.Splay && f.Era < e.Peel.Era() {
			o.skip(e, ledger.Down, f, f.Nominal)
		}
	}
	for _, r := range o.endedBefore {
		f := ledger.Fire{Era: r.fire.listed.Era, Class: ledger.Needs, Nominal: r.fire.listed.Nominal}
		switch {
		case r.fire.Name != e.Spec.Needs.Entry || !e.MayFire(r.ended.Wall) || r.ended.Wall.Add(o.step).Before(e.Active):
		case e.hasSince(f): // the last process came to it
		case e.NeedMet(r.result.Success):
			o.skip(e, ledger.Down, f, f.Nominal)
		default:
			o.skip(e, ledger.NeedsUnmet, f, f.Nominal)
		}
	}
}

// hasSince reports whether a fire is in the list, in its era or a later one.
func (e *entry) hasSince(f ledger.Fire) bool {
	for era := f.Era; era <= e.Peel.Era(); era++ {
		if e.List.Has(era, f.Class, f.Nominal) {
			return true
		}
	}
	return false
}

// readyBacklog returns the entries that have missed fires and a free slot, in the order in which they run.
func (o *owner) readyBacklog() []*entry {
	o.backlog = slices.DeleteFunc(o.backlog, func(e *entry) bool { return len(e.Owed) == 0 })
	list := slices.DeleteFunc(slices.Clone(o.backlog), func(e *entry) bool { return !o.mayStart(e) })
	sorting.Func(list, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.catchUpFrom, b.catchUpFrom), a.Owed[0].Compare(b.Owed[0]),
			strings.Compare(a.Name, b.Name))
	})
	return list
}

// nextCatchUpOf returns the elapsed time from which the next catch-up run of the entry may start.
func (o *owner) nextCatchUpOf(e *entry) time.Duration {
	return max(e.catchUpFrom, o.nextCatchUp-(catchUpBurst-1)*catchUpEvery)
}

// settleLate sets the nominal time of a fire of the wall clock to the newest one that has passed and is within the
// start deadline. The deadline is at least maxSleep, as a fire may be noticed so late. due is when the fire was due. It
// returns false if there is no such time, if a catch-up run makes up the fire, or if the time has a splay that has not
// passed: then that is the entry's next fire. Times that are in the list, as they passed while the fire was held, and
// those that the clock was set over, do not count.
func (o *owner) settleLate(e *entry, f *Fire, due time.Time, now Instant) bool {
	deadline := max(e.Spec.Missed.StartDeadline, maxSleep)
	from := f.Nominal
	if f.held {
		from = o.heldFrom(e, f.listed, f.Nominal)
	}
	loss := Loss{Planned: f.Nominal, From: from, After: o.clocks.SetAt, Replaced: Span{From: from, To: due}}
	late := f.Started.Sub(due) > deadline
	if late && o.owe(e, loss, now) {
		f.Nominal = e.Owed[len(e.Owed)-1]
		return false
	}
	first, n := f.Nominal, 1 // that a newer one replaces
	passed := 0              // that are in the list, as they passed before this fire could run
	if late {
		o.countSkips(e, ledger.DeadlineExceeded, f.Nominal, 1)
		n = 0
	}
	for t := range e.Timing.Between(f.Nominal, f.Started) {
		if !e.MayFire(t) {
			break
		}
		if !t.After(o.clocks.SetAt) || late && t.Before(f.Started.Add(-deadline)) {
			continue
		}
		if e.Has(t) {
			if e.wasSkipped(t) {
				passed++
			}
			continue
		}
		if n == 0 {
			first = t
		}
		f.Nominal, n = t.In(o.s.o.Zone), n+1
	}
	if n+passed > 1 {
		o.countSkips(e, ledger.Superseded, first, n+passed-1)
	}
	switch {
	case n == 0:
		o.lose(e, loss, now)
		return false
	case f.Nominal.Equal(loss.Planned):
		return true
	case o.delay(e, f.Nominal, due, loss, now):
		return false
	}
	loss.Except = []time.Time{f.Nominal}
	if !f.Nominal.After(due) { // the planned fire was held, and runs for all fires until then
		loss.Replaced.From = loss.Planned.Add(-1)
	}
	o.lose(e, loss, now)
	return true
}

// fireOver has an entry fire for the times that the wall clock was set over: by the newest within the start deadline,
// or as catch_up says.
func (o *owner) fireOver(e *entry, old, now Instant) {
	nominal, ok := e.Over(old.Wall, now.Wall, max(e.Spec.Missed.StartDeadline, maxSleep))
	if ok && !e.hasAllRuns() {
		o.arm(e, wire.TriggerTimer, nominal.UnixNano())
		return
	}
	o.plan(e, now)
	o.owe(e, Loss{From: old.Wall}, now)
}

// delay makes the fire of a nominal time that has passed the next one of the entry if the time came after due, when
// another was due, and its splay has not passed. The fires before it are lost. Without that, all hosts that wake from a
// suspend together would run together.
func (o *owner) delay(e *entry, nominal, due time.Time, before Loss, now Instant) bool {
	at := nominal.Add(e.Draw(o.s.o.Peel, o.s.random, nominal))
	if !nominal.After(due) || !at.After(now.Wall) {
		return false
	}
	now.Wall, o.Dirty = nominal.Add(-1), true
	o.lose(e, before, now)
	o.enqueue(e, Pending{Trigger: wire.TriggerTimer, OnWall: true, Nominal: nominal.UnixNano(), At: at.UnixNano()})
	return true
}
