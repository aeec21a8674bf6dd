package scheduler

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/peel/scheduler/rules"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

const (
	maxSleep  = time.Minute // bounds how late a suspend or a step of the wall clock is noticed
	maxStarts = 5           // in one wake
)

// owner is all that belongs to the goroutine of Run.
type owner struct {
	s           *Scheduler
	set         schedule.Set
	entries     map[string]*entry   // those of set, and those remembered
	elapsed     queue               // entries that follow elapsed time, by the time of their fire since the clock was made
	wall        queue               // entries that follow the wall clock, by the Unix time of their fire
	ready       queue               // entries whose fire has come, by its nominal Unix time
	base        rules.Instant       // ties the clocks together, for what people read
	runs        []*run              // in flight
	waiting     []*entry            // with a fire that waits for runs in flight to end, in the order in which they start
	backlog     []*entry            // entries with catch-up runs due
	nextCatchUp time.Duration       // rate limiter of catch-up runs: one every catchUpEvery, of which catchUpBurst may start early
	needed      map[string][]*entry // entries by the entry that they need

	pausedErrors  map[string]bool // entries that are paused_errors
	pausedChanged bool            // since the last call of Options.PausedErrors

	reporting  int    // runs that have ended and whose report is being stored
	unreported []*run // runs of the last process that are to be reported

	begins bool // entries that become active fire their run_on_start
	saver
}

func newOwner(s *Scheduler) *owner {
	now := s.now()
	o := &owner{s: s, base: now, entries: make(map[string]*entry, len(s.loaded)), saver: saver{saved: make(chan error, 1)}, pausedErrors: map[string]bool{}}
	for name, h := range s.loaded {
		o.entries[name] = newRemembered(name, h, now)
	}
	for _, b := range s.left {
		o.takeOver(b, now)
	}
	o.dirty = len(s.left) > 0
	s.loaded, s.left = nil, nil
	return o
}

// wake does all that is due, and returns how long there is nothing to do.
func (o *owner) wake() time.Duration {
	now := o.s.now()
	o.compareClocks(now)
	o.finishEnded()
	o.collect(&o.elapsed, int64(now.Up))
	o.collect(&o.wall, now.Wall.UnixNano())
	starts := o.release(now, maxStarts)
	for starts < maxStarts && o.ready.len() > 0 {
		e, _ := o.ready.next()
		if o.fire(e, now) {
			starts++
		}
	}
	o.startCatchUps(now, maxStarts-starts)
	o.notifyPaused()
	o.save(now)
	return o.idle(now)
}

// finishEnded goes before fires of the same moment, so that these find the slots free.
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

// collect moves the entries whose fire has come into ready.
func (o *owner) collect(from *queue, now int64) {
	for from.len() > 0 {
		e, at := from.next()
		if at > now {
			return
		}
		e.dequeue()
		o.ready.push(e, o.time(e.Next, e.Next.Nominal).UnixNano())
	}
}

func (o *owner) idle(now rules.Instant) time.Duration {
	if o.ready.len() > 0 || o.isReleasable() {
		return 0
	}
	wait := maxSleep
	for _, e := range o.readyBacklog() {
		wait = min(wait, o.nextCatchUpOf(e)-now.Up)
	}
	if o.elapsed.len() > 0 {
		_, at := o.elapsed.next()
		wait = min(wait, time.Duration(at)-now.Up)
	}
	if o.wall.len() > 0 {
		_, at := o.wall.next()
		wait = min(wait, time.Duration(at-now.Wall.UnixNano()))
	}
	if o.dirty && !o.saving {
		wait = min(wait, o.saveAt-now.Up)
	}
	return max(wait, 0)
}

// compareClocks sees that the wall clock was set. Slow corrections and readings that were not taken at the very same
// time make no step.
func (o *owner) compareClocks(now rules.Instant) {
	step := now.Wall.Sub(o.base.Wall) - (now.Up - o.base.Up)
	if step.Abs() < time.Second {
		return
	}
	o.base = now
	o.s.log.Info("the wall clock was set", "by", step)
	for name := range o.set {
		o.follow(o.entries[name], step, now)
	}
}

