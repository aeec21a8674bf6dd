// Package status holds the types of zester.api.sync.*: requests, answers, and their words.
//
// Begin with [Sync], the status. As in Flux, a condition has a type, is true or false, and has a reason in one word and
// a message for people. Ready may be true while FetchFailed is true as well: the last good revision stays in force.
// Stalled means that trying again cannot help until a person changes something.
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
	Ready         Type = "Ready"         // a revision is in force and no write failed
	Reconciling   Type = "Reconciling"   // an attempt to read the branch or a task is under way
	Stalled       Type = "Stalled"       // trying again cannot help
	FetchFailed   Type = "FetchFailed"   // the branch could not be read
	CompileFailed Type = "CompileFailed" // the newest revision is refused, with all its errors
	// GuardBlocked: the newest revision waits for approval, or is refused for rewriting history. With the reason
	// FactsChanged and the revision in force: what new facts of peels would take waits for approval.
	GuardBlocked Type = "GuardBlocked"
	Suspended    Type = "Suspended" // new commits wait, because of a pin or a pause
	Frozen       Type = "Frozen"    // a freeze of zester.yaml holds the newest revision
	// RolloutProgressing is true while a revision goes out in waves; false with the reason WaveFailed if it was rolled
	// back.
	RolloutProgressing Type = "RolloutProgressing"
	// SourceVerified is true if a trusted key signed the newest revision; if false, the revision is refused.
	SourceVerified Type = "SourceVerified"
	// the branch moved to a commit that does not descend from the last good one
	HistoryRewritten Type = "HistoryRewritten"
	HeadSkipped      Type = "HeadSkipped" // the newest commit was rolled back and is not tried again
	// BusRestored is true for a week after peels reported settings that are newer than all that the bus had when this
	// master took the lead: an older copy of the bus was restored.
	BusRestored Type = "BusRestored"
)

// FactsChanged is the reason of GuardBlocked if new facts of peels would take more than the limits allow.
const FactsChanged = "FactsChanged"

// Types are all conditions.
var Types = []Type{
	Ready, Reconciling, Stalled, FetchFailed, CompileFailed, GuardBlocked, Suspended, RolloutProgressing,
	SourceVerified, HistoryRewritten, HeadSkipped, Frozen, BusRestored,
}

// MaxMessage is the longest message of a condition, in bytes.
const MaxMessage = 1024

// A Condition is one aspect of the state. A condition that is false and has never been true is left out.
type Condition struct {
	Type               Type            `json:"type"`
	Status             bool            `json:"status"`
	Reason             string          `json:"reason,omitempty"`
	Message            string          `json:"message,omitempty"`
	Where              string          `json:"where,omitempty"` // path:line of the mistake
	ObservedRevision   settings.Commit `json:"observed_revision,omitempty"`
	LastTransitionTime time.Time       `json:"last_transition_time"`
}

// A Revision is a commit with its author and first line.
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
	LastAttempted settings.Commit `json:"last_attempted,omitempty"` // the newest commit that was fetched
	LastGood      Revision        `json:"last_good"`                // the revision in force
	Written
	Rollout *Rollout        `json:"rollout,omitempty"` // of LastAttempted, while it goes out in waves
	Skipped settings.Commit `json:"skipped,omitempty"` // the revision that was rolled back last
	Holds
	Conditions []Condition `json:"conditions"`
	Findings
	Counts Counts `json:"counts"`
	// HostCounts are the numbers of peels with states by host state; absent while the master that leads still reads
	// reports.
	HostCounts HostCounts `json:"host_counts,omitempty"`
}

// Written counts the writes of documents.
type Written struct {
	Generation uint64 `json:"generation"` // of the newest write
	Writes     int    `json:"writes"`     // documents that were written for the revision in force
}

