package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/peel/scheduler/rules"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// The way of a fire, in the order of this file. All steps run on the goroutine of Run.
//
//  1. due: [owner.fire] takes it from the heap. A late fire of the wall clock is merged with the newer ones or dropped.
//  2. admitted: [owner.admit] makes the checks of [owner.refusal] in their order, and asks for a slot last:
//     an operator's skip, the number of runs, the windows at the nominal time, the breaker, the windows now, the runs
//     in flight that share the limit (overlap.go).
//  3. started: [owner.start] takes the entry as it is now and starts the goroutine of the run (run.go), which records
//     the run on disk, calls Exec and tries again after a failure (retry.go).
//  4. ended: [owner.finish] gets the run from its goroutine.
//  5. reported: [owner.onReported] gets it once more, after Options.Report.
//
// A fire that waits for a run joins this way at step 2 again (overlap.go), a catch-up run too (catchup.go).

// skipped are fires that did not run, the first of which had the nominal time.
type skipped struct {
	reason  history.Reason
	nominal time.Time
	n       int
}

// fire is the first step. It takes the fire that is due for an entry, and plans the next one if no other step has. It reports
// whether a run was started.
func (o *owner) fire(e *entry, now rules.Instant) bool {
	p := e.Next
	e.disarm()
	if p.Trigger == rules.TriggerResume {
		o.resume(e, now, "its time was over")
		return false
	}
	f := Fire{Name: e.Name, Trigger: p.Trigger, Started: now.Wall.In(o.s.o.Zone), held: p.Held}
	f.Nominal = earlier(o.time(p, p.Nominal), f.Started)
	e.Rhythm.OnFire(&e.Entry, p, now)
	run := !e.Rhythm.OnWall() || p.Trigger != history.TriggerTimer || o.settleLate(e, &f, o.time(p, p.At), now)
	f.Fired = earlier(o.time(p, p.At), f.Started)
	if f.Fired.Before(f.Nominal) {
		f.Fired = f.Nominal
	}
	e.Nominal = f.Nominal
	o.dirty = true
	run = run && o.admit(e, f, now)
	if e.Next.Trigger == "" {
		o.plan(e, now)
	}
	return run
}

// admit is the second step. A fire that may not run is counted, held until the windows open, or waits for a run to end.
func (o *owner) admit(e *entry, f Fire, now rules.Instant) bool {
	switch why := o.refusal(e, f, now); why {
	case "":
		return o.enter(e, f, now)
	case history.OutsideWindow, history.InBlackout:
		o.shut(e, f, why, now)
	default:
		o.skip(e, skipped{why, f.Nominal, 1})
	}
	return false
}

// refusal returns the first check that keeps a fire from running, other runs aside; it is empty if none does. A manual run
// passes them all.
func (o *owner) refusal(e *entry, f Fire, now rules.Instant) history.Reason {
	due := f.Nominal
	if f.held || f.Trigger != history.TriggerTimer {
		due = f.Started
	}
	switch why, whyNow := e.ClosedBy(due), e.ClosedBy(now.Wall); {
	case f.Trigger == history.TriggerManual:
		return ""
	case f.Trigger == history.TriggerTimer && e.TakeSkip(now.Wall):
		return history.SkippedOnce
	case e.lived():
		return history.MaxRuns
	case why != "":
		return why
	case !e.BreakerAllows(due):
		return history.CircuitOpen
	default:
		return whyNow
	}
}

func (o *owner) skip(e *entry, s skipped) {
	if e.Skips == nil {
		e.Skips = make(map[history.Reason]uint64)
	}
	e.Skips[s.reason] += uint64(s.n)
	o.dirty = true
	o.s.log.Info("fire skipped", "entry", e.Name, "reason", s.reason, "nominal", s.nominal, "fires", s.n)
}

// start is the third step. It runs the entry's present definition, however long the fire has waited.
func (o *owner) start(e *entry, f Fire) {
	f.Fired = earlier(f.Fired, f.Started) // the wall clock may have been set back while the fire waited
	f.Nominal = earlier(f.Nominal, f.Fired)
	f.JID, f.Entry, f.Source = wire.NewJID(), e.Spec, o.source(e)
	r := &run{e: e, fire: f, hash: e.Hash, timing: e.TimingHash, over: make(chan struct{})}
	if limit := e.Spec.Missed.LateAfter; limit > 0 && f.Started.Sub(f.Nominal) > limit {
		r.fire.Late = true
		e.Late++
		o.s.log.Warn("run starts late", "entry", e.Name, "nominal", f.Nominal, "late", f.Started.Sub(f.Nominal))
	}
	o.probe(r)
	e.runs = append(e.runs, r)
	o.runs = append(o.runs, r)
	e.Fired, e.Started = f.Fired, f.Started
	o.dirty = true
	o.s.log.Debug("run started", "entry", e.Name, "trigger", f.Trigger, "nominal", f.Nominal)
	var ctx context.Context
	ctx, r.cancel = context.WithCancelCause(context.Background())
	go o.s.carryOut(ctx, r)
}

// source returns where the entry's definition comes from.
func (o *owner) source(e *entry) history.Source {
	if o.s.o.Source == nil {
		return history.Source{}
	}
	return o.s.o.Source(e.Name)
}

// finish is the fourth step. It records the end of a run and frees its slot; then the breaker, the entries that need this
// one, the pause after failures and the interval follow, in this order.
func (o *owner) finish(r *run) {
	e, was := r.e, r.e.IsActive()
	same := func(other *run) bool { return other == r }
	e.runs, o.runs = slices.DeleteFunc(e.runs, same), slices.DeleteFunc(o.runs, same)
	o.dirty = true
	record(r)
	if r.reports {
		o.reporting++
	} else {
		o.settle(r)
	}
	if !r.result.Success {
		o.s.log.Warn("run failed", "entry", e.Name, "err", e.Error)
	}
	o.notePaused(e)
	o.breakOn(r)
	o.fireNeeds(r)
	if was && !e.IsActive() {
		o.s.log.Error("entry is paused", "entry", e.Name, "failures", e.FailuresInRow, "err", e.Error)
		o.halt(e, history.Paused, r.ended)
	}
	if len(e.runs) == 0 && e.Rhythm.OnEnd(&e.Entry, r.ended) {
		if e.Next.Splaying(r.ended) {
			o.skip(e, skipped{history.Superseded, o.time(e.Next, e.Next.Nominal), 1})
		}
		o.plan(e, r.ended)
	}
}

// onReported is the fifth step. It adds the job to the history of a run whose report is stored.
func (o *owner) onReported(r *run) {
	o.reporting--
	o.settle(r)
	i := slices.IndexFunc(r.e.Last, func(p history.RunRecord) bool { return p.Run == r.fire.JID })
	if i < 0 || !r.stored {
		return
	}
	past := &r.e.Last[i]
	past.Job, o.dirty = string(r.fire.JID), true
	if past.Success && past.Ended.Equal(r.e.Succeeded) {
		r.e.Job = past.Job
	}
}

// settle marks the record of a run for removal after the next write of the state file, which has the run's end.
func (o *owner) settle(r *run) {
	if r.file != "" {
		o.settled, o.dirty = append(o.settled, r.file), true
	}
}

func earlier(a, b time.Time) time.Time {
	if a.After(b) {
		return b
	}
	return a
}
