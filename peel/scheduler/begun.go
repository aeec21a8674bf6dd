package scheduler

import (
	"slices"

	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/peel/scheduler/rules"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

const interruptedBy = "interrupted: the peel was killed or its host went down while it ran"

// recordBegin writes the record of a run. If the disk refuses it, such as a full one, the run begins without.
func (s *Scheduler) recordBegin(r *run) {
	if s.runDir == "" {
		return
	}
	f := r.fire
	file, err := s.runDir.Create(history.OpenRun{
		JID: f.JID, Entry: f.Name, Hash: r.hash, Timing: r.timing, Module: f.Entry.Module, ReturnJob: f.Entry.ReturnJob,
		Source: f.Source, Trigger: f.Trigger, Nominal: f.Nominal, Fired: f.Fired, Started: f.Started, Late: f.Late,
	})
	if err == nil {
		r.file = file
	}
	if (err != nil) != s.unrecorded.Swap(err != nil) {
		if err != nil {
			s.log.Error("runs begin without a record on disk: if the peel is killed, they leave no trace", "err", err)
		} else {
			s.log.Info("runs are recorded on disk again")
		}
	}
}

// recordEnd adds the end of a run to its record.
func (s *Scheduler) recordEnd(r *run, end history.RunEnd) {
	if r.file == "" {
		return
	}
	if err := history.AppendEnd(r.file, end); err != nil {
		s.log.Warn("end of a run not recorded: it counts as interrupted if the peel is killed within a second", "entry", r.fire.Name, "err", err)
	}
}

// takeOver adds a run that the last process did not complete to the entry's history, as interrupted if its record has no
// end.
func (o *owner) takeOver(b history.OpenRun, now rules.Instant) {
	e := o.entries[b.Entry]
	if e == nil {
		e = newRemembered(b.Entry, history.History{}, now)
		o.entries[b.Entry] = e
	}
	r := &run{
		e: e, hash: b.Hash, timing: b.Timing, file: o.s.runDir.File(b.JID),
		fire: Fire{
			JID: b.JID, Name: b.Entry, Source: b.Source, Trigger: b.Trigger, Nominal: b.Nominal, Fired: b.Fired,
			Started: b.Started, Late: b.Late, Attempt: 1,
			Entry: &schedule.Entry{Name: b.Entry, Module: b.Module, ReturnJob: b.ReturnJob},
		},
		result: wire.Result{Success: b.Success, Error: b.Error},
		ended:  rules.Instant{Wall: b.Ended},
	}
	if b.Ended.IsZero() {
		r.result = wire.Result{Outcome: wire.Interrupted, Error: interruptedBy}
		o.s.log.Warn("run was interrupted", "entry", b.Entry, "jid", b.JID, "trigger", b.Trigger, "nominal", b.Nominal, "started", b.Started)
	}
	if !slices.ContainsFunc(e.Last, func(p history.RunRecord) bool { return p.Run == b.JID }) {
		if b.Started.After(e.Started) {
			e.Fired, e.Started = b.Fired, b.Started
		}
		if b.Nominal.After(e.Nominal) {
			e.Nominal = b.Nominal
		}
		record(r)
		e.CountFromLastRun(now)
	}
	if b.Reported || o.s.o.Report == nil || !b.ReturnJob.Wants(b.Success) {
		o.settled = append(o.settled, r.file)
		return
	}
	o.unreported = append(o.unreported, r)
}

// reportOlder reports the runs of the last process, one after the other. The report has the arguments if the entry has not
// changed.
func (o *owner) reportOlder() {
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
			o.s.hand(o.s.reported, r)
		}
	}()
}

// record adds a run to the history of its entry. An interrupted run has no end time.
func record(r *run) {
	past := history.RunRecord{
		Run: r.fire.JID, Trigger: r.fire.Trigger, Nominal: r.fire.Nominal, Started: r.fire.Started,
		Success: r.result.Success, Interrupted: r.result.Outcome == wire.Interrupted,
	}
	if !past.Success {
		past.Error = r.result.Error
	}
	if !past.Interrupted {
		past.Ended = r.ended.Wall.In(past.Started.Location())
		if past.Ended.Before(past.Started) { // the wall clock was set back
			past.Ended = past.Started
		}
	}
	r.e.Record(past, r.counts() > 0, r.yields)
}