// Findings are mistakes and problems that need a person.
type Findings struct {
	Errors   []string `json:"errors,omitempty"`   // of the revision last attempted: file:line:column: entry: message
	Warnings []string `json:"warnings,omitempty"` // of the revision in force
	// PausedErrors are peels with entries that failures have paused, at most 20.
	PausedErrors []PausedEntries `json:"paused_errors,omitempty"`
	// Duplicates are peels whose ID two processes share, at most 20.
	Duplicates []target.PeelID `json:"duplicates,omitempty"`
	// Outdated are peels whose settings have states and whose zester-peel does not understand these, at most 20.
	Outdated []target.PeelID `json:"outdated,omitempty"`
}

// Holds are the reasons that keep new commits from the fleet; nil for each that does not apply.
type Holds struct {
	Blocked string `json:"blocked,omitempty"` // hash of the plan that waits for approval
	// Facts is what new facts of peels would take from the fleet; it waits for approval, and holds no commit that
	// changes other peels.
	Facts *FactsHold `json:"facts,omitempty"`
	// the revision that waits for the end of a freeze: the newest, or else the one under way
	Frozen *Freeze   `json:"frozen,omitempty"`
	Pinned *Pin      `json:"pinned,omitempty"` // the revision that stays in force until unpin
	Paused *Pause    `json:"paused,omitempty"` // new commits wait, also after a pin
	Adopt  *Adoption `json:"adopt,omitempty"`  // nothing is published until sync.adopt
}

// A FactsHold is a change that new facts of peels would make to their settings, and that waits for approval.
type FactsHold struct {
	Hash   string `json:"hash"`   // of the change, for sync.approve
	Reason string `json:"reason"` // for people
	Peels  int    `json:"peels"`  // that keep what they have meanwhile
}

// PausedEntries are the schedule entries of one peel that failures have paused.
type PausedEntries struct {
	Peel    target.PeelID `json:"peel"`
	Entries []string      `json:"entries"`
}

// AllAway is the state of a rollout all of whose peels are away. The first that return are the next in its wave.
const AllAway = "away"

// Rollout is the progress of a revision in its waves.
type Rollout struct {
	Commit settings.Commit `json:"commit"`
	Wave   int             `json:"wave"`  // from 1
	Waves  int             `json:"waves"` // as zester.yaml names them
	Name   string          `json:"name"`
	State  string          `json:"state"` // waits, [AllAway], soaks, gate, passed, failed, complete
	// Reason says what the rollout waits for, and Until when that ends at the latest; zero if there is no limit.
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until,omitzero"`
	Gate   string    `json:"gate,omitempty"` // manual: a person has to approve the wave after it has passed
	// how long the peels of the wave may take to apply the revision; zero: no limit
	Deadline time.Duration `json:"deadline,omitempty"`
	Started  time.Time     `json:"started"`
	Soaked   time.Time     `json:"soaked,omitzero"` // when the wave will have been watched long enough
	Counts                 // of members
	Steps    []Wave        `json:"steps,omitempty"` // all waves, in their order
}

// A Wave is one wave of a rollout. All its numbers include the peels of earlier waves, and are those of its end once it
// has passed.
type Wave struct {
	Name        string        `json:"name"`
	Gate        string        `json:"gate,omitempty"` // manual: a person has to open it after the wave has passed
	ApprovedBy  string        `json:"approved_by,omitempty"`
	Soak        time.Duration `json:"soak,omitempty"`
	MaxFailures int           `json:"max_failures"`    // peels that may fail
	Changes     int           `json:"changes"`         // peels that the revision changes
	Peels       int           `json:"peels"`           // that were given the revision
	Applied     int           `json:"applied"`         // that run it
	Failing     int           `json:"failing"`         // that failed with it
	Began       time.Time     `json:"began,omitzero"`  // when it had chosen its peels; zero: it has not begun
	Passed      time.Time     `json:"passed,omitzero"` // zero: it goes on, or failed
}

// A Freeze holds one revision.
type Freeze struct {
	Commit settings.Commit `json:"commit"`
	Reason string          `json:"reason"`         // for people
	Until  time.Time       `json:"until,omitzero"` // zero if it lasts for more than two years
}

