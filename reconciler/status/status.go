// Package status is what the reconciler says of itself: the answers of zester.api.sync.*, and the words in them.
//
// The words are those of Flux: a condition has a type, is true or not, and gives a reason in one word and a message
// for people. Ready may be true while FetchFailed is true as well: the last good revision serves, and the message
// says how old it is. Stalled means that trying again cannot help until somebody changes something.
package status

import (
	"reflect"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Type names a condition.
type Type string

// The conditions.
const (
	Ready         Type = "Ready"         // a revision serves and every write of it was made
	Reconciling   Type = "Reconciling"   // an attempt is under way
	Stalled       Type = "Stalled"       // trying again cannot help
	FetchFailed   Type = "FetchFailed"   // the branch could not be read
	CompileFailed Type = "CompileFailed" // the newest revision is refused, with all its errors
	GuardBlocked  Type = "GuardBlocked"  // the newest revision waits for approval, or is refused for rewriting history
	Suspended     Type = "Suspended"     // new commits are seen and wait
	Frozen        Type = "Frozen"        // a freeze of zester.yaml holds the newest revision
	// RolloutProgressing: a revision goes out in waves; false with the reason WaveFailed: it was rolled back.
	RolloutProgressing Type = "RolloutProgressing"
	// SourceVerified: the newest revision is signed by a key that may; false: it is not, and is refused.
	SourceVerified   Type = "SourceVerified"
	HistoryRewritten Type = "HistoryRewritten" // the branch moved to a commit that does not descend from the last good one
	HeadSkipped      Type = "HeadSkipped"      // the newest commit was rolled back and is not tried again
)

// Types are all conditions.
var Types = []Type{
	Ready, Reconciling, Stalled, FetchFailed, CompileFailed, GuardBlocked, Suspended, RolloutProgressing, SourceVerified, HistoryRewritten, HeadSkipped, Frozen,
}

// MaxMessage is the longest message of a condition, in bytes.
const MaxMessage = 1024

// A Condition is one aspect of how the reconciler is. Those that are false and have never been true are left out.
type Condition struct {
	Type               Type            `json:"type"`
	Status             bool            `json:"status"`
	Reason             string          `json:"reason,omitempty"`
	Message            string          `json:"message,omitempty"`
	Where              string          `json:"where,omitempty"` // path:line of what is wrong
	ObservedRevision   settings.Commit `json:"observed_revision,omitempty"`
	LastTransitionTime time.Time       `json:"last_transition_time"`
}

// A Revision is a commit as people know it.
type Revision struct {
	Commit  settings.Commit `json:"commit"`
	Author  string          `json:"author,omitempty"`
	Message string          `json:"message,omitempty"` // its first line
	Time    time.Time       `json:"time,omitzero"`     // by its author's clock
	Since   time.Time       `json:"since,omitzero"`    // when it was put in force
}

// Counts are numbers of peels by state; they add up to Peels.
type Counts struct {
	Peels   int `json:"peels"`
	Applied int `json:"applied"`
	Pending int `json:"pending"`
	Failed  int `json:"failed"`
	Offline int `json:"offline"`
}

// Sync is the answer of sync.status and sync.now.
type Sync struct {
	Repo          string          `json:"repo"` // without credentials
	Branch        string          `json:"branch"`
	Path          string          `json:"path,omitempty"`
	Owner         string          `json:"owner"`                    // the master that holds the lease
	Observed      settings.Commit `json:"observed,omitempty"`       // where the branch was last seen
	Read          time.Time       `json:"read,omitzero"`            // when it was last seen there
	Blocked       string          `json:"blocked,omitempty"`        // the plan hash of a revision that waits for approval
	LastAttempted settings.Commit `json:"last_attempted,omitempty"` // the newest commit that was fetched
	LastGood      Revision        `json:"last_good"`                // the revision in force
	Generation    uint64          `json:"generation"`               // of the newest write
	Writes        int             `json:"writes"`                   // documents that the revision in force took
	Rollout       *Rollout        `json:"rollout,omitempty"`        // of LastAttempted, while it goes out in waves
	Skipped       settings.Commit `json:"skipped,omitempty"`        // the revision that was rolled back last
	Holds
	Conditions []Condition `json:"conditions"`
	Errors     []string    `json:"errors,omitempty"`   // of the revision last attempted: file:line:column: entry: message
	Warnings   []string    `json:"warnings,omitempty"` // of the revision in force
	Counts     Counts      `json:"counts"`
	// PausedErrors are peels with entries that failures have paused, at most 20.
	PausedErrors []PausedEntries `json:"paused_errors,omitempty"`
	// Duplicates are peels whose ID two processes share, at most 20.
	Duplicates []target.PeelID `json:"duplicates,omitempty"`
}

// Holds are what keeps new commits from the fleet. Each is nil if it does not.
type Holds struct {
	Frozen *Freeze   `json:"frozen,omitempty"` // the revision that waits for the end of a freeze
	Pinned *Pin      `json:"pinned,omitempty"` // the revision that is held whatever the branch says
	Paused *Pause    `json:"paused,omitempty"` // new commits wait, also after a pin
	Adopt  *Adoption `json:"adopt,omitempty"`  // nothing is published until sync.adopt
}

// PausedEntries are the schedule entries of one peel that are paused_errors.
type PausedEntries struct {
	Peel    target.PeelID `json:"peel"`
	Entries []string      `json:"entries"`
}

// Rollout is how far a revision is with its waves. The numbers are of the peels that it changes and has reached.
type Rollout struct {
	Commit settings.Commit `json:"commit"`
	Wave   int             `json:"wave"`  // from 1
	Waves  int             `json:"waves"` // as zester.yaml names them
	Name   string          `json:"name"`
	State  string          `json:"state"` // waits, soaks, gate, passed, failed, complete
	// Reason says what the rollout waits for, in plain words, and Until when that ends at the latest; zero if it may last.
	Reason   string        `json:"reason,omitempty"`
	Until    time.Time     `json:"until,omitzero"`
	Gate     string        `json:"gate,omitempty"`     // manual: a person has to approve the wave after it has passed
	Deadline time.Duration `json:"deadline,omitempty"` // how long the peels of the wave may take to apply the revision; zero: no limit
	Started  time.Time     `json:"started"`
	Soaked   time.Time     `json:"soaked,omitzero"` // when the wave will have been watched long enough
	Peels    int           `json:"peels"`
	Applied  int           `json:"applied"`
	Pending  int           `json:"pending"`
	Offline  int           `json:"offline"`
	Failed   int           `json:"failed"`
}

// A Freeze holds one revision.
type Freeze struct {
	Commit settings.Commit `json:"commit"`
	Reason string          `json:"reason"`         // for people
	Until  time.Time       `json:"until,omitzero"` // zero if it lasts for more than two years
}

// String says what holds the revision, and until when.
func (f Freeze) String() string {
	if f.Until.IsZero() {
		return f.Reason
	}
	return f.Reason + " until " + f.Until.UTC().Format(time.RFC3339)
}

// A Pin holds one revision.
type Pin struct {
	Commit     settings.Commit `json:"commit"`
	By         string          `json:"by"`
	Time       time.Time       `json:"time"`
	UntilNewer bool            `json:"until_newer,omitempty"` // the next commit that comes after it ends the pin
}

// An Adoption has the fleet follow another source: a repo, branch and path in one line. It is what sync.status shows while
// the master that answers follows another source than the fleet, and the request of sync.adopt.
type Adoption struct {
	From string `json:"from"` // what the fleet follows
	To   string `json:"to"`   // what the master that answers follows
}

// A Pause keeps new commits from the fleet.
type Pause struct {
	By   string    `json:"by"`
	Time time.Time `json:"time"`
}

// RolledBack reports whether the newest revision was tried and taken back from the peels that had it.
func (s *Sync) RolledBack() bool { return s.Skipped != "" && s.Skipped == s.LastAttempted }

// Is reports whether a condition is true.
func (s *Sync) Is(t Type) bool {
	return slices.ContainsFunc(s.Conditions, func(c Condition) bool { return c.Type == t && c.Status })
}

// Distrusted reports whether the newest revision is refused for its signature.
func (s *Sync) Distrusted() bool {
	return s.LastAttempted != s.LastGood.Commit && slices.ContainsFunc(s.Conditions, func(c Condition) bool {
		return c.Type == SourceVerified && !c.Status && c.ObservedRevision == s.LastAttempted
	})
}

// An Outcome says what became of a revision.
type Outcome string

// The outcomes. The first two last until another comes.
const (
	OutcomeProgressing Outcome = "progressing" // it goes to the fleet, in waves or at once
	OutcomeBlocked     Outcome = "blocked"     // it waits for approval, or for the end of a freeze
	OutcomeApplied     Outcome = "applied"
	OutcomeRejected    Outcome = "rejected" // it does not compile, or may not be served
	OutcomeSuperseded  Outcome = "superseded"
	OutcomeRolledBack  Outcome = "rolled back"
)

// Final reports whether nothing more becomes of the attempt.
func (o Outcome) Final() bool { return o != OutcomeProgressing && o != OutcomeBlocked }

// An Attempt is one time that a revision was tried.
type Attempt struct {
	Commit  settings.Commit `json:"commit"`
	Author  string          `json:"author,omitempty"`
	Message string          `json:"message,omitempty"` // its first line
	Outcome Outcome         `json:"outcome"`
	Reason  string          `json:"reason,omitempty"` // of what is not applied; the first, if there are several
	By      string          `json:"by,omitempty"`     // who approved, pinned or retried it
	Master  string          `json:"master"`           // the master that led
	Began   time.Time       `json:"began"`
	Ended   time.Time       `json:"ended,omitzero"`
	Stored  bool            `json:"stored,omitempty"` // it can be pinned
	// Approvals are the newest decisions of people that let the revision go on.
	Approvals []Approval `json:"approvals,omitempty"`
}

// An Approval is a decision of a person that let a revision go on.
type Approval struct {
	What   string    `json:"what"` // "gate NAME" or "freeze"
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	Time   time.Time `json:"time"`
}

// Equal reports whether two attempts say the same.
func (a Attempt) Equal(b Attempt) bool { return reflect.DeepEqual(a, b) }

// History is the answer of sync.history, the newest attempt first.
type History struct {
	Attempts []Attempt `json:"attempts"`
}

// A State says how far a peel is with the revision in force.
type State string

// The states of a peel. A peel that is away but reported the wanted settings counts as applied.
const (
	Applied State = "applied" // its last report has the digest that the revision gives it
	Pending State = "pending"
	Failed  State = "failed"  // it could not use what it was given
	Offline State = "offline" // not applied, and not heard for 90 s
	// Decommissioned: it tells no facts any more, and what it was given is still kept. It counts nowhere.
	Decommissioned State = "decommissioned"
)

// Peel is one peel in the answer of sync.peels.
type Peel struct {
	Peel       target.PeelID   `json:"peel"`
	State      State           `json:"state"`
	Online     bool            `json:"online"`
	Commit     settings.Commit `json:"commit,omitempty"` // of the document that it runs
	Generation uint64          `json:"generation"`
	Digest     settings.Digest `json:"digest,omitempty"`
	Wanted     settings.Digest `json:"wanted,omitempty"`
	Started    int             `json:"started"` // schedule entries, by its last reload
	Stopped    int             `json:"stopped"`
	Changed    int             `json:"changed"`
	Kept       int             `json:"kept"`
	Errors     []string        `json:"errors,omitempty"`
	// PausedErrors are schedule entries that failed too often in a row and do not run until somebody resumes or changes them.
	PausedErrors []string `json:"paused_errors,omitempty"`

	Stale    bool      `json:"stale,omitempty"` // it runs a snapshot that the bus has not confirmed
	Reported time.Time `json:"reported,omitzero"`
	Since    time.Time `json:"behind_since,omitzero"` // when it was given what it does not run yet
}

// MinHash is how many digits of a plan's hash name it at least.
const MinHash = 8

// ApproveRequest asks sync.approve to let the revision go out that waits, to open the gate of a wave, or to let a revision
// through a freeze.
type ApproveRequest struct {
	Hash     string `json:"hash,omitempty"`     // of the plan, or the commit that a freeze holds; the beginning is enough
	Wave     string `json:"wave,omitempty"`     // whose gate is to be opened, in place of Hash
	Override bool   `json:"override,omitempty"` // the revision goes through the freeze; needs a Reason
	Reason   string `json:"reason,omitempty"`   // one line for the history and the audit log, 300 bytes at most
}

// DocumentRequest asks sync.diff what a peel was given.
type DocumentRequest struct {
	Peel target.PeelID `json:"peel"`
}

// Document is the answer of sync.diff: what Git says about one peel, and how far the peel is with it.
type Document struct {
	Peel     Peel                       `json:"peel"`
	Commit   settings.Commit            `json:"commit"` // of the write
	Digest   settings.Digest            `json:"digest"`
	Settings map[string]any             `json:"settings"`
	Origins  map[string]settings.Origin `json:"origins,omitempty"` // by schedule entry
}

// RemoveRequest asks sync.remove to take away all that is kept of a peel.
type RemoveRequest struct {
	Peel  target.PeelID `json:"peel"`
	Force bool          `json:"force,omitempty"` // also if it is online; it is back when it tells its facts again
}

// PinRequest asks sync.pin to hold a stored revision.
type PinRequest struct {
	Revision   string `json:"revision"` // its commit, or the beginning of it, [MinRevision] digits at least
	UntilNewer bool   `json:"until_newer,omitempty"`
}

// RetryRequest asks sync.retry to try a revision again that was rolled back.
type RetryRequest struct {
	Revision string `json:"revision,omitempty"` // its commit, or the beginning of it, [MinRevision] digits at least; empty: the newest
}

// MinRevision is how many digits of a commit name a revision at least.
const MinRevision = 4

// PeelsRequest asks sync.peels for a page: the peels after one ID, in order.
type PeelsRequest struct {
	After target.PeelID `json:"after,omitempty"`
}

// PeelsPage is one page of sync.peels.
type PeelsPage struct {
	Peels []Peel `json:"peels"`
	More  bool   `json:"more,omitempty"`
}
