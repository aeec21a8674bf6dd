package scheduler

import (
	"fmt"
)

// A State says whether an entry runs, and if not, why.
type State string

// The states.
const (
	StateActive    State = "active"
	StateDisabled  State = "disabled"       // by its field enabled
	StatePaused    State = "paused_manual"  // by an operator
	StateFailing   State = "paused_errors"  // too many runs in a row failed
	StateInvalid   State = "paused_invalid" // this host does not know its zone, or cannot run its function
	StateExhausted State = "exhausted"      // it never fires again
	StateRemoved   State = "removed"        // it is no longer in the schedule
)

// State returns the state of the entry, and the reason. hasAllRuns says that it has reached max_runs.
func (e *Entry) State(now Instant, hasAllRuns bool) (State, string) {
	switch {
	case !e.Spec.Enabled:
		return StateDisabled, ""
	case e.Invalid != "":
		return StateInvalid, e.Invalid
	case e.Paused != nil:
		return StatePaused, e.Paused.Why()
	case e.Failing():
		return StateFailing, fmt.Sprintf("%d runs in a row failed", e.FailuresInRow)
	case e.Next.Trigger != "" || len(e.Owed) > 0:
		return StateActive, ""
	case e.Spec.Needs.Entry != "" && !hasAllRuns:
		return StateActive, "waits for the end of " + e.Spec.Needs.Entry
	}
	return StateExhausted, e.exhaustion(now, hasAllRuns)
}
