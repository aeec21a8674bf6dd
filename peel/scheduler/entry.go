package scheduler

import (
	"errors"
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// An entry is one name of the schedule, with its timer and its past.
type entry struct {
	name    string
	spec    *schedule.Entry // nil: it left the schedule and is remembered
	timing  schedule.Timing
	rhythm  rhythm // of timing
	invalid string // why it cannot run, whatever spec says
	begun   bool   // it has been active in this process
	seen    bool   // its timing is of this process, whose wall clock has said when
	runs    []*run // in flight, in the order of their start
	// anchor is what an interval counts from: activation, the end of the last run, or the last fire while a run is
	// in flight. It is kept for every entry, as its timing may change.
	anchor      time.Duration
	next        pending
	queue       *queue // where next lies
	place       int
	waitingFrom time.Duration // Waiting.Since, as elapsed time of this process
	catchUpFrom time.Duration // not before this is a fire of Owed made up
	history.History
}

// pending is the one fire that an entry has ahead. The zero value is none.
type pending struct {
	trigger history.Trigger
	onWall  bool // its times are Unix times, else they are elapsed ones
	nominal int64
	at      int64 // splay included
	held    bool  // windows were closed at its nominal time, and open at the time that its splay is added to
}

// clock reads the clock that the fire lies on.
func (p pending) clock(now instant) int64 {
	if p.onWall {
		return now.wall.UnixNano()
	}
	return int64(now.up)
}

// splaying tells whether the fire's time has come but for its splay, or it is held up.
func (p pending) splaying(now instant) bool {
	return p.trigger != "" && p.trigger != triggerResume && p.nominal < p.clock(now)
}

// longAgo is longer than any interval, and short enough to add up.
const longAgo = 100 * 366 * 24 * time.Hour

// newRemembered returns an entry that the state file has and the schedule not yet.
func newRemembered(name string, h history.History, now instant) *entry {
	e := &entry{name: name, rhythm: wall{}, History: h}
	e.count(now)
	e.Breaker.ForgetProbe()
	e.Breaker.ClampOpened(now.wall)
	return e
}

// count has the entry's interval count from its last run, or from now.
func (e *entry) count(now instant) {
	last := e.Ended
	if e.Started.After(last) {
		last = e.Started
	}
	e.anchor = now.up
	if !last.IsZero() {
		e.anchor -= min(max(0, now.wall.Sub(last)), longAgo)
	}
}

// active tells whether timers and triggers make the entry run.
func (e *entry) active() bool {
	return e.spec != nil && e.spec.Enabled && e.invalid == "" && e.Paused == nil && !e.failing()
}

// clock reads the clock that the entry follows.
func (e *entry) clock(now instant) int64 { return pending{onWall: e.rhythm.onWall()}.clock(now) }

// plan sets the next fire by the timing. A timing that never fires again, and the end of the entry's life, leave it
// without.
func (o *owner) plan(e *entry, now instant) {
	e.disarm()
	if e.lived() {
		return
	}
	if nominal, ok := e.rhythm.next(o, e, now); ok {
		o.arm(e, history.TriggerTimer, nominal)
	}
}

func (e *entry) disarm() {
	e.dequeue()
	e.next, e.Held = pending{}, time.Time{}
}

// arm sets the entry's next fire; nominal is a time of its clock. Only run_on_start has no splay.
func (o *owner) arm(e *entry, t history.Trigger, nominal int64) {
	p := pending{trigger: t, onWall: e.rhythm.onWall(), nominal: nominal, at: nominal}
	if t != history.TriggerStart {
		p.at += int64(o.draw(e, o.time(p, nominal)))
	}
	o.lay(e, p)
}

// lay puts a fire into the queue of its clock, in the place of the one that was ahead.
func (o *owner) lay(e *entry, p pending) {
	e.disarm()
	e.next = p
	if p.held {
		e.Held, o.dirty = o.time(p, p.nominal), true
	}
	if p.onWall {
		o.wall.push(e, p.at)
	} else {
		o.elapsed.push(e, p.at)
	}
}

// adopt gives the entry what the schedule says of it. Failures of what it was before are forgiven, and a new timing
// starts a new life.
func (o *owner) adopt(e *entry, spec *schedule.Entry, now instant) {
	if hash := spec.Hash(); e.Hash != hash {
		e.Hash, e.FailuresInRow = hash, 0
	}
	timing := spec.TimingHash()
	if e.TimingHash != timing {
		e.TimingSeen, e.TimingRuns, e.Active, e.Held, e.Owed, e.seen = now.wall, 0, time.Time{}, time.Time{}, nil, true
		if e.spec == nil { // what waited was of the timing before the restart
			e.Waiting = nil
		}
	}
	e.spec, e.invalid, e.Left, e.TimingHash = spec, "", time.Time{}, timing
	o.limitOwed(e)
	if spec.Failures.Breaker.Threshold == 0 {
		e.Breaker.Close(now.wall, "the entry has no breaker any more")
	}
	err := o.setTiming(e)
	if spec.Invalid != "" {
		err = errors.New(spec.Invalid)
	}
	if err == nil && o.s.o.Able != nil && spec.Enabled {
		err = o.s.o.Able(spec)
	}
	if err != nil {
		e.invalid = err.Error()
		o.s.log.Error("entry cannot run", "entry", e.name, "err", err)
	}
	o.notePaused(e)
}

// setTiming gives the entry the arithmetic of what the schedule says.
func (o *owner) setTiming(e *entry) error {
	timing, err := e.spec.Timing(o.s.o.Zone)
	e.timing, e.rhythm = timing.Seen(e.TimingSeen), rhythmOf(timing)
	return err
}

// activate arms an entry that had no timer. An interval goes on in the rhythm of its last run; catch_up says what
// becomes of fires that were missed while the process was down, all others are not made up.
func (o *owner) activate(e *entry, now instant) {
	if !e.active() {
		o.rest(e)
		return
	}
	first := !e.begun
	e.begun = true
	if e.Seen.IsZero() {
		e.Seen = now.wall
	}
	switch {
	case e.Started.IsZero():
		e.anchor = now.up
	case e.spec.Clock.IntervalFrom == schedule.FromStart:
		e.anchor = now.up - min(max(0, now.wall.Sub(e.Nominal)), longAgo)
	}
	if first {
		o.restoreWaiting(e, now)
	}
	o.catchUp(e, now)
	e.Active = now.wall
	e.rhythm.activate(e, now)
	if first && o.begins && e.spec.RunOnStart && e.mayFire(now.wall) && !e.lived() {
		o.arm(e, history.TriggerStart, e.clock(now))
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
	if e.spec != nil && e.Paused != nil && !e.Paused.Until.IsZero() {
		until := e.Paused.Until.UnixNano()
		o.lay(e, pending{trigger: triggerResume, onWall: true, nominal: until, at: until})
	}
}

// halt takes an entry that is no longer active out of the timers; the fires that wait are counted, and runs in flight
// are not tried again.
func (o *owner) halt(e *entry, why history.Reason, now instant) {
	e.stopRetries()
	if e.next.splaying(now) {
		o.skip(e, skipped{why, o.time(e.next, e.next.nominal), 1})
	}
	o.dropWaiting(e, why)
	o.rest(e)
}

func (o *owner) remove(e *entry, now instant) {
	o.halt(e, history.Removed, now)
	e.disarm()
	e.spec, e.Left = nil, now.wall
	o.notePaused(e)
}

// retime gives an active entry a new timing, which counts from what was: what is due by it is due now, once. Only
// a fire that no timing made, that of run_on_start, stays ahead.
func (o *owner) retime(e *entry, spec *schedule.Entry, now instant) {
	e.stopRetries()
	was, trigger := e.active(), e.next.trigger
	if trigger == history.TriggerTimer && e.next.splaying(now) {
		o.skip(e, skipped{history.Superseded, o.time(e.next, e.next.nominal), 1})
	}
	e.disarm()
	o.adopt(e, spec, now)
	switch {
	case !e.active():
		o.halt(e, history.Disabled, now)
	case !was:
		o.activate(e, now)
	case trigger == history.TriggerStart && e.mayFire(now.wall):
		o.arm(e, history.TriggerStart, e.clock(now))
	case e.rhythm.isOverdue(e, now) && e.mayFire(now.wall) && !e.lived():
		o.arm(e, history.TriggerTimer, int64(now.up))
	default:
		o.plan(e, now)
	}
	if e.active() {
		e.Active = now.wall
	}
	o.s.log.Info("entry has a new timing", "entry", e.name, "next", o.nextFire(e))
}

// swap gives the entry other fields, for its next fire. The timer stays; a new splay is drawn unless the old one has
// begun, and a fire that windows hold follows them.
func (o *owner) swap(e *entry, spec *schedule.Entry, now instant) {
	e.stopRetries()
	was, old, next := e.active(), e.spec, e.next
	opened, _ := e.timing.Opens(now.wall)
	o.adopt(e, spec, now)
	switch {
	case was && !e.active():
		o.halt(e, history.Disabled, now)
	case !was:
		o.activate(e, now)
	case next.held:
		if opens, _ := e.timing.Opens(now.wall); !opens.Equal(opened) || e.spec.Windows.Outside != old.Windows.Outside {
			o.rehold(e, next, now)
		}
	case next.trigger == "" || spec.Life != old.Life && !next.splaying(now):
		o.plan(e, now)
	case spec.Splay != old.Splay && !next.splaying(now):
		o.arm(e, next.trigger, next.nominal)
	}
	o.s.log.Info("entry changed, from its next fire on", "entry", e.name, "next", o.nextFire(e))
}

// nextFire is when the entry is to run, zero for never.
func (o *owner) nextFire(e *entry) time.Time {
	if !e.active() || e.next.trigger == "" {
		return time.Time{}
	}
	return o.time(e.next, e.next.at)
}
