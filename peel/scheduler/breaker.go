package scheduler

import (
	"maps"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
)

// breakerAllows reports whether a fire with the given nominal time may run.
func (e *entry) breakerAllows(nominal time.Time) bool {
	switch e.Breaker.State() {
	case history.BreakerOpen:
		opened := e.Breaker.Transitions[len(e.Breaker.Transitions)-1].Time
		return !nominal.Before(opened.Add(e.spec.Failures.Breaker.ResetAfter))
	case history.BreakerHalfOpen:
		return false
	}
	return true
}

// A failureLimit is the number of failures in a row that stops an entry. breaker and pause_after_errors both set it, and
// an entry has one of them at most.
type failureLimit struct {
	failures int  // 0: no limit
	probes   bool // the breaker opens, and a run probes later; else the entry is paused until it changes or is resumed
}

func (e *entry) failureLimit() failureLimit {
	if n := e.spec.Failures.Breaker.Threshold; n > 0 {
		return failureLimit{n, true}
	}
	return failureLimit{e.spec.Failures.PauseAfter, false}
}

func (l failureLimit) isReached(inRow uint64) bool {
	return l.failures > 0 && inRow >= uint64(l.failures)
}

// failing reports whether the entry is paused by its failures. A changed entry and a resume end that: they clear the count.
func (e *entry) failing() bool {
	limit := e.failureLimit()
	return !limit.probes && limit.isReached(e.FailuresInRow)
}

// probe makes a run that starts while the breaker is open the one that decides.
func (o *owner) probe(r *run) {
	if r.e.Breaker.State() == history.BreakerOpen {
		r.probes = true
		r.e.Breaker.Change(history.BreakerHalfOpen, r.fire.Started, "a run probes")
		o.s.log.Info("breaker is half open", "entry", r.e.name)
	}
}

// breakOn moves the breaker by how a run ended.
func (o *owner) breakOn(r *run) {
	e, state := r.e, r.e.Breaker.State()
	var limit failureLimit
	if e.spec != nil { // else a probe ends all the same, for the entry that may come back
		limit = e.failureLimit()
	}
	switch {
	case r.result.Success && state != history.BreakerClosed:
		e.Breaker.Close(e.Ended, "a run succeeded")
		o.s.log.Info("breaker is closed", "entry", e.name)
	case r.result.Success:
	case r.probes && state == history.BreakerHalfOpen:
		e.Breaker.Change(history.BreakerOpen, e.Ended, "the probe failed")
		o.s.log.Warn("breaker is open again", "entry", e.name, "err", e.Error)
	case state == history.BreakerClosed && limit.probes && limit.isReached(e.FailuresInRow):
		e.Breaker.Change(history.BreakerOpen, e.Ended, "too many failures in a row")
		o.s.log.Warn("breaker is open", "entry", e.name, "failures", e.FailuresInRow)
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
