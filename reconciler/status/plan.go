package status

import (
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Wait names what a revision waits for.
type Wait string

// What a revision may wait for.
const (
	WaitApproval Wait = "approval" // of its plan, by sync.approve
	WaitPin      Wait = "pin"      // for the end of the pin
	WaitPause    Wait = "pause"    // for the end of the pause
	WaitRetry    Wait = "retry"    // it was rolled back
	WaitWaves    Wait = "waves"    // it goes out in waves
	WaitFreeze   Wait = "freeze"   // a freeze holds it
	WaitCommit   Wait = "commit"   // it is refused, a newer one has to mend it
)

// PlanRequest asks sync.plan what the revision that waits would change.
type PlanRequest struct {
	Revision string `json:"revision,omitempty"` // its commit, or the beginning of it, [MinRevision] digits at least; empty: whichever waits
}

// Plan is the answer of sync.plan: the revision that waits, and what it would change.
type Plan struct {
	Commit settings.Commit `json:"commit"`
	Base   settings.Commit `json:"base,omitempty"` // the revision in force
	Waits  Wait            `json:"waits"`
	Reason string          `json:"reason,omitempty"`
	Hash   string          `json:"hash,omitempty"`   // what sync.approve takes
	Change *Change         `json:"change,omitempty"` // nil if the master that leads has not compiled the revision
}

// Bounds of a [Change].
const (
	MaxGroups     = 20
	MaxGroupNames = 20 // peels, and entries of each kind
)

// A Change is what a revision changes for the peels. Entries are counted on each peel that has them.
type Change struct {
	Peels   int     `json:"peels"`   // whose settings change
	Before  int     `json:"before"`  // entries
	Added   int     `json:"added"`   // entries
	Changed int     `json:"changed"` // entries
	Removed int     `json:"removed"` // entries
	Groups  []Group `json:"groups"`  // the first [MaxGroups]
	More    int     `json:"more,omitempty"`
}

// A Group is some peels that change alike. The lists hold the first [MaxGroupNames], by name.
type Group struct {
	Peels   []target.PeelID `json:"peels"`
	Count   int             `json:"count"`             // of all its peels
	Added   []string        `json:"added,omitempty"`   // entries
	Changed []string        `json:"changed,omitempty"` // entries
	Removed []string        `json:"removed,omitempty"` // entries
}
