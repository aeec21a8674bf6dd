package scheduler

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

const (
	maxSleep  = time.Minute // bounds how late a suspend or a step of the wall clock is noticed
	maxStarts = 5           // in one wake
)

// An owner has the state of the goroutine of Run.
type owner struct {
	s       *Scheduler
	set     schedule.Set
	entries map[string]*entry // of the set, and removed ones whose history is remembered
	elapsed queue             // entries whose next fire is an elapsed time, by that time
	wall    queue             // entries whose next fire is a time of the wall clock, by its Unix time
	ready   queue             // entries whose fire is due, by its nominal Unix time
	clocks  Clocks            // as they were last compared
	marks   ledger.Marks      // of the peel
	runs    []*run            // in flight
	waiting []*entry          // entries whose fire waits for a slot, in the order in which they start
	backlog []*entry          // entries with catch-up runs due
	// rate limiter of catch-up runs: one every catchUpEvery; catchUpBurst of them may start early
	nextCatchUp time.Duration
	needed      map[string][]*entry // entries by the entry that they need

	pausedErrors map[string]bool // entries that are paused_errors
	changed      struct {
		paused  bool // entries that are paused_errors, since the last call of Options.PausedErrors
		classes bool // the class of an entry, since the last call of Options.Changed
	}

	reporting int // runs that have ended and whose report is being stored

	quiet bool // no run starts: fires wait for a slot

	previous
	begins bool // entries that become active fire their run_on_start
	Saver
}

func newOwner(s *Scheduler) *owner {
	now := s.now()
	o := &owner{
		s:            s,
		clocks:       NewClocks(now),
		entries:      make(map[string]*entry, len(s.loaded.Entries)),
		Saver:        NewSaver(s.disk),
		pausedErrors: map[string]bool{},
	}
	o.zone = describe(s.o.Zone, now.Wall.UTC().Year())
	o.otherZone = s.loaded.Moment.Zone != "" && s.loaded.Moment.Zone != o.zone
	o.marks = s.loaded.Marks
	starts := o.starts(now)
	o.step = starts.Step
	for name, h := range s.loaded.Entries {
		if s.Damage() != "" { // what is left out may have been fires of any entry
			h.List.DoubtBefore(now.Wall)
		}
		o.add(newRemembered(name, h, o.step, now))
	}
	o.unlisted = unlistedSince(s.loaded.Marks, starts)
	if o.step != 0 {
		o.clocks.SetAt = o.unlisted
	}
	if s.loaded.Older { // what ran since its last record is not known, so nothing of it is missed or made up
		o.unlisted = now.Wall
	}
	o.beginEra(starts)
	for _, b := range s.loaded.Open {
		o.takeOver(b, now)
	}
	o.Dirty = len(s.loaded.Open) > 0
	s.loaded = StoredState{}
	return o
}

func (o *owner) add(e *entry) *entry {
	e.Peel, o.entries[e.Name] = o.marks, e
	if o.s.onFire != nil {
		e.Wrote = func(f ledger.Fire) { o.s.onFire(e.Name, f) }
	}
	return e
}

// wake does everything that is due, and returns the time until it must be called again.
func (o *owner) wake() time.Duration {
	now := o.s.now()
	o.compareClocks(now)
	o.finishEnded()
	o.collect(&o.elapsed, int64(now.Up))
	o.collect(&o.wall, now.Wall.UnixNano())
	starts := o.release(now, maxStarts)
	for starts < maxStarts && len(o.ready) > 0 {
		if o.fire(o.ready[0], now) {
			starts++
		}
	}
	o.startCatchUps(now, maxStarts-starts)
	o.notify()
	o.Save(now.Up, o.change)
	return o.idle(now)
}

// finishEnded finishes all runs that have ended. wake calls it before it fires entries, so that these find the slots
// free.
func (o *owner) finishEnded() {
	for {
		select {
		case r := <-o.s.ended:
			o.finish(r)
		default:
			return
		}
	}
}

// collect moves the entries whose fire is due into ready. Of one that waits for its splay it writes that into the list.
func (o *owner) collect(from *queue, until int64) {
	for len(*from) > 0 && (*from)[0].key <= until {
		e := (*from)[0]
		e.dequeue()
		if e.Next.At > until {
			e.Next.Listed = e.WritePending(o.fireOf(e), ledger.Splay)
			o.Dirty = true
			from.push(e, e.Next.At)
			continue
		}
		o.ready.push(e, o.time(e.Next, e.Next.Nominal).UnixNano())
	}
}

