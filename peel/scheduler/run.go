package scheduler

import (
	"context"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A run is one fire that was started.
type run struct {
	e        *entry
	fire     Fire
	hash     string // of the entry when it started
	timing   string // hash of the entry's timing when it started
	recorded bool   // it has a record in the file of the schedule
	probe    bool   // its end decides whether the entry's breaker closes
	replaced bool   // it was canceled for the next run
	overran  bool   // it was in flight when the next fire was due
	stopped  bool   // it was canceled because the process stops
	timedOut bool   // its last attempt was ended by its timeout
	cancel   context.CancelCauseFunc
	noRetry  chan struct{} // closed when another attempt is not allowed
	result   wire.Result
	after    []func() // called when it has ended and its report is stored
	reports  bool     // it is reported after its end
	stored   bool     // the report is stored
	began    Instant
	ended    Instant
}

// spawn carries out a run on a goroutine of its own.
func (s *Scheduler) spawn(r *run) {
	var ctx context.Context
	ctx, r.cancel = context.WithCancelCause(context.Background())
	go s.carryOut(ctx, r)
}

// carryOut runs in the goroutine of a run.
func (s *Scheduler) carryOut(ctx context.Context, r *run) {
	r.result = wire.Result{Error: "the run ended without a result"} // for an Exec that ends its goroutine
	defer func() {
		r.cancel(nil)
		r.ended = s.now()
		s.conclude(r)
		for _, do := range r.after {
			do()
		}
	}()
	s.recordBegin(r)
	work := Work{
		Entry:   r.fire.Entry,
		NoRetry: r.noRetry,
		Log:     s.log,
		Exec: func(ctx context.Context, n int) wire.Result {
			f := r.fire
			f.Attempt = n
			f.AfterStored = func(do func()) { r.after = append(r.after, do) }
			return s.o.Exec(ctx, f)
		},
	}
	r.result, r.timedOut = work.Do(ctx)
}

// recordBegin writes the record of a run. If the disk refuses it, the run begins without one.
func (s *Scheduler) recordBegin(r *run) {
	err := s.disk.Begin(r.record())
	r.recorded = err == nil
	switch before := s.unrecorded.Swap(err != nil); {
	case err != nil && !before:
		s.log.Error("runs begin without a record on disk: if the peel is killed, they leave no trace", "err", err)
	case err == nil && before:
		s.log.Info("runs are recorded on disk again")
	}
}

// record returns the record of a run that has begun.
func (r *run) record() OpenRun {
	f := r.fire
	return OpenRun{
		JID:       f.JID,
		Entry:     f.Name,
		Hash:      r.hash,
		Timing:    r.timing,
		Module:    f.Entry.Module,
		ReturnJob: f.Entry.ReturnJob,
		Source:    f.Source,
		Trigger:   f.Trigger,
		Nominal:   f.Nominal,
		Fired:     f.Fired,
		Started:   f.Started,
		Late:      f.Late,
		Listed:    f.listed,
	}
}

// maxReports is the number of reports that may be in progress at a time. Each holds the result of its run in memory.
const maxReports = 64

// conclude sends an ended run to the owner, which frees its slot, and then stores its report. While [maxReports] others
// are in progress it stores the report first: the run keeps its slot, so that reports do not accumulate in memory.
func (s *Scheduler) conclude(r *run) {
	s.recordEnd(r)
	if s.o.Report == nil || !r.fire.Entry.ReturnJob.Wants(r.result.Success) {
		s.send(s.ended, r)
		return
	}
	r.reports = true
	select {
	case s.reports <- struct{}{}:
		s.send(s.ended, r)
		s.store(r)
		<-s.reports
	default:
		s.store(r)
		s.send(s.ended, r)
	}
	s.send(s.reported, r)
}

// store stores the report of a run and notes that in the run's record.
func (s *Scheduler) store(r *run) {
	if r.stored = s.o.Report(r.fire, r.result); r.stored {
		s.recordEnd(r)
	}
}

// recordEnd adds the end of a run to its record.
func (s *Scheduler) recordEnd(r *run) {
	end := RunEnd{
		Ended: r.ended.Wall, Success: r.result.Success, Error: CutError(r.result.Error), Reported: r.stored,
	}
	if err := s.disk.End(r.fire.JID, end); err != nil {
		s.log.Warn("end of a run not recorded: it counts as interrupted if the peel is killed within a second",
			"entry", r.fire.Name, "err", err)
	}
}

// send sends a run to the owner, unless the owner has stopped waiting.
func (s *Scheduler) send(to chan<- *run, r *run) {
	select {
	case to <- r:
	case <-s.gone:
	}
}

// addToHistory adds the run to the history of its entry. An interrupted run has no end time.
func (r *run) addToHistory() {
	past := RunRecord{
		Run: r.fire.JID, Trigger: r.fire.Trigger, Nominal: r.fire.Nominal, Started: r.fire.Started,
		Success: r.result.Success, Interrupted: r.result.Outcome == wire.Interrupted,
		Late: r.fire.Late, Overran: r.overran || r.timedOut, Stopped: r.stopped, Commit: r.fire.Source.Commit,
		Generation: r.fire.Source.Generation,
		Era:        r.fire.listed.Era, Listed: r.fire.listed.Nominal, By: r.fire.By,
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
	switch {
	case past.Interrupted:
		r.listRun(ledger.Interrupted, "")
	case past.Success:
		r.listRun(ledger.Ran, "")
	default:
		r.listRun(ledger.Failed, "")
	}
	r.e.Record(past, r.countsTowardsMaxRuns(), r.replaced)
}

// is reports whether a record of the history belongs to the run.
func (r *run) is(past RunRecord) bool { return past.Run == r.fire.JID }

// countsTowardsMaxRuns is false for a manual run, and for one that started under another timing of its entry.
func (r *run) countsTowardsMaxRuns() bool {
	return r.fire.Trigger != wire.TriggerManual && r.timing == r.e.TimingHash
}
