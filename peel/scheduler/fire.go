package scheduler

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// The steps of a fire, in the order of this file. All run on the goroutine of Run.
//
//  1. due: [owner.fire] takes the fire from the queue. A late fire of the wall clock is dropped, or merged with newer
//     ones; the newest of them waits for its splay.
//  2. admitted: [owner.admit] makes the checks of [owner.refusal] in their order: an operator's skip, the number of
//     runs, the windows at the nominal time, the breaker, the windows now. Then [owner.enter] looks for a free slot.
//  3. started: [owner.start] takes the entry's present definition and starts the goroutine of the run (run.go), which
//     records the run on disk, calls Exec and repeats it after a failure.
//  4. ended: [owner.finish] receives the run from its goroutine.
//  5. reported: [owner.onReported] receives the run again, after Options.Report.
//
// A fire that waits for a slot comes back to step 2 in [owner.release]. Catch-up runs (catchup.go) begin at step 2.

// fire is the first step. It takes the due fire of an entry, and plans the next one unless a later step has. It reports
// whether a run was started.
func (o *owner) fire(e *entry, now Instant) bool {
	p, listed := e.Next, o.fireOf(e)
	e.disarm()
	if p.Trigger == TriggerResume {
		o.resume(e, now, "the end of the pause")
		return false
	}
	f := Fire{Name: e.Name, Trigger: p.Trigger, Started: now.Wall.In(o.s.o.Zone), held: p.Held, listed: listed}
	f.Nominal = earlier(o.time(p, p.Nominal), f.Started)
	due := o.time(p, p.At)
	e.Rhythm.OnFire(&e.Entry, p, now)
	run := true
	if p.Trigger == wire.TriggerTimer {
		o.noteOverruns(e, f.Nominal)
		// it waited for its splay when the clock was set back
		if ahead := p.OnWall && p.Nominal > now.Wall.UnixNano(); ahead {
			o.lose(e, Loss{From: o.clocks.SetAt, Replaced: Span{From: o.clocks.SetAt, To: due}}, now)
		} else if e.Rhythm.OnWall() {
			planned := f.Nominal
			run = o.settleLate(e, &f, due, now)
			if !f.Nominal.Equal(planned) {
				f.listed = ledger.Fire{Era: e.Peel.Era(), Class: ledger.Timer, Nominal: ledger.At(f.Nominal)}
			}
			if e.Next.Trigger != "" { // it waits for its splay
				return false
			}
		} else if !p.Held {
			o.lose(e, Loss{From: e.Coalesces(f.Nominal, due)}, now)
		}
	} else if e.Rhythm.OnWall() { // the timer's have passed if it was held or comes late
		o.lose(e, Loss{From: f.Nominal, Replaced: Span{From: f.Nominal, To: due}}, now)
	}
	f.Fired = earlier(due, f.Started)
	if f.Fired.Before(f.Nominal) {
		f.Fired = f.Nominal
	}
	e.Nominal = f.Nominal
	o.Dirty = true
	run = run && o.admit(e, f, now)
	if e.Next.Trigger == "" {
		o.plan(e, now)
	}
	return run
}

// admit is the second step. A fire that may not run is counted as skipped, or held until the windows open, or waits for
// a slot.
func (o *owner) admit(e *entry, f Fire, now Instant) bool {
	why := o.refusal(e, f, now)
	closed := why == ledger.OutsideWindow || why == ledger.InBlackout
	switch {
	case why == "":
		return o.enter(e, f, now)
	case closed && o.hold(e, f.Trigger, f.listed, f.Nominal, now):
		o.s.log.Info("fire held until the windows open", "entry", e.Name, "reason", why, "nominal", f.Nominal,
			"until", o.nextFire(e))
	default:
		o.skip(e, why, f.listed, f.Nominal)
	}
	return false
}

// refusal returns the first rule that keeps a fire from running, apart from the limit of runs in flight. It is empty if
// none does. A manual run passes all rules.
func (o *owner) refusal(e *entry, f Fire, now Instant) ledger.Reason {
	due := f.Nominal
	if f.held || f.Trigger != wire.TriggerTimer {
		due = f.Started
	}
	switch why, whyNow := e.ClosedBy(due), e.ClosedBy(now.Wall); {
	case f.Trigger == wire.TriggerManual:
		return ""
	case f.Trigger == wire.TriggerTimer && e.TakeSkip(now.Wall):
		return ledger.SkippedOnce
	case e.hasAllRuns():
		return ledger.MaxRuns
	case why != "":
		return why
	case !e.BreakerAllows(due):
		return ledger.CircuitOpen
	default:
		return whyNow
	}
}

// skip counts a fire that does not run.
func (o *owner) skip(e *entry, why ledger.Reason, f ledger.Fire, nominal time.Time) {
	if _, ok := e.List.Pending(f.Class, f.Nominal); ok || f.Class != ledger.Hand {
		e.WriteNotRun(f, why)
	}
	o.countSkips(e, why, nominal, 1)
	o.note(e)
}

