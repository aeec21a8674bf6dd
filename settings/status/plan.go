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

// CommitRequest is the request of sync.commit for what a revision changed.
type CommitRequest struct {
	// its commit, or its first digits, [MinRevision] at least
	Revision string `json:"revision" path:"revision" minLength:"4" maxLength:"64" doc:"Its commit, or the beginning of it."`
}

// CommitChange is the answer of sync.commit: what a revision changed on the peels of today, against the revision that
// was in force before it. Values that look like secrets are not shown.
type CommitChange struct {
	Commit settings.Commit `json:"commit"`
	Base   settings.Commit `json:"base,omitempty"`  // empty: no revision was in force before
	Lacks  string          `json:"lacks,omitempty"` // why the rest is not known
	Change *Change         `json:"change,omitempty"`
	Load   *LoadChange     `json:"load,omitempty"`
	// Files are those of the repo that differ, the first [MaxFiles] that revisions are compiled from.
	Files     []FileChange `json:"files"`
	MoreFiles int          `json:"more_files,omitempty"`
	// Blocks are the changes field by field, equal ones once with their peels. They have at most [MaxLines] lines.
	Blocks    []Block `json:"blocks"`
	MoreLines int     `json:"more_lines,omitempty"`
}

// Bounds of a [CommitChange].
const (
	MaxFiles = 50
	MaxLines = 400
)

// A FileChange counts the lines that differ in a file of the repo. Both are 0 for one that is no text.
type FileChange struct {
	Path    string `json:"path"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
}

// A LoadChange is how many runs the whole fleet starts in the next 24 hours, and in the worst minute of them.
type LoadChange struct {
	Before      float64 `json:"before"`
	After       float64 `json:"after"`
	WorstBefore float64 `json:"worst_before"`
	WorstAfter  float64 `json:"worst_after"`
}

// A Block is what changes on some peels. Each line begins with +, -, ~ or a space.
type Block struct {
	Peels []target.PeelID `json:"peels"` // the first [MaxGroupNames]
	Count int             `json:"count"` // of all of them
	Lines []string        `json:"lines"`
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
