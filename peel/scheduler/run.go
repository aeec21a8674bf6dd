package scheduler

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
)

// A Reason says why a fire did not run.
type Reason string

// The reasons.
const (
	AlreadyRunning   Reason = "already_running"   // as many runs as maxrunning were in flight
	QueueFull        Reason = "queue_full"        // a later fire of the entry took its place in the wait for a run to end
	DeadlineExceeded Reason = "deadline_exceeded" // it came, or its wait ended, later than the start deadline
	Superseded       Reason = "superseded"        // a later fire, or the end of a run, took its place in the wait
	OutsideWindow    Reason = Reason(window.Outside)
	InBlackout       Reason = Reason(window.Blackout)
	CircuitOpen      Reason = "circuit_open"
	NeedsUnmet       Reason = "needs_unmet"  // the entry that it needs ended otherwise
	SkippedOnce      Reason = "skipped_once" // somebody asked for that
	MaxRuns          Reason = "max_runs"     // the entry had its last run in the wait
	Paused           Reason = "paused"       // the entry was paused in the wait, as all those below
	Disabled         Reason = "disabled"
	Removed          Reason = "removed"
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
	hash    string // of the entry when it started
	timing  string // of the entry's timing then
	file    string // has its record; empty if there is none
	probes  bool   // the entry's breaker waits for its end
	yields  bool   // it was canceled for the next run
	cancel  context.CancelCauseFunc
	over    chan struct{} // closed when it must not be tried again
	result  wire.Result
	reports bool // it is reported after its end
	stored  bool // the report is stored
	ended   instant
}

// fire handles the fire that has come for an entry and plans the next one. It tells whether a run was started.
func (o *owner) fire(e *entry, now instant) bool {
	p := e.next
	e.disarm()
	if p.trigger == triggerResume {
		o.resume(e, now, "its time was over")
		return false
	}
	f := Fire{Name: e.name, Trigger: p.trigger, Started: now.wall.In(o.s.o.Zone), held: p.held}
	f.Nominal = earlier(o.time(p, p.nominal), f.Started)
	run := e.rhythm.onFire(o, e, p, &f, now)
	f.Fired = earlier(o.time(p, p.at), f.Started)
	if f.Fired.Before(f.Nominal) {
		f.Fired = f.Nominal
	}
	e.Nominal = f.Nominal
	o.dirty = true
	run = run && o.admit(e, f, now)
	if e.next.trigger == "" {
		o.plan(e, now)
	}
	return run
}

func earlier(a, b time.Time) time.Time {
	if a.After(b) {
		return b
	}
	return a
}

// admit asks all that may keep a fire from running; the fire is counted, held or queued if something does.
func (o *owner) admit(e *entry, f Fire, now instant) bool {
	switch why := o.refusal(e, f, now); why {
	case "":
		return o.enter(e, f, now)
	case OutsideWindow, InBlackout:
		o.shut(e, f, why, now)
	default:
		o.skip(e, skipped{why, f.Nominal, 1})
	}
	return false
}

// refusal is the first thing that keeps a fire from running, other runs aside: what somebody ordered, the entry's
// life, its windows at the nominal time, its breaker, its windows now.
func (o *owner) refusal(e *entry, f Fire, now instant) Reason {
	due := f.Nominal
	if f.held || f.Trigger != TriggerTimer {
		due = f.Started
	}
	switch why, whyNow := e.closed(due), e.closed(now.wall); {
	case f.Trigger == TriggerManual:
		return ""
	case f.Trigger == TriggerTimer && o.consumeSkip(e, now):
		return SkippedOnce
	case e.lived():
		return MaxRuns
	case why != "":
		return why
	case !e.breakerAllows(due):
		return CircuitOpen
	default:
		return whyNow
	}
}