// countSkips adds n skips; nominal is the time of the first fire.
func (o *owner) countSkips(e *entry, why ledger.Reason, nominal time.Time, n int) {
	if e.Skips == nil {
		e.Skips = make(map[ledger.Reason]uint64)
	}
	e.Skips[why] += uint64(n)
	o.Dirty, e.dirty = true, true
	if o.s.onSkip != nil {
		o.s.onSkip(e.Name, why, nominal, n)
	}
	o.s.log.Info("fire skipped", "entry", e.Name, "reason", why, "nominal", nominal, "fires", n)
}

// enter starts a fire if the entry has a free slot; otherwise if_running decides. It reports whether a run was started.
func (o *owner) enter(e *entry, f Fire, now Instant) bool {
	free := o.free(e)
	switch mode := e.Spec.Overlap.IfRunning; {
	case o.quiet && (free > 0 || mode == schedule.IfRunningAllow):
		o.await(e, f, now)
	case free > 0 || mode == schedule.IfRunningAllow:
		o.start(e, f)
		return true
	case mode == schedule.IfRunningQueue:
		o.await(e, f, now)
	case mode == schedule.IfRunningCancel:
		o.await(e, f, now)
		for _, r := range o.sharing(e)[:1-free] {
			r.replaced = true
			r.cancel(errReplaced)
		}
	default:
		o.skip(e, ledger.AlreadyRunning, f.listed, f.Nominal)
	}
	return false
}

var errReplaced = errors.New("the next run takes its place")

// free returns how many more runs the entry may have. It is negative after the limit was lowered.
func (o *owner) free(e *entry) int { return e.Spec.Overlap.MaxRunning - len(o.sharing(e)) }

// mayStart reports whether a run of the entry that waits may start.
func (o *owner) mayStart(e *entry) bool { return !o.quiet && o.free(e) > 0 }

// sharing returns the runs in flight that share the entry's limit, in the order of their start.
func (o *owner) sharing(e *entry) []*run {
	if e.Spec.Overlap.Group == "" {
		return e.runs
	}
	var list []*run
	for _, r := range o.runs {
		if group := e.Spec.Overlap.Group; r.e == e || r.fire.Entry.Overlap.Group == group ||
			r.e.Spec != nil && r.e.Spec.Overlap.Group == group {
			list = append(list, r)
		}
	}
	return list
}

// await has a fire wait for a slot. It replaces a waiting fire of the same entry and takes over its place in the order.
func (o *owner) await(e *entry, f Fire, now Instant) {
	if e.Waiting != nil {
		o.skip(e, ledger.QueueFull, e.Waiting.Fire(), e.Waiting.Nominal)
	} else {
		o.waiting = append(o.waiting, e)
	}
	listed := e.WritePending(f.listed, ledger.Waits)
	e.Waiting = &Waiting{
		Trigger: f.Trigger,
		Nominal: f.Nominal,
		Fired:   f.Fired,
		Held:    f.held,
		Since:   now.Wall,
		By:      f.By,
		Listed:  &listed,
	}
	e.waitingFrom = now.Up
}

// release makes the checks of the second step again for waiting fires that have a slot, the oldest first, and starts at
// most limit of them. It returns how many it started. A fire that has waited longer than the start deadline is dropped,
// also if it has no slot.
func (o *owner) release(now Instant, limit int) (started int) {
	o.waiting = slices.DeleteFunc(o.waiting, func(e *entry) bool {
		w, expired := e.Waiting, now.Up-e.waitingFrom > e.Spec.Missed.StartDeadline
		if !expired && (started >= limit || !o.mayStart(e)) {
			return false
		}
		e.Waiting = nil
		f := Fire{
			Name:    e.Name,
			Trigger: w.Trigger,
			Nominal: w.Nominal,
			Fired:   w.Fired,
			Started: now.Wall.In(o.s.o.Zone),
			held:    w.Held,
			listed:  w.Fire(),
			By:      w.By,
		}
		why := o.refusal(e, f, now)
		if expired {
			why = ledger.DeadlineExceeded
		}
		if why != "" {
			o.skip(e, why, f.listed, f.Nominal)
			return true
		}
		o.start(e, f)
		started++
		return true
	})
	return started
}

// restoreWaiting restores the fire that waited when the last process ended.
func (o *owner) restoreWaiting(e *entry, now Instant) {
	if e.Waiting == nil {
		return
	}
	e.waitingFrom = now.Up - min(max(0, now.Wall.Sub(e.Waiting.Since)), LongAgo)
	o.waiting = append(o.waiting, e)
	sorting.Stable(o.waiting, func(a, b *entry) int { return cmp.Compare(a.waitingFrom, b.waitingFrom) })
}

