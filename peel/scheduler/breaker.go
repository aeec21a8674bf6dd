package scheduler

import (
	"slices"
	"time"
)

// A BreakerState says which runs a breaker lets through.
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

// A Breaker has the changes of an entry's breaker, the newest last.
type Breaker struct {
	Transitions []Transition `json:"transitions,omitempty"`
}

// State returns the state after the last change.
func (b *Breaker) State() BreakerState {
	if len(b.Transitions) == 0 {
		return BreakerClosed
	}
	return b.Transitions[len(b.Transitions)-1].To
}

// Change adds a change; the oldest beyond 100 are dropped.
func (b *Breaker) Change(to BreakerState, at time.Time, why string) {
	if len(b.Transitions) >= maxTransitions {
		b.Transitions = slices.Delete(b.Transitions, 0, len(b.Transitions)-maxTransitions+1)
	}
	b.Transitions = append(b.Transitions, Transition{to, at, why})
}

// Close closes a breaker that is not closed.
func (b *Breaker) Close(at time.Time, why string) {
	if b.State() != BreakerClosed {
		b.Change(BreakerClosed, at, why)
	}
}

// ForgetProbe takes back the state half_open at the start of a process: the run that probed ended with the last
// process.
func (b *Breaker) ForgetProbe() {
	if b.State() == BreakerHalfOpen {
		b.Transitions = b.Transitions[:len(b.Transitions)-1]
	}
}

// move moves the changes since the breaker was last closed by a step of the wall clock. None is after now.
func (b *Breaker) move(step time.Duration, now time.Time) {
	for i := len(b.Transitions) - 1; i >= 0 && b.Transitions[i].To != BreakerClosed; i-- {
		b.Transitions[i].Time = earlier(b.Transitions[i].Time.Add(step), now)
	}
}
