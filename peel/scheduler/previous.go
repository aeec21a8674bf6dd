package scheduler

import (
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

const interruptedBy = "interrupted: the peel was killed or its host went down while it ran"

// previous is what the last process left: its last record, and the runs that it did not complete.
type previous struct {
	step        time.Duration // by which the clock was set since its last record, as far as known
	unlisted    time.Time     // after which its list may lack fires that were due
	unreported  []*run        // that have to be reported
	endedBefore []*run        // that ended as the process did: entries that need them did not fire
	zone        string        // of this process, see [describe]
	otherZone   bool          // the last process had another zone for entries that name none
}

// takeOver adds a run that the last process did not complete to the history of its entry, as interrupted if its record
// has no end.
func (o *owner) takeOver(b OpenRun, now Instant) {
	e := o.entries[b.Entry]
	if e == nil {
		e = o.add(newRemembered(b.Entry, History{}, o.step, now))
	}
	r := &run{
		e: e, hash: b.Hash, timing: b.Timing, recorded: true,
		fire: Fire{
			JID: b.JID, Name: b.Entry, Source: b.Source, Trigger: b.Trigger, Nominal: b.Nominal, Fired: b.Fired,
			Started: b.Started, Late: b.Late, Attempt: 1, listed: b.Listed,
			Entry: &schedule.Entry{Name: b.Entry, Module: b.Module, ReturnJob: b.ReturnJob},
		},
		result: wire.Result{Success: b.Success, Error: b.Error},
		ended:  Instant{Wall: b.Ended},
	}
	if b.Ended.IsZero() {
		r.result = wire.Result{Outcome: wire.Interrupted, Error: interruptedBy}
		o.s.log.Warn("run was interrupted", "entry", b.Entry, "jid", b.JID, "trigger", b.Trigger, "nominal", b.Nominal,
			"started", b.Started)
	}
	if !slices.ContainsFunc(e.Last, r.is) {
		set := len(e.Last) > 0 && e.Last[len(e.Last)-1].Era < b.Listed.Era // the clock, since the run before
		newest := set || b.Nominal.After(e.Nominal)
		if set || b.Started.After(e.Started) {
			e.Fired, e.Started = b.Fired, b.Started
		}
		if newest {
			e.Nominal = b.Nominal
		}
		r.addToHistory()
		o.countFrom(e, b, newest, now)
		if !b.Ended.IsZero() {
			o.endedBefore = append(o.endedBefore, r)
		}
	}
	if b.Reported || o.s.o.Report == nil || !b.ReturnJob.Wants(b.Success) {
		o.settle(r)
	} else {
		o.unreported = append(o.unreported, r)
	}
}

// countFrom makes the interval of an entry count from a run that the last process did not complete. newest says that
// no fire was later. If the clock was set during the run, the interval counts from where it did at the last record.
func (o *owner) countFrom(e *entry, b OpenRun, newest bool, now Instant) {
	if !e.Anchored.IsZero() && b.Listed.Era+1 != o.marks.Era() {
		return
	}
	if newest {
		e.Anchored = b.anchor(e.Anchored, o.step)
	}
	before := e.Anchor
	e.CountFrom(later(b.Started, b.Ended).Add(o.step), now)
	e.Anchor = max(e.Anchor, before)
}

// reportPrevious reports runs of the last process, one after the other. The report has the arguments if the entry has
// not changed.
func (o *owner) reportPrevious() {
	runs := o.unreported
	o.unreported, o.reporting = nil, o.reporting+len(runs)
	for _, r := range runs {
		if spec := o.set[r.fire.Name]; spec != nil && spec.Hash() == r.hash {
			r.fire.Entry = spec
		}
	}
	go func() {
		for _, r := range runs {
			o.s.store(r)
			o.s.send(o.s.reported, r)
		}
	}()
}