// follow has an entry go by the wall clock as it was set.
func (o *owner) follow(e *entry, step time.Duration, now rules.Instant) {
	e.Breaker.ClampOpened(now.Wall)
	p, back := e.Next, step < 0
	timed := p.Trigger == history.TriggerTimer
	switch {
	case !e.IsActive():
	case e.Spec.Clock.After > 0 && e.seen: // a delay is elapsed time
		e.TimingSeen = e.TimingSeen.Add(step)
		o.setTiming(e)
		if timed && !p.Held {
			p.Nominal, p.At = p.Nominal+int64(step), p.At+int64(step)
			o.lay(e, p)
		}
	case p.Trigger == "" && back, // its life may not be over any more
		timed && e.queue == &o.elapsed && !p.Splaying(now) && e.Bounded(),
		timed && e.queue == &o.wall && back && (step < -rules.SetBackLimit || e.FiresAgainAfterSetBack(-step) && !p.Held):
		o.plan(e, now)
	}
}

// time is a time of the clock that a fire lies on, on the wall clock.
func (o *owner) time(p rules.Pending, key int64) time.Time {
	if p.OnWall {
		return time.Unix(0, key).In(o.s.o.Zone)
	}
	return o.wallAt(time.Duration(key))
}

// wallAt is an elapsed time on the wall clock.
func (o *owner) wallAt(up time.Duration) time.Time {
	return o.base.At(up).In(o.s.o.Zone)
}

// begin is apply for the first schedule of a process.
func (o *owner) begin(set schedule.Set) schedule.Changes {
	o.begins = true
	defer func() { o.begins = false }()
	changes := o.apply(set)
	names := slices.Sorted(maps.Keys(set))
	o.s.log.Info("schedule begins", "entries", len(names), "names", strings.Join(names[:min(len(names), maxNamed)], " "))
	return changes
}

// maxNamed is how many entries the log names at the start.
const maxNamed = 100

// apply makes set the schedule. Entries that are equal stay the very same.
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
			e = newEntry(name)
			o.entries[name] = e
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
	o.indexNeeds()
	o.forget()
	if len(o.unreported) > 0 {
		o.reportOlder()
	}
	o.dirty = o.dirty || changed
	o.s.log.Info("schedule applied", "added", len(changes.Added), "removed", len(changes.Removed),
		"retimed", len(changes.Retimed), "swapped", len(changes.Swapped), "kept", len(changes.Kept))
	return changes
}

// swapHistory swaps an entry and reports whether its history has to be stored. A new hash alone need not be: it says whose
// failures are counted, and a history without failures says the same under every hash.
func (o *owner) swapHistory(e *entry, spec *schedule.Entry, now rules.Instant) (changed bool) {
	before := e.Clone()
	o.swap(e, spec, now)
	before.Hash = e.Hash
	return !reflect.DeepEqual(before, e.History)
}

// maxRemembered is how many entries that left the schedule are remembered.
const maxRemembered = 1000

// forget drops the entries that left the schedule longest ago, but none that runs.
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
	slices.SortFunc(left, func(a, b *entry) int { return a.Left.Compare(b.Left) })
	for _, e := range left[:len(left)-maxRemembered] {
		delete(o.entries, e.Name)
	}
}

// stop waits for the runs in flight, cancels those that take too long, and stores the state.
func (o *owner) stop() error {
	for name := range o.set {
		o.entries[name].stopRetries()
	}
	o.drain(stopGrace)
	if len(o.runs) > 0 {
		o.s.log.Info("canceling runs, as the peel stops", "runs", len(o.runs))
		for _, r := range o.runs {
			r.cancel(errors.New("the peel was stopped"))
		}
	}
	o.drain(cancelGrace)
	close(o.s.gone)
	var stuck error
	if len(o.runs) > 0 {
		stuck = fmt.Errorf("cannot end the runs of %s: they do not heed their cancellation", strings.Join(o.busy(), ", "))
	}
	if o.reporting > 0 {
		o.s.log.Warn("reports of runs are not stored yet; the next process reports those runs, without their output", "reports", o.reporting)
	}
	if o.saving {
		o.afterSave(<-o.saved)
	}
	return errors.Join(stuck, history.Store(o.s.o.StateFile, o.histories(), o.settled))
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

// busy are the names of entries that run.
func (o *owner) busy() []string {
	var names []string
	for _, r := range o.runs {
		names = append(names, r.e.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
