package scheduler

import (
	"errors"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// An entry is one name of the schedule, with its next fire, its runs and its history.
type entry struct {
	Entry
	begun       bool          // it has been active in this process
	runs        []*run        // in flight, in the order of their start
	queue       *queue        // that has the entry; nil if it has no next fire
	key         int64         // its place in queue
	waitingFrom time.Duration // Waiting.Since, as elapsed time of this process
	catchUpFrom time.Duration // no catch-up run starts before this elapsed time
	noted       Class         // when Options.Changed was last called for the entry
	dirty       bool          // its history has changed since the last write, beside what [Entry] has as Unsaved
}

func newEntry(name string) *entry { return &entry{Entry: NewEntry(name)} }

// newRemembered returns an entry that the state file has and the schedule does not have yet. The wall
// clock was set by step since the last record, as far as that is known.
func newRemembered(name string, h History, step time.Duration, now Instant) *entry {
	e := newEntry(name)
	e.History = h
	e.Breaker.ForgetProbe()
	e.Move(step, now.Wall)
	e.CountFromLastRun(step, now)
	if !e.Anchored.IsZero() {
		e.CountFrom(e.Anchored, now)
	}
	if d := e.Delayed; step == 0 && d != nil && d.Nominal.After(now.Wall) {
		e.Delayed = nil // nobody knows by how much the clock was set: the host has booted
	}
	e.dirty = step != 0
	return e
}

// anchor returns the elapsed time from which the interval counts if the runs in flight are cut off.
func (e *entry) anchor() time.Duration {
	anchor := e.Anchor
	if e.Spec == nil || !fromStart(&e.Entry) {
		for _, r := range e.runs {
			anchor = max(anchor, r.began.Up)
		}
	}
	return anchor
}

// hasAllRuns reports whether the runs that ended and those in flight reach max_runs.
func (e *entry) hasAllRuns() bool {
	limit := e.MaxRuns()
	return limit > 0 && e.allRuns() >= limit
}

func (e *entry) allRuns() uint64 {
	n := e.TimingRuns
	for _, r := range e.runs {
		if r.countsTowardsMaxRuns() {
			n++
		}
	}
	return n
}

// plan sets the next fire by the timing. There is none if the timing never fires again or the entry's life ends before.
func (o *owner) plan(e *entry, now Instant) {
	e.disarm()
	if e.hasAllRuns() {
		return
	}
	if nominal, ok := e.Rhythm.Next(&e.Entry, o.clocks.Base, now); ok {
		o.arm(e, wire.TriggerTimer, nominal)
	}
}

func (e *entry) disarm() {
	e.dequeue()
	e.Next, e.Held, e.dirty = Pending{}, time.Time{}, true
}

// arm sets the entry's next fire; nominal is a time of the clock that the entry follows. Only run_on_start has no
// splay.
func (o *owner) arm(e *entry, t wire.Trigger, nominal int64) {
	p := Pending{Trigger: t, OnWall: e.Rhythm.OnWall(), Nominal: nominal, At: nominal}
	if t != wire.TriggerStart {
		p.At += int64(e.Draw(o.s.o.Peel, o.s.random, o.time(p, nominal)))
	}
	o.enqueue(e, p)
}

// hold sets the next fire to when the windows open, plus a splay. It returns false if the entry does not want that or
// they never open.
func (o *owner) hold(e *entry, t wire.Trigger, f ledger.Fire, nominal time.Time, now Instant) bool {
	opens, ok := e.Deferred(now)
	if !ok {
		return false
	}
	at := opens.Add(e.Draw(o.s.o.Peel, o.s.random, opens))
	o.enqueue(e, Pending{
		Trigger: t,
		OnWall:  true,
		Nominal: nominal.UnixNano(),
		At:      at.UnixNano(),
		Held:    true,
		Listed:  e.WritePending(f, ledger.Held),
	})
	return true
}

// enqueue makes p the next fire of the entry, in the queue of its clock.
func (o *owner) enqueue(e *entry, p Pending) {
	e.disarm()
	e.Next = p
	if p.Held {
		e.Held, o.Dirty = o.time(p, p.Nominal), true
	}
	key := p.At
	if p.Listed.Era == 0 { // it is written into the list at its nominal time
		key = min(key, p.Nominal)
	}
	if p.OnWall {
		o.wall.push(e, key)
	} else {
		o.elapsed.push(e, key)
	}
}

// adopt gives the entry a new definition. A change sets its failures in a row to zero; a new timing also starts a new
// life.
func (o *owner) adopt(e *entry, spec *schedule.Entry, now Instant) {
	if hash := spec.Hash(); e.Hash != hash {
		e.Hash, e.FailuresInRow = hash, 0
	}
	timing := spec.TimingHash()
	if e.TimingHash != timing {
		e.DropStored(ledger.Superseded, slices.Contains(o.waiting, e))
		e.TimingSeen = now.Wall
		e.TimingRuns = 0
		e.Active = time.Time{}
		e.Held = time.Time{}
		e.Owed = nil
		e.Delayed = nil
	}
	e.Spec = spec
	e.Invalid = ""
	e.Left = time.Time{}
	e.TimingHash = timing
	o.limitOwed(e)
	if spec.Failures.Breaker.Threshold == 0 {
		e.Breaker.Close(now.Wall, "the entry no longer has a breaker")
	}
	err := o.setTiming(e)
	if spec.Invalid != "" {
		err = errors.New(spec.Invalid)
	}
	if err == nil && o.s.o.Able != nil && spec.Enabled {
		err = o.s.o.Able(spec)
	}
	if err != nil {
		e.Invalid = err.Error()
		o.s.log.Error("entry cannot run", "entry", e.Name, "err", err)
	}
	o.note(e)
}

// setTiming computes the entry's timing from its definition.
func (o *owner) setTiming(e *entry) error {
	timing, err := e.Spec.Timing(o.s.o.Zone)
	e.Timing, e.Rhythm = timing.Seen(e.TimingSeen), RhythmOf(timing)
	return err
}

// activate sets the next fire of an entry that had none. An interval keeps the rhythm of its last run. Fires that were
// missed while the process was down are made up as catch_up says; others that were missed are not.
func (o *owner) activate(e *entry, now Instant) {
	defer o.endLeft(e)
	if !e.IsActive() {
		why := ledger.Disabled
		if e.Paused != nil {
			why = ledger.Paused
		}
		o.rest(e, why, now)
		return
	}
	e.dirty = true
	if e.Active.IsZero() || e.Since.IsZero() {
		e.Since = now.Wall
	}
	first := !e.begun
	e.MarkBegins(now.Wall, first && o.otherZone && e.Spec.Clock.Zone == "")
	e.begun = true
	if e.Seen.IsZero() {
		e.Seen = now.Wall
	}
	switch {
	case e.Started.IsZero(): // else a host that restarts more often than the interval would never run the entry
		e.CountFrom(e.Since, now)
	case first && fromStart(&e.Entry) && e.Anchored.IsZero():
		e.CountFrom(e.Nominal.Add(o.step), now)
	case first && fromStart(&e.Entry):
		e.CountFrom(e.Anchored, now)
	}
	if first {
		o.restoreWaiting(e, now)
	}
	delayed, waits := e.TakeDelayed(now.Wall)
	waits = waits && first
	expired, past := delayed, now
	if waits {
		expired = nil
	}
	if waits && !delayed.Nominal.After(now.Wall) { // what was missed is before it
		past.Wall = delayed.Nominal.Add(-1)
		past.Up -= now.Wall.Sub(past.Wall)
	}
	o.catchUp(e, expired, past)
	e.Active = past.Wall
	e.Rhythm.Activate(&e.Entry, now)
	if first && o.begins && e.Spec.RunOnStart && e.MayFire(now.Wall) && !e.hasAllRuns() {
		o.arm(e, wire.TriggerStart, e.ClockOf(now))
		return
	}
	if waits {
		o.enqueue(e, Pending{
			Trigger: wire.TriggerTimer, OnWall: true, Nominal: delayed.Nominal.UnixNano(), At: delayed.At.UnixNano(),
			Listed: e.WritePending(ledger.Fire{Nominal: ledger.At(delayed.Nominal)}, ledger.Splay),
		})
	} else if e.Held.IsZero() {
		o.plan(e, now)
	} else if held, f := e.Held, e.HeldFire(); !o.hold(e, wire.TriggerTimer, f, held, now) {
		o.skip(e, ledger.OutsideWindow, f, held)
		o.plan(e, now)
	}
}

// rest removes the fires of an entry that is not active. why says what keeps it from firing. Its next fire is the
// end of its pause, if that has one.
func (o *owner) rest(e *entry, why ledger.Reason, now Instant) {
	if !e.Active.IsZero() {
		e.Since = now.Wall
	}
	e.MarkRests(now.Wall, why)
	e.DropStored(why, false)
	e.disarm()
	e.Active = time.Time{}
	if e.Spec != nil && e.Paused != nil && !e.Paused.Until.IsZero() {
		until := e.Paused.Until.UnixNano()
		o.enqueue(e, Pending{Trigger: TriggerResume, OnWall: true, Nominal: until, At: until})
	}
}

// halt removes the fires of an entry that is no longer active, and counts those that wait. Runs in flight are not tried
// again.
func (o *owner) halt(e *entry, why ledger.Reason, now Instant) {
	e.stopRetries()
	if e.Next.Splaying(now) {
		o.skip(e, why, o.fireOf(e), o.time(e.Next, e.Next.Nominal))
	}
	e.disarm()
	if slices.Contains(o.waiting, e) {
		o.skip(e, why, e.Waiting.Fire(), e.Waiting.Nominal)
		o.noLongerWaits(e)
	}
	o.rest(e, why, now)
}

func (o *owner) noLongerWaits(e *entry) {
	o.waiting = slices.DeleteFunc(o.waiting, func(other *entry) bool { return other == e })
	e.Waiting = nil
}

// stopRetries ends the retries of the entry's runs in flight.
func (e *entry) stopRetries() {
	for _, r := range e.runs {
		select {
		case <-r.noRetry:
		default:
			close(r.noRetry)
		}
	}
}

func (o *owner) remove(e *entry, now Instant) {
	o.halt(e, ledger.Removed, now)
	e.disarm()
	e.Spec, e.Left = nil, now.Wall
	o.note(e)
}

// retime gives an entry a definition with a new timing, which counts from the last run: a fire that is overdue by it is
// due now, once. Only the fire of run_on_start is kept.
func (o *owner) retime(e *entry, spec *schedule.Entry, now Instant) {
	e.stopRetries()
	was, trigger, listed := e.IsActive(), e.Next.Trigger, e.Next.Listed
	if trigger != wire.TriggerStart && e.Next.Splaying(now) {
		o.skip(e, ledger.Superseded, o.fireOf(e), o.time(e.Next, e.Next.Nominal))
	}
	e.disarm()
	o.adopt(e, spec, now)
	switch {
	case !e.IsActive():
		o.halt(e, ledger.Disabled, now)
	case !was:
		o.activate(e, now)
	case trigger == wire.TriggerStart && e.MayFire(now.Wall):
		o.arm(e, wire.TriggerStart, e.ClockOf(now))
		e.Next.Listed = listed
	case e.Rhythm.IsOverdue(&e.Entry, now) && e.MayFire(now.Wall) && !e.hasAllRuns():
		o.arm(e, wire.TriggerTimer, int64(now.Up))
	default:
		o.plan(e, now)
	}
	if e.IsActive() {
		e.Active, e.Since = now.Wall, now.Wall
		e.MarkBegins(now.Wall, false)
	}
	o.s.log.Info("entry has a new timing", "entry", e.Name, "next", o.nextFire(e))
}

// swap gives an entry a definition with the same timing, for its next fire, which keeps its time. A new splay is drawn
// if the nominal time has not passed. A held fire moves with the windows.
func (o *owner) swap(e *entry, spec *schedule.Entry, now Instant) {
	e.stopRetries()
	was, old, next := e.IsActive(), e.Spec, e.Next
	opened, _ := e.Timing.Opens(now.Wall)
	o.adopt(e, spec, now)
	opens, _ := e.Timing.Opens(now.Wall)
	switch {
	case was && !e.IsActive():
		o.halt(e, ledger.Disabled, now)
	case !was:
		o.activate(e, now)
	case next.Held && opens.Equal(opened) && spec.Windows.Outside == old.Windows.Outside:
	case next.Held:
		if nominal := o.time(next, next.Nominal); !o.hold(e, next.Trigger, next.Listed, nominal, now) {
			o.skip(e, ledger.OutsideWindow, next.Listed, nominal)
			o.plan(e, now)
		}
	case next.Trigger == "" || spec.Life != old.Life && !next.Splaying(now):
		o.plan(e, now)
	case spec.Splay != old.Splay && !next.Splaying(now):
		o.arm(e, next.Trigger, next.Nominal)
	}
	o.s.log.Info("entry changed, from its next fire on", "entry", e.Name, "next", o.nextFire(e))
}

// nextFire returns when the entry fires next, zero for never.
func (o *owner) nextFire(e *entry) time.Time {
	if !e.IsActive() || e.Next.Trigger == "" {
		return time.Time{}
	}
	return o.time(e.Next, e.Next.At)
}