// idle returns the time until something is due.
func (o *owner) idle(now Instant) time.Duration {
	if len(o.ready) > 0 || slices.ContainsFunc(o.waiting, func(e *entry) bool { return o.mayStart(e) }) {
		return 0
	}
	wait := o.s.longestSleep
	if len(o.waiting) > 0 { // for their start deadlines
		wait = maxSleep
	}
	for _, e := range o.readyBacklog() {
		wait = min(wait, o.nextCatchUpOf(e)-now.Up)
	}
	if len(o.elapsed) > 0 {
		wait = min(wait, time.Duration(o.elapsed[0].key)-now.Up)
	}
	if len(o.wall) > 0 {
		wait = min(wait, time.Duration(o.wall[0].key-now.Wall.UnixNano()))
	}
	return max(o.Wait(now.Up, wait), 0)
}

// compareClocks notices that the wall clock was set. First all is done that was due by the old clock. Times between the
// two clocks are not in the lists.
func (o *owner) compareClocks(now Instant) {
	step, set := o.clocks.Compare(now)
	if !set {
		return
	}
	o.s.log.Info("the wall clock was set", "by", step)
	old := Instant{Wall: now.Wall.Add(-step), Up: now.Up}
	o.clocks.Step = step
	o.collect(&o.wall, old.Wall.UnixNano())
	for _, e := range slices.Clone(o.ready) {
		if e.Next.OnWall {
			o.fire(e, old)
		}
	}
	names := slices.Sorted(maps.Keys(o.entries)) // in an order, as entries draw splays
	for _, name := range names {
		o.settleHeld(o.entries[name], old)
	}
	o.beginEra(ledger.Mark{Kind: ledger.Clock, At: now.Wall.UTC(), Old: old.Wall.UTC(), Step: step})
	o.clocks.Step, o.clocks.SetAt = 0, now.Wall
	o.Dirty, o.changed.classes = true, true // masters have to know at once whether the clock is right
	for _, name := range names {
		if o.set[name] != nil {
			o.onClockStep(o.entries[name], old, now)
		}
	}
}

// onClockStep arms or plans anew the next fire of an entry after the wall clock was set.
func (o *owner) onClockStep(e *entry, old, now Instant) {
	step, seen := now.Wall.Sub(old.Wall), e.TimingSeen
	e.Move(step, now.Wall)
	e.dirty = true
	if !e.IsActive() {
		return
	}
	o.dropAhead(e, now)
	p, timed := e.Next, e.Next.Trigger == wire.TriggerTimer
	switch waits := p.Splaying(old); {
	case e.Spec.Clock.After > 0 && !e.TimingSeen.Equal(seen): // a delay is elapsed time
		o.setTiming(e)
		if timed && !p.Held {
			p.Nominal, p.At = p.Nominal+int64(step), p.At+int64(step)
			o.enqueue(e, p)
		}
	case p.Held: // by the windows of the present time
		if nominal := o.time(p, p.Nominal); !o.hold(e, p.Trigger, p.Listed, nominal, now) {
			o.skip(e, ledger.OutsideWindow, p.Listed, nominal)
			o.plan(e, now)
		}
	case p.Trigger == "", timed && !p.OnWall && !waits && e.Bounded(): // its life may no longer be over, or be it now
		o.plan(e, now)
	case !p.OnWall:
	case waits: // its splay is elapsed time
		p.At += int64(step)
		o.enqueue(e, p)
	case timed && p.Nominal <= now.Wall.UnixNano():
		o.fireOver(e, old, now)
	case timed:
		if nominal, ok := e.Rhythm.Next(&e.Entry, o.clocks.Base, now); !ok || nominal != p.Nominal {
			o.plan(e, now)
		}
	}
}

// time converts a time of the clock of p, in nanoseconds, to the wall clock.
func (o *owner) time(p Pending, key int64) time.Time {
	at := o.clocks.Base.At(time.Duration(key))
	if p.OnWall {
		at = time.Unix(0, key)
	}
	return at.In(o.s.o.Zone)
}

// note notes a change of an entry, its class, and whether it is paused_errors. It is called after everything that may
// change them.
func (o *owner) note(e *entry) {
	e.dirty = true
	if class := e.Class(); class != e.noted {
		e.noted, o.changed.classes = class, true
	}
	paused := e.IsEnabled() && e.Failing()
	if paused == o.pausedErrors[e.Name] {
		return
	}
	o.changed.paused = true
	if paused {
		o.pausedErrors[e.Name] = true
	} else {
		delete(o.pausedErrors, e.Name)
	}
}

// notify calls Options.PausedErrors if the list has changed, and Options.Changed if an entry has changed its class.
func (o *owner) notify() {
	if o.changed.paused && o.s.o.PausedErrors != nil {
		o.s.o.PausedErrors(slices.Sorted(maps.Keys(o.pausedErrors)))
	}
	if o.changed.classes && o.s.o.Changed != nil {
		o.s.o.Changed()
	}
	o.changed.paused, o.changed.classes = false, false
}

