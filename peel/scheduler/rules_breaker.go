package scheduler

import (
	"time"
)

// BreakerAllows reports whether a fire with the given nominal time may run.
func (e *Entry) BreakerAllows(nominal time.Time) bool {
	switch e.Breaker.State() {
	case BreakerOpen:
		opened := e.Breaker.Transitions[len(e.Breaker.Transitions)-1].Time
		return !nominal.Before(opened.Add(e.Spec.Failures.Breaker.ResetAfter))
	case BreakerHalfOpen:
		return false
	}
	return true
}

// BreakerAfter returns the state to which the end of a run moves the breaker, and the reason; both are empty if it
// stays. The run must be in the history already. probe says that the run was the probe of an open breaker.
func (e *Entry) BreakerAfter(success, probe bool) (to BreakerState, why string) {
	state := e.Breaker.State()
	switch {
	case success && state != BreakerClosed:
		return BreakerClosed, "a run succeeded"
	case success:
	case probe && state == BreakerHalfOpen: // also of a removed entry, which may be added again
		return BreakerOpen, "the probe failed"
	case e.Spec != nil && state == BreakerClosed && e.FailureLimit().Probes &&
		e.FailureLimit().IsReached(e.FailuresInRow):
		return BreakerOpen, "too many failures in a row"
	}
	return "", ""
}

// A FailureLimit is the number of failures in a row that stops an entry. breaker and pause_after_errors both set it,
// and an entry has one of them at most.
type FailureLimit struct {
	failures int  // 0: no limit
	Probes   bool // the breaker opens, and a run probes later; else the entry is paused until it changes or is resumed
}

// FailureLimit returns the limit of the entry.
func (e *Entry) FailureLimit() FailureLimit {
	if n := e.Spec.Failures.Breaker.Threshold; n > 0 {
		return FailureLimit{n, true}
	}
	return FailureLimit{e.Spec.Failures.PauseAfter, false}
}

// IsReached reports whether the number of failures in a row reaches the limit.
func (l FailureLimit) IsReached(inRow uint64) bool {
	return l.failures > 0 && inRow >= uint64(l.failures)
}

// Failing reports whether the entry is paused by its failures. A changed entry and a resume end that: they clear the
// count.
func (e *Entry) Failing() bool {
	limit := e.FailureLimit()
	return !limit.Probes && limit.IsReached(e.FailuresInRow)
}