func (o *owner) skip(e *entry, s skipped) {
	if e.Skips == nil {
		e.Skips = make(map[Reason]uint64)
	}
	e.Skips[s.reason] += uint64(s.n)
	o.dirty = true
	o.s.log.Info("fire skipped", "entry", e.name, "reason", s.reason, "nominal", s.nominal, "fires", s.n)
}

// start runs the entry's present definition, however long the fire has waited.
func (o *owner) start(e *entry, f Fire) {
	f.Fired = earlier(f.Fired, f.Started) // the wall clock may have been set back while the fire waited
	f.Nominal = earlier(f.Nominal, f.Fired)
	f.JID, f.Entry, f.Source = wire.NewJID(), e.spec, o.source(e)
	r := &run{e: e, fire: f, hash: e.Hash, timing: e.TimingHash, over: make(chan struct{})}
	if limit := e.spec.Missed.LateAfter; limit > 0 && f.Started.Sub(f.Nominal) > limit {
		r.fire.Late = true
		e.Late++
		o.s.log.Warn("run starts late", "entry", e.name, "nominal", f.Nominal, "late", f.Started.Sub(f.Nominal))
	}
	o.probe(r)
	e.runs = append(e.runs, r)
	o.runs = append(o.runs, r)
	e.Fired, e.Started = f.Fired, f.Started
	o.dirty = true
	o.s.log.Debug("run started", "entry", e.name, "trigger", f.Trigger, "nominal", f.Nominal)
	var ctx context.Context
	ctx, r.cancel = context.WithCancelCause(context.Background())
	go o.s.carryOut(ctx, r)
}

// source returns where the entry's definition comes from.
func (o *owner) source(e *entry) Source {
	if o.s.o.Source == nil {
		return Source{}
	}
	return o.s.o.Source(e.name)
}

// carryOut is the goroutine of a run.
func (s *Scheduler) carryOut(ctx context.Context, r *run) {
	r.result = wire.Result{Error: "the run ended without a result"} // for an Exec that ends its goroutine
	defer func() {
		r.cancel(nil)
		r.ended = s.now()
		s.conclude(r)
	}()
	s.recordBegin(r)
	r.result = s.attempts(ctx, r)
}

// maxReports is how many reports may be in progress at a time. Each holds the result of its run in memory.
const maxReports = 64

// conclude hands an ended run to the owner, which frees its slot, and then stores its report. If [maxReports] others are in
// progress it stores the report first: the run keeps its slot, so that reports do not accumulate in memory.
func (s *Scheduler) conclude(r *run) {
	s.recordEnd(r, r.end())
	if s.o.Report == nil || !r.fire.Entry.ReturnJob.Wants(r.result.Success) {
		s.hand(s.ended, r)
		return
	}
	r.reports = true
	select {
	case s.reports <- struct{}{}:
		s.hand(s.ended, r)
		s.store(r)
		<-s.reports
	default:
		s.store(r)
		s.hand(s.ended, r)
	}
	s.hand(s.reported, r)
}

// store stores the report of a run and adds that to the run's record.
func (s *Scheduler) store(r *run) {
	if r.stored = s.o.Report(r.fire, r.result); r.stored {
		end := r.end()
		end.Reported = true
		s.recordEnd(r, end)
	}
}

// end returns the end of a run for its record.
func (r *run) end() runEnd {
	return runEnd{Ended: r.ended.wall, Success: r.result.Success, Error: cutError(r.result.Error)}
}

// hand gives a run to the owner, unless the owner has stopped waiting.
func (s *Scheduler) hand(to chan<- *run, r *run) {
	select {
	case to <- r:
	case <-s.gone:
	}
}

// exec calls Exec within the entry's timeout. A panic is a failure.
func (s *Scheduler) exec(ctx context.Context, f Fire) (out wire.Result) {
	if limit := f.Entry.Timeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("timed out after %s", limit))
		defer cancel()
	}
	defer func() {
		if p := recover(); p != nil {
			out = wire.Result{Error: fmt.Sprintf("panic: %v", p)}
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
