package status

import (
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Wait names what a revision waits for.
type Wait string

// What a revision may wait for.
const (
	WaitApproval Wait = "approval" // the approval of its plan by sync.approve
	WaitFacts    Wait = "facts"    // the approval of what new facts would take; Commit is the revision in force
	WaitPin      Wait = "pin"      // the end of the pin
	WaitPause    Wait = "pause"    // the end of the pause
	WaitRetry    Wait = "retry"    // sync.retry, as it was rolled back
	WaitWaves    Wait = "waves"    // it goes out in waves
	WaitFreeze   Wait = "freeze"   // a freeze holds it
	WaitCommit   Wait = "commit"   // a newer commit, as it is refused
)

// PlanRequest is the request of sync.plan for the change of the waiting revision.
type PlanRequest struct {
	Revision string `json:"revision,omitempty"` // its commit, or its first digits, [MinRevision] at least; empty: any
}

// Plan is the answer of sync.plan: the waiting revision and its change.
type Plan struct {
	Commit settings.Commit `json:"commit"`
	Base   settings.Commit `json:"base,omitempty"` // the revision in force
	Waits  Wait            `json:"waits"`
	Reason string          `json:"reason,omitempty"`
	Hash   string          `json:"hash,omitempty"`   // of the plan, for sync.approve
	Change *Change         `json:"change,omitempty"` // nil if the master that leads has not compiled the revision
}

// Bounds of a [Change].
const (
	MaxGroups     = 20
	MaxGroupNames = 20 // peels, and entries of each kind
)

// A Change counts the changes of a revision. Entries and states are counted on each peel that has them.
type Change struct {
	Peels   int `json:"peels"`   // whose settings change
	Before  int `json:"before"`  // entries
	Added   int `json:"added"`   // entries
	Changed int `json:"changed"` // entries
	Removed int `json:"removed"` // entries

	StatesAdded   int `json:"states_added,omitempty"`
	StatesChanged int `json:"states_changed,omitempty"`
	StatesRemoved int `json:"states_removed,omitempty"`

	Groups []Group `json:"groups"` // the first [MaxGroups]
	More   int     `json:"more,omitempty"`
}

// A Group is a set of peels with the same change. The lists hold the first [MaxGroupNames]: entries by name, then
// states as "state:NAME".
type Group struct {
	Peels   []target.PeelID `json:"peels"`
	Count   int             `json:"count"` // of all its peels
	Added   []string        `json:"added,omitempty"`
	Changed []string        `json:"changed,omitempty"`
	Removed []string        `json:"removed,omitempty"`
}
