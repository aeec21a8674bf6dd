package scheduler

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// A Reason says why a fire did not run.
type Reason string

// The reasons.
const (
	AlreadyRunning   Reason = "already_running"   // as many runs as maxrunning were in flight
	DeadlineExceeded Reason = "deadline_exceeded" // the host was suspended, or its clock set forward, for longer
	Superseded       Reason = "superseded"        // a later fire, or the end of a run, took its place in the wait
	Disabled         Reason = "disabled"          // the entry was disabled in the wait
)

// skipped are fires that did not run, the first of which had the nominal time.
type skipped struct {
	reason  Reason
	nominal time.Time
	n       int
}

// A run is one fire that was let through.
type run struct {
	e       *entry
	fire    Fire
	outcome Outcome
	ended   instant
}

// fire handles the fire that has come for an entry and plans the next one. It tells whether a run was started.
func (o *owner) fire(runs context.Context, e *entry, now instant) bool {
	p := e.next
	f := Fire{Entry: e.spec, Name: e.name, Trigger: p.trigger, Started: now.wall.In(o.s.o.Zone)}
	f.Nominal = earlier(o.time(e, p.nominal()), f.Started)
	e.disarm()
	e.anchor = now.up
	run := true
	switch {
	case e.timing.FollowsRuns():
		e.anchor = time.Duration(p.at)
		if now.up-e.anchor >= e.period(now) {
			e.anchor = now.up
		}
	case p.trigger == TriggerTimer:
		run = o.settleLate(e, &f, o.time(e, p.at))
	}
	f.Fired = earlier(o.time(e, p.at), f.Started)
	if f.Fired.Before(f.Nominal) {
		f.Fired = f.Nominal
	}
	e.Nominal = f.Nominal
	o.dirty = true
	if run {
		run = o.admit(e, f)
	}
	if run {
		o.start(runs, e, f)
	}
	o.plan(e, now)
	return run
}

func earlier(a, b time.Time) time.Time {
	if a.After(b) {
		return b
	}
	return a
}

// settleLate makes a cron fire stand for the newest nominal time that has passed by now and is within the start
// deadline. It returns false if there is none.
func (o *owner) settleLate(e *entry, f *Fire, due time.Time) bool {
	deadline := e.spec.Missed.StartDeadline
	from, missed, ok := f.Nominal, 0, true
	if f.Started.Sub(due) > deadline {
		o.skip(e, skipped{DeadlineExceeded, f.Nominal, 1})
		from, ok = f.Started.Add(-deadline-1), false
	}
	first := f.Nominal
	for {
		t, more := e.timing.Next(from)
		if !more || t.After(f.Started) {
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
		o.skip(e, skipped{Superseded, first, missed})
	}
	return ok
}

// admit asks all that may keep a fire from running; the fire is counted if something does.
func (o *owner) admit(e *entry, f Fire) bool {
	if e.running >= e.spec.Overlap.MaxRunning {
		o.skip(e, skipped{AlreadyRunning, f.Nominal, 1})
		return false
	}
	return true
}

func (o *owner) skip(e *entry, s skipped) {
	if e.Skips == nil {
		e.Skips = make(map[Reason]uint64)
	}
	e.Skips[s.reason] += uint64(s.n)
	o.dirty = true
	o.s.log.Info("fire skipped", "entry", e.name, "reason", s.reason, "nominal", s.nominal, "fires", s.n)
}

func (o *owner) start(runs context.Context, e *entry, f Fire) {
	e.running++
	o.inFlight++
	e.Fired, e.Started = f.Fired, f.Started
	o.s.log.Debug("run started", "entry", e.name, "trigger", f.Trigger, "nominal", f.Nominal)
	go o.s.carryOut(runs, &run{e: e, fire: f})
}

// carryOut is the goroutine of a run. The owner counts it until it has heard its end.
func (s *Scheduler) carryOut(runs context.Context, r *run) {
	r.outcome = Outcome{Error: "the run ended without a result"} // for an Exec that ends its goroutine
	defer func() {
		r.ended = s.now()
		select {
		case s.ended <- r:
		case <-s.gone:
		}
	}()
	r.outcome = s.exec(runs, r.fire)
}

// exec calls Exec within the entry's timeout. A panic is a failure.
func (s *Scheduler) exec(ctx context.Context, f Fire) (out Outcome) {
	if limit := f.Entry.Timeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("timed out after %s", limit))
		defer cancel()
	}
	defer func() {
		if p := recover(); p != nil {
			out = Outcome{Error: fmt.Sprintf("panic: %v", p)}
			s.log.Error("run panicked", "entry", f.Name, "err", p, "stack", string(debug.Stack()))
		}
	}()
	out = s.o.Exec(ctx, f)
	if ctx.Err() == nil || out.Success {
		return out
	}
	if cause := context.Cause(ctx).Error(); out.Error == "" {
		out.Error = cause
	} else if !strings.Contains(out.Error, cause) {
		out.Error = cause + ": " + out.Error
	}
	return out
}

const maxError = 1024 // bytes of a run's error that are kept

// finish records a run's end and frees its slot. The end of the last run in flight is what an interval counts from.
func (o *owner) finish(r *run) {
	e := r.e
	e.running--
	o.inFlight--
	o.dirty = true
	e.record(r)
	if !r.outcome.Success {
		o.s.log.Warn("run failed", "entry", e.name, "err", e.Error)
	}
	if e.running > 0 {
		return
	}
	e.anchor = r.ended.up
	if !e.active() || !e.timing.FollowsRuns() || e.next.trigger == TriggerStart {
		return
	}
	if e.waiting(r.ended) {
		o.skip(e, skipped{Superseded, o.time(e, e.next.nominal()), 1})
	}
	o.plan(e, r.ended)
}

func (e *entry) record(r *run) {
	e.Ended = r.ended.wall.In(r.fire.Started.Location())
	if e.Ended.Before(r.fire.Started) { // the wall clock was set back
		e.Ended = r.fire.Started
	}
	e.Runs++
	if r.outcome.Success {
		e.Succeeded, e.Error, e.FailuresInRow = e.Ended, "", 0
		return
	}
	e.Failures++
	e.FailuresInRow++
	e.Error = strings.ToValidUTF8(r.outcome.Error[:min(len(r.outcome.Error), maxError)], "")
}