// start is the third step. It runs the entry's present definition, even if the fire has waited since an older one.
func (o *owner) start(e *entry, f Fire) {
	late := f.Started.Sub(f.Nominal)
	f.Started = f.Started.Add(o.clocks.Step)
	f.Fired = earlier(f.Fired, f.Started) // the wall clock may have been set back while the fire waited
	f.Nominal = earlier(f.Nominal, f.Fired)
	f.JID, f.Entry = o.s.newJID(), e.Spec
	if o.s.o.Source != nil {
		f.Source = o.s.o.Source(e.Name)
	}
	if limit := e.Spec.Missed.LateAfter; limit > 0 && late > limit && !f.Nominal.Before(o.clocks.SetAt) {
		f.Late = true
		e.Late++
		o.note(e)
		o.s.log.Warn("run starts late", "entry", e.Name, "nominal", f.Nominal, "late", late)
	}
	r := &run{e: e, fire: f, hash: e.Hash, timing: e.TimingHash, noRetry: make(chan struct{})}
	r.began = o.s.now()
	if e.Breaker.State() == BreakerOpen {
		r.probe = true
		e.Breaker.Change(BreakerHalfOpen, f.Started, "a probe runs")
		o.s.log.Info("breaker is half open", "entry", e.Name)
	}
	r.listRun(ledger.Pending, ledger.Runs)
	e.runs = append(e.runs, r)
	o.runs = append(o.runs, r)
	e.Fired, e.Started = f.Fired, f.Started
	o.Dirty = true
	o.note(e)
	o.s.log.Debug("run started", "entry", e.Name, "trigger", f.Trigger, "nominal", f.Nominal)
	o.s.launch(r)
}

// finish is the fourth step. It adds the run to the history and frees its slot. Then it changes the breaker, fires the
// entries that need this one, pauses the entry after too many failures, and plans the interval, in this order.
func (o *owner) finish(r *run) {
	e, was := r.e, r.e.IsActive()
	same := func(other *run) bool { return other == r }
	e.runs, o.runs = slices.DeleteFunc(e.runs, same), slices.DeleteFunc(o.runs, same)
	o.Dirty = true
	r.addToHistory()
	if r.reports {
		o.reporting++
	} else {
		o.settle(r)
	}
	if !r.result.Success {
		o.s.log.Warn("run failed", "entry", e.Name, "err", e.Error)
	}
	o.note(e)
	if to, why := e.BreakerAfter(r.result.Success, r.probe); why != "" {
		e.Breaker.Change(to, e.Ended, why)
		level := slog.LevelWarn
		if to == BreakerClosed {
			level = slog.LevelInfo
		}
		o.s.log.Log(context.Background(), level, "breaker is "+string(to), "entry", e.Name, "why", why, "failures",
			e.FailuresInRow, "err", e.Error)
		o.note(e)
	}
	o.fireNeeds(r)
	if was && !e.IsActive() {
		o.s.log.Error("entry is paused", "entry", e.Name, "failures", e.FailuresInRow, "err", e.Error)
		o.halt(e, ledger.Paused, r.ended)
	}
	if len(e.runs) == 0 && e.Rhythm.OnEnd(&e.Entry, r.ended) {
		if e.Next.Splaying(r.ended) {
			o.skip(e, ledger.Superseded, o.fireOf(e), o.time(e.Next, e.Next.Nominal))
		}
		o.plan(e, r.ended)
	}
}

// fireNeeds makes the entries due that need this end of the run, and counts a skip for those that need another end.
// Their splay counts from the end of the run.
func (o *owner) fireNeeds(r *run) {
	for _, e := range o.needed[r.e.Name] {
		f := ledger.Fire{Era: r.fire.listed.Era, Class: ledger.Needs, Nominal: r.fire.listed.Nominal}
		switch {
		case !e.IsActive() || e.hasAllRuns() || !e.MayFire(r.ended.Wall):
		case !e.NeedMet(r.result.Success):
			o.skip(e, ledger.NeedsUnmet, f, r.ended.Wall.In(o.s.o.Zone))
		case e.Next.Trigger == wire.TriggerNeeds || e.Next.Splaying(r.ended):
			o.skip(e, ledger.Superseded, o.fireOf(e), o.time(e.Next, e.Next.Nominal))
			fallthrough
		default:
			o.arm(e, wire.TriggerNeeds, e.ClockOf(r.ended))
			e.Next.Listed = e.WritePending(f, ledger.Splay)
		}
	}
}

// onReported is the fifth step. It adds the job to the history of a run whose report is stored.
func (o *owner) onReported(r *run) {
	o.reporting--
	o.settle(r)
	i := slices.IndexFunc(r.e.Last, r.is)
	if i < 0 || !r.stored {
		return
	}
	past := &r.e.Last[i]
	past.Job, o.Dirty, r.e.dirty = string(r.fire.JID), true, true
	if past.Success && past.Ended.Equal(r.e.Succeeded) {
		r.e.Job = past.Job
	}
}

// settle marks a run that needs no record after the next write to the state file, which has the end of the run.
func (o *owner) settle(r *run) {
	if r.recorded {
		o.Settled, o.Dirty = append(o.Settled, r.fire.JID), true
	}
}

func earlier(a, b time.Time) time.Time {
	if a.After(b) {
		return b
	}
	return a
}
