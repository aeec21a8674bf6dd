package scheduler

import (
	"errors"
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/peel/scheduler/rules"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// An entry is one name of the schedule, with its timer and its past.
type entry struct {
	rules.Entry
	begun       bool   // it has been active in this process
	seen        bool   // its timing is of this process, whose wall clock has said when
	runs        []*run // in flight, in the order of their start
	queue       *queue // where Next lies
	place       int
	waitingFrom time.Duration // Waiting.Since, as elapsed time of this process
	catchUpFrom time.Duration // not before this is a fire of Owed made up
}

func newEntry(name string) *entry { return &entry{Entry: rules.New(name)} }

// newRemembered returns an entry that the state file has and the schedule not yet.
func newRemembered(name string, h history.History, now rules.Instant) *entry {
	e := newEntry(name)
	e.History = h
	e.CountFromLastRun(now)
	e.Breaker.ForgetProbe()
	e.Breaker.ClampOpened(now.Wall)
	return e
}

// plan sets the next fire by the timing. A timing that never fires again, and the end of the entry's life, leave it
// without.
func (o *owner) plan(e *entry, now rules.Instant) {
	e.disarm()
	if e.lived() {
		return
	}
	if nominal, ok := e.Rhythm.Next(&e.Entry, o.base, now); ok {
		o.arm(e, history.TriggerTimer, nominal)
	}
}

func (e *entry) disarm() {
	e.dequeue()
	e.Next, e.Held = rules.Pending{}, time.Time{}
}

// arm sets the entry's next fire; nominal is a time of its clock. Only run_on_start has no splay.
func (o *owner) arm(e *entry, t history.Trigger, nominal int64) {
	p := rules.Pending{Trigger: t, OnWall: e.Rhythm.OnWall(), Nominal: nominal, At: nominal}
	if t != history.TriggerStart {
		p.At += int64(e.Draw(o.s.o.Peel, o.time(p, nominal)))
	}
	o.lay(e, p)
}

// lay puts a fire into the queue of its clock, in the place of the one that was ahead.
func (o *owner) lay(e *entry, p rules.Pending) {
	e.disarm()
	e.Next = p
	if p.Held {
		e.Held, o.dirty = o.time(p, p.Nominal), true
	}
	if p.OnWall {
		o.wall.push(e, p.At)
	} else {
		o.elapsed.push(e, p.At)
	}
}

// adopt gives the entry what the schedule says of it. Failures of what it was before are forgiven, and a new timing
// starts a new life.
func (o *owner) adopt(e *entry, spec *schedule.Entry, now rules.Instant) {
	if hash := spec.Hash(); e.Hash != hash {
		e.Hash, e.FailuresInRow = hash, 0
	}
	timing := spec.TimingHash()
	if e.TimingHash != timing {
		e.TimingSeen, e.TimingRuns, e.Active, e.Held, e.Owed, e.seen = now.Wall, 0, time.Time{}, time.Time{}, nil, true
		if e.Spec == nil { // what waited was of the timing before the restart
			e.Waiting = nil
		}
	}
	e.Spec, e.Invalid, e.Left, e.TimingHash = spec, "", time.Time{}, timing
	o.limitOwed(e)
	if spec.Failures.Breaker.Threshold == 0 {
		e.Breaker.Close(now.Wall, "the entry has no breaker any more")
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
	o.notePaused(e)
}

// setTiming gives the entry the arithmetic of what the schedule says.
func (o *owner) setTiming(e *entry) error {
	timing, err := e.Spec.Timing(o.s.o.Zone)
	e.Timing, e.Rhythm = timing.Seen(e.TimingSeen), rules.RhythmOf(timing)
	return err
}

// activate arms an entry that had no timer. An interval goes on in the rhythm of its last run; catch_up says what
// becomes of fires that were missed while the process was down, all others are not made up.
func (o *owner) activate(e *entry, now rules.Instant) {
	if !e.IsActive() {
		o.rest(e)
		return
	}
	first := !e.begun
	e.begun = true
	if e.Seen.IsZero() {
		e.Seen = now.Wall
	}
	switch {
	case e.Started.IsZero():
		e.Anchor = now.Up
	case e.Spec.Clock.IntervalFrom == schedule.FromStart:
		e.Anchor = now.Up - min(max(0, now.Wall.Sub(e.Nominal)), rules.LongAgo)
	}
	if first {
		o.restoreWaiting(e, now)
	}
	o.catchUp(e, now)
	e.Active = now.Wall
	e.Rhythm.Activate(&e.Entry, now)
	if first && o.begins && e.Spec.RunOnStart && e.MayFire(now.Wall) && !e.lived() {
		o.arm(e, history.TriggerStart, e.ClockOf(now))
		return
	}
	if !e.Held.IsZero() && o.hold(e, history.TriggerTimer, e.Held, now) {
		return
	}
	o.plan(e, now)
}

// rest leaves an entry that is not active without a fire, but for the end of a pause.
func (o *owner) rest(e *entry) {
	e.disarm()
	o.stopWaiting(e)
	e.Active, e.Owed = time.Time{}, nil
	if e.Spec != nil && e.Paused != nil && !e.Paused.Until.IsZero() {
		until := e.Paused.Until.UnixNano()
		o.lay(e, rules.Pending{Trigger: rules.TriggerResume, OnWall: true, Nominal: until, At: until})
	}
}

// halt takes an entry that is no longer active out of the timers; the fires that wait are counted, and runs in flight
// are not tried again.
func (o *owner) halt(e *entry, why history.Reason, now rules.Instant) {
	e.stopRetries()
	if e.Next.Splaying(now) {
		o.skip(e, skipped{why, o.time(e.Next, e.Next.Nominal), 1})
	}
	o.dropWaiting(e, why)
	o.rest(e)
}

func (o *owner) remove(e *entry, now rules.Instant) {
	o.halt(e, history.Removed, now)
	e.disarm()
	e.Spec, e.Left = nil, now.Wall
	o.notePaused(e)
}

// retime gives an active entry a new timing, which counts from what was: what is due by it is due now, once. Only
// a fire that no timing made, that of run_on_start, stays ahead.
func (o *owner) retime(e *entry, spec *schedule.Entry, now rules.Instant) {
	e.stopRetries()
	was, trigger := e.IsActive(), e.Next.Trigger
	if trigger == history.TriggerTimer && e.Next.Splaying(now) {
		o.skip(e, skipped{history.Superseded, o.time(e.Next, e.Next.Nominal), 1})
	}
	e.disarm()
	o.adopt(e, spec, now)
	switch {
	case !e.IsActive():
		o.halt(e, history.Disabled, now)
	case !was:
		o.activate(e, now)
	case trigger == history.TriggerStart && e.MayFire(now.Wall):
		o.arm(e, history.TriggerStart, e.ClockOf(now))
	case e.Rhythm.IsOverdue(&e.Entry, now) && e.MayFire(now.Wall) && !e.lived():
		o.arm(e, history.TriggerTimer, int64(now.Up))
	default:
		o.plan(e, now)
	}
	if e.IsActive() {
		e.Active = now.Wall
	}
	o.s.log.Info("entry has a new timing", "entry", e.Name, "next", o.nextFire(e))
}

// swap gives the entry other fields, for its next fire. The timer stays; a new splay is drawn unless the old one has
// begun, and a fire that windows hold follows them.
func (o *owner) swap(e *entry, spec *schedule.Entry, now rules.Instant) {
	e.stopRetries()
	was, old, next := e.IsActive(), e.Spec, e.Next
	opened, _ := e.Timing.Opens(now.Wall)
	o.adopt(e, spec, now)
	switch {
	case was && !e.IsActive():
		o.halt(e, history.Disabled, now)
	case !was:
		o.activate(e, now)
	case next.Held:
		if opens, _ := e.Timing.Opens(now.Wall); !opens.Equal(opened) || e.Spec.Windows.Outside != old.Windows.Outside {
			o.rehold(e, next, now)
		}
	case next.Trigger == "" || spec.Life != old.Life && !next.Splaying(now):
		o.plan(e, now)
	case spec.Splay != old.Splay && !next.Splaying(now):
		o.arm(e, next.Trigger, next.Nominal)
	}
	o.s.log.Info("entry changed, from its next fire on", "entry", e.Name, "next", o.nextFire(e))
}

// nextFire is when the entry is to run, zero for never.
func (o *owner) nextFire(e *entry) time.Time {
	if !e.IsActive() || e.Next.Trigger == "" {
		return time.Time{}
	}
	return o.time(e.Next, e.Next.At)
}
