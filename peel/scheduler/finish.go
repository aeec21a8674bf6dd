package scheduler

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

const maxError = 1024 // bytes of a run's error that are kept

// finish records a run's end and frees its slot. The end of the last run in flight is what an interval counts from.
func (o *owner) finish(r *run) {
	e, was := r.e, r.e.active()
	same := func(other *run) bool { return other == r }
	e.runs, o.runs = slices.DeleteFunc(e.runs, same), slices.DeleteFunc(o.runs, same)
	o.dirty = true
	e.record(r)
	if r.reports {
		o.reporting++
	} else {
		o.settle(r)
	}
	if !r.result.Success {
		o.s.log.Warn("run failed", "entry", e.name, "err", e.Error)
	}
	o.notePaused(e)
	o.breakOn(r)
	o.fireNeeds(r)
	if was && !e.active() {
		o.s.log.Error("entry is paused", "entry", e.name, "failures", e.FailuresInRow, "err", e.Error)
		o.halt(e, Paused, r.ended)
	}
	if len(e.runs) == 0 {
		e.rhythm.onEnd(o, e, r.ended)
	}
}

// notePaused updates the list of entries that are paused_errors. It is called after every change of an entry's state.
func (o *owner) notePaused(e *entry) {
	paused := e.spec != nil && e.spec.Enabled && e.invalid == "" && e.Paused == nil && e.failing()
	if paused == o.pausedErrors[e.name] {
		return
	}
	o.pausedChanged = true
	if paused {
		o.pausedErrors[e.name] = true
	} else {
		delete(o.pausedErrors, e.name)
	}
}

// notifyPaused calls Options.PausedErrors if the list has changed.
func (o *owner) notifyPaused() {
	if o.pausedChanged && o.s.o.PausedErrors != nil {
		o.s.o.PausedErrors(slices.Sorted(maps.Keys(o.pausedErrors)))
	}
	o.pausedChanged = false
}

// onReported adds the job to the history of a run whose report is stored.
func (o *owner) onReported(r *run) {
	o.reporting--
	o.settle(r)
	i := slices.IndexFunc(r.e.Last, func(p RunRecord) bool { return p.Run == r.fire.JID })
	if i < 0 || !r.stored {
		return
	}
	past := &r.e.Last[i]
	past.Job, o.dirty = string(r.fire.JID), true
	if past.Success && past.Ended.Equal(r.e.Succeeded) {
		r.e.Job = past.Job
	}
}

func cutError(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxError)], "")
}

// settle marks the record of a run for removal after the next write of the state file, which has the run's end.
func (o *owner) settle(r *run) {
	if r.file != "" {
		o.settled, o.dirty = append(o.settled, r.file), true
	}
}

// record adds a run to the entry's history. An interrupted run has no end time and counts neither as a success nor as a
// failure.
func (e *entry) record(r *run) {
	var ended time.Time
	if r.result.Outcome != wire.Interrupted {
		ended = r.ended.wall.In(r.fire.Started.Location())
		if ended.Before(r.fire.Started) { // the wall clock was set back
			ended = r.fire.Started
		}
		e.Ended = ended
	}
	e.Runs++
	e.TimingRuns += r.counts()
	e.Error = ""
	if !r.result.Success {
		e.Error = cutError(r.result.Error)
	}
	e.remember(r, ended)
	switch {
	case r.result.Outcome == wire.Interrupted:
		e.Interrupted++
	case r.result.Success:
		e.Succeeded, e.Job, e.FailuresInRow = e.Ended, "", 0
	case r.yields:
		e.Failures++
	default:
		e.Failures++
		e.FailuresInRow++
	}
}
