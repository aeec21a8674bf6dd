package scheduler

import (
	"maps"
	"slices"

	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/peel/scheduler/rules"
)

// probe makes a run that starts while the breaker is open the one that decides.
func (o *owner) probe(r *run) {
	if r.e.Breaker.State() == history.BreakerOpen {
		r.probes = true
		r.e.Breaker.Change(history.BreakerHalfOpen, r.fire.Started, "a run probes")
		o.s.log.Info("breaker is half open", "entry", r.e.Name)
	}
}

// breakOn moves the breaker by how a run ended.
func (o *owner) breakOn(r *run) {
	e, state := r.e, r.e.Breaker.State()
	var limit rules.FailureLimit
	if e.Spec != nil { // else a probe ends all the same, for the entry that may come back
		limit = e.FailureLimit()
	}
	switch {
	case r.result.Success && state != history.BreakerClosed:
		e.Breaker.Close(e.Ended, "a run succeeded")
		o.s.log.Info("breaker is closed", "entry", e.Name)
	case r.result.Success:
	case r.probes && state == history.BreakerHalfOpen:
		e.Breaker.Change(history.BreakerOpen, e.Ended, "the probe failed")
		o.s.log.Warn("breaker is open again", "entry", e.Name, "err", e.Error)
	case state == history.BreakerClosed && limit.Probes && limit.IsReached(e.FailuresInRow):
		e.Breaker.Change(history.BreakerOpen, e.Ended, "too many failures in a row")
		o.s.log.Warn("breaker is open", "entry", e.Name, "failures", e.FailuresInRow)
	}
}

// notePaused updates the list of entries that are paused_errors. It is called after every change of an entry's state.
func (o *owner) notePaused(e *entry) {
	paused := e.IsEnabled() && e.Failing()
	if paused == o.pausedErrors[e.Name] {
		return
	}
	o.pausedChanged = true
	if paused {
		o.pausedErrors[e.Name] = true
	} else {
		delete(o.pausedErrors, e.Name)
	}
}

// notifyPaused calls Options.PausedErrors if the list has changed.
func (o *owner) notifyPaused() {
	if o.pausedChanged && o.s.o.PausedErrors != nil {
		o.s.o.PausedErrors(slices.Sorted(maps.Keys(o.pausedErrors)))
	}
	o.pausedChanged = false
}