// String returns the reason and the end, for people.
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

// An Adoption names two sources, each a repo, branch and path in one line. sync.status shows it while the leading
// master follows another source than the fleet; it is also the request of sync.adopt, which makes the fleet follow To.
type Adoption struct {
	From string `json:"from"` // the source of the fleet
	To   string `json:"to"`   // the source of the master that answers
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

// An Outcome is the result of an attempt to send a revision to the fleet.
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

// Final reports whether the outcome stays.
func (o Outcome) Final() bool { return o != OutcomeProgressing && o != OutcomeBlocked }

// An Attempt is one time that a revision was tried.
type Attempt struct {
	Commit  settings.Commit `json:"commit"`
	Author  string          `json:"author,omitempty"`
	Message string          `json:"message,omitempty"` // its first line
	Outcome Outcome         `json:"outcome"`
	Reason  string          `json:"reason,omitempty"` // why it was not applied; the first reason, if there are several
	By      string          `json:"by,omitempty"`     // the person who approved, pinned or retried it
	Master  string          `json:"master"`           // the master that led
	Began   time.Time       `json:"began"`
	Ended   time.Time       `json:"ended,omitzero"`
	Stored  bool            `json:"stored,omitempty"` // it can be pinned
	// Approvals are the newest decisions of people that let the revision go on.
	Approvals []Approval `json:"approvals,omitempty"`
	// Steps are the waves in which it went out. Only the newest attempts have them.
	Steps []Wave `json:"steps,omitempty"`
}

// An Approval is a decision of a person that let a revision go on.
type Approval struct {
	What   string    `json:"what"` // "gate NAME" or "freeze"
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	Time   time.Time `json:"time"`
}

// Equal reports whether two attempts are equal in all fields.
func (a Attempt) Equal(b Attempt) bool { return reflect.DeepEqual(a, b) }

// History is the answer of sync.history, the newest attempt first.
type History struct {
	Attempts []Attempt `json:"attempts"`
}

// A State is the state of a peel with respect to its wanted settings.
type State string

// The states of a peel. A peel that is away but reported the wanted settings counts as applied.
const (
	Applied State = "applied" // its last report has the digest that the revision gives it
	Pending State = "pending"
	Failed  State = "failed"  // it could not apply its settings
	Offline State = "offline" // not applied, and not heard for 90 s
	// Decommissioned: it has no facts, but its document is still stored. It is not counted.
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
	Reload
	Errors []string `json:"errors,omitempty"`
	// PausedErrors are schedule entries that failed too often in a row and do not run until a person resumes or changes
	// them.
	PausedErrors []string `json:"paused_errors,omitempty"`
	// MissingContents is how many contents of files that its document names it has not fetched yet. A state that needs
	// one fails.
	MissingContents int `json:"missing_contents,omitempty"`
	// Features are the parts of settings that its zester-peel understands beside the schedule: "states".
	Features []string `json:"features,omitempty"`
	// Outdated reports that its settings have states, which its zester-peel does not understand.
	Outdated bool `json:"outdated,omitempty"`
	// HostState says how the host compares with its states; empty if its settings have none.
	HostState HostState `json:"host_state,omitempty"`

	Stale    bool      `json:"stale,omitempty"` // it runs a snapshot that the bus has not confirmed
	Reported time.Time `json:"reported,omitzero"`
	Since    time.Time `json:"behind_since,omitzero"` // when the settings were written that it does not run yet
}

// Reload counts the schedule entries of a peel by the effect of its last reload.
type Reload struct {
	Started int `json:"started"`
	Stopped int `json:"stopped"`
	Changed int `json:"changed"`
	Kept    int `json:"kept"`
}

// MinHash is the least number of digits of a plan's hash in a request.
const MinHash = 8

// ApproveRequest is the request of sync.approve: to let the waiting revision go out, to open the gate of a wave, or to
// let a revision through a freeze.
type ApproveRequest struct {
	Hash     string `json:"hash,omitempty"`     // first digits of the plan's hash, or of the commit that a freeze holds
	Wave     string `json:"wave,omitempty"`     // the wave whose gate to open, in place of Hash
	Override bool   `json:"override,omitempty"` // the revision goes through the freeze; needs a Reason
	Reason   string `json:"reason,omitempty"`   // one line for the history and the audit log, 300 bytes at most
	// Revision is the commit that the person saw, or its first digits, [MinRevision] at least. The order is refused if
	// it would let another one go on. If empty, that is not checked.
	Revision string `json:"revision,omitempty"`
	// Until is when the freeze ends that the person saw. With Override, the order is refused if the freeze ends later
	// now. If zero, that is not checked.
	Until time.Time `json:"until,omitzero"`
}

// DocumentRequest is the request of sync.diff for the document of a peel.
type DocumentRequest struct {
	Peel target.PeelID `json:"peel"`
}

// Document is the answer of sync.diff: the settings and the state of one peel.
type Document struct {
	Peel     Peel                       `json:"peel"`
	Commit   settings.Commit            `json:"commit"` // of the write
	Digest   settings.Digest            `json:"digest"`
	Settings map[string]any             `json:"settings"`
	Origins  map[string]settings.Origin `json:"origins,omitempty"` // by schedule entry
}

// RemoveRequest is the request of sync.remove to delete the stored data of a peel.
type RemoveRequest struct {
	Peel  target.PeelID `json:"peel"`
	Force bool          `json:"force,omitempty"` // also if it is online; it returns with its next facts
}

// Removed is the answer of sync.remove.
type Removed struct {
	Sync
	Naming
}

// Naming are the places of the revision in force that still name a peel.
type Naming struct {
	Places []string `json:"named_at,omitempty"` // file:line, 100 at most
	Unread string   `json:"unread,omitempty"`   // why they are not known
}

// PinRequest is the request of sync.pin to put a stored revision in force and keep it.
type PinRequest struct {
	Revision   string `json:"revision"` // its commit, or its first digits, [MinRevision] at least
	UntilNewer bool   `json:"until_newer,omitempty"`
}

// ReleaseRequest is the request of sync.resume and sync.unpin.
type ReleaseRequest struct {
	// Since is when the pause or the pin began that the person saw. The order is refused if it would end another one.
	// If zero, that is not checked.
	Since time.Time `json:"since,omitzero"`
}

// RetryRequest is the request of sync.retry to try a revision again that was rolled back.
type RetryRequest struct {
	// its commit, or its first digits, [MinRevision] at least; empty: the newest
	Revision string `json:"revision,omitempty"`
}

// MinRevision is the least number of digits of a commit in a request.
const MinRevision = 4

// PeelsRequest is the request of sync.peels for a page: the peels after the cursor, in order.
type PeelsRequest struct {
	Cursor target.PeelID `json:"cursor,omitempty" query:"cursor" maxLength:"128" doc:"The next of the page before."`
	// Peels are the peels to return, at most [MaxPeels], in place of all after the cursor.
	Peels []target.PeelID `json:"peels,omitempty"`
	// Behind selects the peels that have not applied the revision in force, of sync.peels without Peels.
	Behind bool `json:"behind,omitempty"`
}

// MaxPeels bounds [PeelsRequest.Peels].
const MaxPeels = 500

// SyncPeelsPage is one page of sync.peels: peels by ID.
type SyncPeelsPage struct {
	Peels []Peel        `json:"peels"`
	Next  target.PeelID `json:"next,omitempty" doc:"The cursor of the next page; absent on the last."`
}

// ShortHash returns the beginning of the hash of a plan that commands show: an approval takes it.
func ShortHash(hash string) string {
	const shown = 12 // digits
	return hash[:min(len(hash), shown)]
}
