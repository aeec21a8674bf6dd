package scheduler

import (
	"maps"
	"slices"
	"time"
)

// A BreakerState is the word for what a breaker lets through.
type BreakerState string

// The states of a breaker.
const (
	BreakerClosed   BreakerState = "closed"    // everything
	BreakerOpen     BreakerState = "open"      // nothing, until reset_after has passed
	BreakerHalfOpen BreakerState = "half_open" // nothing, while a single run probes
)

// A Transition is one change of a breaker.
type Transition struct {
	To   BreakerState `json:"to"`
	Time time.Time    `json:"time"`
	Why  string       `json:"why"`
}

// maxTransitions is how many changes of a breaker are remembered.
const maxTransitions = 100

// A Breaker is what is remembered of an entry's breaker: its changes, the newest last.
type Breaker struct {
	Transitions []Transition `json:"transitions,omitempty"`
}

// State is that after the last change.
func (b *Breaker) State() BreakerState {
	if len(b.Transitions) == 0 {
		return BreakerClosed
	}
	return b.Transitions[len(b.Transitions)-1].To
}

func (b *Breaker) change(to BreakerState, at time.Time, why string) {
	if len(b.Transitions) >= maxTransitions {
		b.Transitions = slices.Delete(b.Transitions, 0, len(b.Transitions)-maxTransitions+1)
	}
	b.Transitions = append(b.Transitions, Transition{to, at, why})
}

func (b *Breaker) close(at time.Time, why string) {
	if b.State() != BreakerClosed {
		b.change(BreakerClosed, at, why)
	}
}

// forgetProbe is for a process that starts: whatever probed ended with the process before.
func (b *Breaker) forgetProbe() {
	if b.State() == BreakerHalfOpen {
		b.Transitions = b.Transitions[:len(b.Transitions)-1]
	}
}

// clampOpened moves the last change of a breaker back to now if it lies ahead: the wall clock was set back since, maybe
// while no process ran, and the breaker must not stay open longer because of that.
func (b *Breaker) clampOpened(now time.Time) {
	if b.State() == BreakerClosed {
		return
	}
	if last := &b.Transitions[len(b.Transitions)-1]; last.Time.After(now) {
		last.Time = now
	}
}

// lets tells whether a fire with the given nominal time may run.
func (e *entry) breakerAllows(nominal time.Time) bool {
	switch e.Breaker.State() {
	case BreakerOpen:
		opened := e.Breaker.Transitions[len(e.Breaker.Transitions)-1].Time
		return !nominal.Before(opened.Add(e.spec.Failures.Breaker.ResetAfter))
	case BreakerHalfOpen:
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
	if r.e.Breaker.State() == BreakerOpen {
		r.probes = true
		r.e.Breaker.change(BreakerHalfOpen, r.fire.Started, "a run probes")
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
	case r.result.Success && state != BreakerClosed:
		e.Breaker.close(e.Ended, "a run succeeded")
		o.s.log.Info("breaker is closed", "entry", e.name)
	case r.result.Success:
	case r.probes && state == BreakerHalfOpen:
		e.Breaker.change(BreakerOpen, e.Ended, "the probe failed")
		o.s.log.Warn("breaker is open again", "entry", e.name, "err", e.Error)
	case state == BreakerClosed && limit.probes && limit.isReached(e.FailuresInRow):
		e.Breaker.change(BreakerOpen, e.Ended, "too many failures in a row")
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
