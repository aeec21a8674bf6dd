package scheduler

import (
	"math/rand/v2"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// An entry is one name of the schedule, with its timer and its past.
type entry struct {
	name    string
	spec    *schedule.Entry // nil: it left the schedule and is remembered
	timing  schedule.Timing
	invalid string // why it cannot run, whatever spec says
	begun   bool   // it has been active in this process
	running int
	// anchor is what an interval counts from: activation, the end of the last run, or the last fire while a run is
	// in flight. It is kept for every entry, as its timing may change.
	anchor time.Duration
	next   pending
	queue  *queue // where next lies
	place  int
	History
}

// pending is the one fire that an entry has ahead. Times are keys of the entry's own clock. The zero value is none.
type pending struct {
	trigger Trigger
	at      int64
	splay   time.Duration // part of at
}

func (p pending) nominal() int64 { return p.at - int64(p.splay) }

// longAgo is longer than any interval, and short enough to add up.
const longAgo = 100 * 366 * 24 * time.Hour

// remembered is an entry that the state file has and the schedule not yet.
func remembered(name string, h History, now instant) *entry {
	last := h.Ended
	if h.Started.After(last) {
		last = h.Started
	}
	e := &entry{name: name, History: h, anchor: now.up}
	if !last.IsZero() {
		e.anchor -= min(max(0, now.wall.Sub(last)), longAgo)
	}
	return e
}

func (e *entry) active() bool { return e.spec != nil && e.spec.Enabled && e.invalid == "" }

// waiting tells whether a nominal time has passed and the fire has not come: the entry is in its splay, or held up.
func (e *entry) waiting(now instant) bool {
	return e.next.trigger != "" && e.next.nominal() < e.clock(now)
}

// clock reads the clock that the entry follows.
func (e *entry) clock(now instant) int64 {
	if e.timing.FollowsRuns() {
		return int64(now.up)
	}
	return now.wall.UnixNano()
}

// period is the interval that begins at the anchor.
func (e *entry) period(now instant) time.Duration {
	from := now.wall.Add(e.anchor - now.up)
	to, _ := e.timing.Next(from) // an interval never ends
	return to.Sub(from)
}

// draw draws the splay of the fire with the given nominal time.
func (e *entry) draw(nominal time.Time) time.Duration {
	s := e.spec.Splay
	if s.Max <= 0 {
		return 0
	}
	high := e.timing.SplayBound(nominal, s.Max)
	low := min(s.Min, high-1)
	return low + rand.N(high-low)
}

func (e *entry) disarm() {
	e.dequeue()
	e.next = pending{}
}

// arm sets the entry's next fire; nominal is a key of its clock.
func (o *owner) arm(e *entry, t Trigger, nominal int64) {
	e.disarm()
	splay := e.draw(o.time(e, nominal))
	e.next = pending{trigger: t, at: nominal + int64(splay), splay: splay}
	if e.timing.FollowsRuns() {
		o.elapsed.push(e, e.next.at)
	} else {
		o.wall.push(e, e.next.at)
	}
}

// plan sets the next fire by the timing. A timing that never fires again leaves the entry without.
func (o *owner) plan(e *entry, now instant) {
	if e.timing.FollowsRuns() {
		o.arm(e, TriggerTimer, int64(e.anchor+e.period(now)))
		return
	}
	after := now.wall
	if ahead := e.Nominal.Sub(after); ahead > 0 && ahead <= setBackLimit {
		after = e.Nominal
	}
	if nominal, ok := e.timing.Next(after); ok {
		o.arm(e, TriggerTimer, nominal.UnixNano())
	}
}

// adopt gives the entry what the schedule says of it.
func (o *owner) adopt(e *entry, spec *schedule.Entry) {
	e.spec, e.invalid, e.Left = spec, "", time.Time{}
	var err error
	if e.timing, err = spec.Timing(o.s.o.Zone); err != nil {
		e.invalid = err.Error()
		o.s.log.Error("entry cannot run", "entry", e.name, "err", err)
	}
}

// activate arms an entry that had no timer. An interval goes on in the rhythm of its last run; fires that would have
// come meanwhile are not made up.
func (o *owner) activate(e *entry, now instant) {
	if !e.active() {
		return
	}
	first := !e.begun
	e.begun = true
	if e.Seen.IsZero() {
		e.Seen = now.wall
	}
	if e.Started.IsZero() {
		e.anchor = now.up
	}
	if first && e.spec.RunOnStart {
		o.arm(e, TriggerStart, e.clock(now))
		return
	}
	if e.timing.FollowsRuns() {
		e.keepRhythm(now)
	}
	o.plan(e, now)
}

// keepRhythm moves the anchor by whole periods until the next one ends in the future.
func (e *entry) keepRhythm(now instant) {
	for {
		behind, period := now.up-e.anchor, e.period(now)
		switch {
		case behind < period:
			return
		case e.spec.Clock.Interval.Months > 0:
			e.anchor += period // the next month may be shorter
		default:
			e.anchor += behind / period * period
		}
	}
}

func (o *owner) remove(e *entry, now instant) {
	e.disarm()
	e.spec, e.Left = nil, now.wall
}

// retime gives an active entry a new timing, which counts from what was: what is due by it is due now, once. Only
// a fire that no timing made, that of run_on_start, stays ahead; its splay is drawn anew.
func (o *owner) retime(e *entry, spec *schedule.Entry, now instant) {
	was, trigger := e.active(), e.next.trigger
	if trigger == TriggerTimer && e.waiting(now) {
		o.skip(e, skipped{Superseded, o.time(e, e.next.nominal()), 1})
	}
	e.disarm()
	o.adopt(e, spec)
	switch {
	case !e.active():
	case !was:
		o.activate(e, now)
	case trigger == TriggerStart:
		o.arm(e, TriggerStart, e.clock(now))
	case e.timing.FollowsRuns() && e.anchor+e.period(now) <= now.up:
		o.arm(e, TriggerTimer, int64(now.up))
	default:
		o.plan(e, now)
	}
	o.s.log.Info("entry has a new timing", "entry", e.name, "next", o.nextFire(e))
}

// swap gives the entry other fields, for its next fire. The timer stays; a new splay is drawn unless the old one has
// begun.
func (o *owner) swap(e *entry, spec *schedule.Entry, now instant) {
	was, splay := e.active(), e.spec.Splay
	o.adopt(e, spec)
	switch {
	case was && !e.active():
		if e.waiting(now) {
			o.skip(e, skipped{Disabled, o.time(e, e.next.nominal()), 1})
		}
		e.disarm()
	case !was:
		o.activate(e, now)
	case spec.Splay != splay && e.next.trigger != "" && !e.waiting(now):
		o.arm(e, e.next.trigger, e.next.nominal())
	}
	o.s.log.Info("entry changed, from its next fire on", "entry", e.name, "next", o.nextFire(e))
}

// nextFire is when the entry is to run, zero for never.
func (o *owner) nextFire(e *entry) time.Time {
	if e.next.trigger == "" {
		return time.Time{}
	}
	return o.time(e, e.next.at)
}