// begin is apply for the first schedule of a process.
func (o *owner) begin(set schedule.Set) schedule.Changes {
	o.begins = true
	defer func() { o.begins = false }()
	changes := o.apply(set)
	names := slices.Sorted(maps.Keys(set))
	o.s.log.Info("schedule begins", "entries", len(names),
		"names", strings.Join(names[:min(len(names), maxNamed)], " "))
	return changes
}

// maxNamed is the number of entries that the log names at the start.
const maxNamed = 100

// apply makes set the schedule. Equal entries are not touched.
func (o *owner) apply(set schedule.Set) schedule.Changes {
	now := o.s.now()
	set = maps.Clone(set)
	changes := schedule.Diff(o.set, set)
	for _, name := range changes.Removed {
		o.remove(o.entries[name], now)
	}
	for _, name := range changes.Added {
		e := o.entries[name]
		if e == nil {
			e = o.add(newEntry(name))
		}
		o.adopt(e, set[name], now)
		o.activate(e, now)
	}
	for _, name := range changes.Retimed {
		o.retime(o.entries[name], set[name], now)
	}
	changed := len(changes.Added)+len(changes.Retimed)+len(changes.Removed) > 0
	for _, name := range changes.Swapped {
		changed = o.swapHistory(o.entries[name], set[name], now) || changed
	}
	for _, name := range changes.Kept {
		set[name] = o.entries[name].Spec
	}
	o.set = set
	o.needed = map[string][]*entry{}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if needs := set[name].Needs.Entry; needs != "" {
			o.needed[needs] = append(o.needed[needs], o.entries[name])
		}
	}
	o.forget()
	if len(o.unreported) > 0 {
		o.reportPrevious()
	}
	o.Dirty = o.Dirty || changed
	o.s.log.Info("schedule applied", "added", len(changes.Added), "removed", len(changes.Removed),
		"retimed", len(changes.Retimed), "swapped", len(changes.Swapped), "kept", len(changes.Kept))
	return changes
}

// swapHistory swaps an entry and reports whether its history has to be stored. A new hash alone need not be stored: it
// only tells which definition the failures in a row belong to.
func (o *owner) swapHistory(e *entry, spec *schedule.Entry, now Instant) (changed bool) {
	before := e.Clone()
	o.swap(e, spec, now)
	before.Hash = e.Hash
	return !reflect.DeepEqual(before, e.History)
}

// maxRemembered is the number of removed entries whose history is kept.
const maxRemembered = 1000

// forget drops the history of the entries that were removed longest ago, except those with a run in flight.
func (o *owner) forget() {
	var left []*entry
	for _, e := range o.entries {
		if e.Spec == nil && len(e.runs) == 0 {
			left = append(left, e)
		}
	}
	if len(left) <= maxRemembered {
		return
	}
	o.Whole = true // what was forgotten is no longer in the file
	sorting.Func(left, func(a, b *entry) int { return a.Left.Compare(b.Left) })
	for _, e := range left[:len(left)-maxRemembered] {
		delete(o.entries, e.Name)
	}
}

// stop waits for the runs in flight, cancels those that take too long, and stores the state.
func (o *owner) stop() error {
	now := o.s.now()
	stopped := o.moment(now) // nothing fires from now on: the next process has missed what comes
	for name := range o.set {
		o.settleHeld(o.entries[name], now)
		o.entries[name].stopRetries()
	}
	o.drain(stopGrace)
	if len(o.runs) > 0 {
		o.s.log.Info("canceling runs, as the peel stops", "runs", len(o.runs))
		for _, r := range o.runs {
			r.stopped = true
			r.cancel(errors.New("the peel was stopped"))
		}
	}
	o.drain(cancelGrace)
	close(o.s.gone)
	var stuck error
	if len(o.runs) > 0 {
		var names []string
		for _, r := range o.runs {
			names = append(names, r.e.Name)
		}
		slices.Sort(names)
		stuck = fmt.Errorf("cannot end the runs of %s: they ignore their cancellation",
			strings.Join(slices.Compact(names), ", "))
	}
	if o.reporting > 0 {
		o.s.log.Warn("reports of runs are not stored yet; the next process reports those runs, without their output",
			"reports", o.reporting)
	}
	last := func() Change {
		c := o.change()
		c.State.Moment = stopped
		return c
	}
	return errors.Join(stuck, o.Saver.Stop(last, o.s.now().Wall, o.s.log))
}

// drain finishes runs until none is in flight and all reports are stored, or d has passed.
func (o *owner) drain(d time.Duration) {
	enough := time.After(d)
	for len(o.runs)+o.reporting > 0 {
		select {
		case r := <-o.s.ended:
			o.finish(r)
		case r := <-o.s.reported:
			o.onReported(r)
		case <-enough:
			return
		}
	}
}
