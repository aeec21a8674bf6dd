// Package record stores the state of the reconciler across leadership sessions: the revision in force, the one that
// waits or goes out in waves, the orders of people, and the history of revisions.
//
// Call [NewStore] and [Store.Read] first, then the methods of [Record], which return a changed copy or an answer, and
// [Store.Write] to store the copy.
//
// Guarantees:
//   - Methods of Record change nothing in place, do no I/O and read no clock: time is an argument.
//   - Store.Write replaces exactly the record that this Store read or wrote last. If another master wrote in between,
//     it returns [ErrConflict] and nothing is changed.
//   - Lists and texts are bounded, so that the record does not grow with the age of the fleet.
//   - An error of the bus is returned; it is never read as an empty record.
//   - Store.Write refuses the record of another [Source] than its own, so that a master with another repo, branch or
//     path changes nothing. [Record.Adopted] is the only way to another source.
//
// Known gap: a master of an earlier version that writes the record drops the fields that it does not know, such as the
// source; the next master of this version sets its own.
package record

import (
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// Bounds of the lists in a record. The oldest items are dropped.
const (
	MaxHistory   = 50 // attempts
	MaxSkipped   = 20 // revisions that were rolled back
	MaxStepped   = 10 // attempts whose waves are kept
	MaxApprovals = 5  // decisions of people about one attempt
)

// A Record is the stored state. It is written before the first document of a revision, so that the next leader knows of
// an interrupted rollout.
type Record struct {
	Source Source `json:"source,omitzero"` // what the fleet follows; zero: an earlier version wrote the record

	Commit     settings.Commit `json:"commit"`     // in force; empty before the first revision
	Generation uint64          `json:"generation"` // of the newest documents
	Done       bool            `json:"done"`       // every document of Commit was written
	// Served is the generation of the newest document when every document of Commit was written, 0 until then. A
	// document that is not newer, or is one of Commit, differs from what Commit gives its peel only if the facts of the
	// peel have changed.
	Served uint64 `json:"served,omitempty"`
	Judged
	Owner string    `json:"owner"`          // the master that wrote the record
	Time  time.Time `json:"time"`           // when Owner wrote it
	Since time.Time `json:"since,omitzero"` // when Commit was put in force
	// Followed is the newest revision that was in force and came from the branch, so not by a pin. The next one has to
	// descend from it, also after a pin to an older one.
	Followed settings.Commit `json:"followed,omitempty"`

	policy.Safety // of Commit: limits, waves and freezes, which govern the next revision

	Blocked   *Blocked  `json:"blocked,omitempty"`   // the revision that waits for approval; nil if none does
	Approved  *Approval `json:"approved,omitempty"`  // nil once its plan has gone out or the branch has moved on
	Suspended *Approval `json:"suspended,omitempty"` // the order to pause; nil while new commits are followed

	Facts Facts `json:"facts,omitzero"` // what new facts of peels take from the fleet
	Lost  *Lost `json:"lost,omitempty"` // nil if no older copy of the bus was restored, as far as is known

	Rollout *Rollout  `json:"rollout,omitempty"` // the revision that goes out in waves; Commit stays in force meanwhile
	Skipped []Skipped `json:"skipped,omitempty"` // revisions that were rolled back, the newest last
	Pinned  *Pin      `json:"pinned,omitempty"`  // the revision that is held; nil while the branch is followed

	History []status.Attempt `json:"history,omitempty"` // the newest last
}

// A Blocked revision waits until its plan is approved or the branch moves on.
type Blocked struct {
	Commit settings.Commit `json:"commit"`
	Hash   string          `json:"hash"`           // of the plan, in hex
	Reason string          `json:"reason"`         // for people
	Kind   string          `json:"kind"`           // reason of the condition
	Sent   string          `json:"sent,omitempty"` // the revisions in force and under way when it began to wait
}

// An Approval names the person who approved a plan or paused the rollout, by credential. The approval of a plan names
// its revision and hash.
type Approval struct {
	Commit settings.Commit `json:"commit,omitempty"`
	Hash   string          `json:"hash,omitempty"` // of the plan, in hex
	By     string          `json:"by"`
	Time   time.Time       `json:"time"`
	// Override lets the revision through a freeze; nil if no person did.
	Override *Override `json:"override,omitempty"`
}

// An Override lets one revision through the freeze that held it when a person gave it, and not through the next one.
type Override struct {
	Reason string    `json:"reason"`         // of the person
	Until  time.Time `json:"until,omitzero"` // the end of the freeze; zero: it lasts for more than two years
}

// Holds reports whether there is an override that has not ended.
func (o *Override) Holds(now time.Time) bool {
	return o != nil && (o.Until.IsZero() || now.Before(o.Until))
}

// A Pin holds a stored revision in force until it is removed or, with UntilNewer, a newer commit comes.
type Pin struct {
	Commit     settings.Commit `json:"commit"`
	By         string          `json:"by"`
	Time       time.Time       `json:"time"`
	UntilNewer bool            `json:"until_newer,omitempty"`
	Head       settings.Commit `json:"head,omitempty"` // the newest commit known at Time; it does not count as newer
}

// A Skipped revision was rolled back and is not tried again.
type Skipped struct {
	Commit settings.Commit `json:"commit"`
	Reason string          `json:"reason"`
	Time   time.Time       `json:"time"`
}

// IsSent reports whether a revision is in force or goes out in waves: it was judged before, and some of its documents
// may be written.
func (r *Record) IsSent(commit settings.Commit) bool {
	return r.Commit == commit || r.Rollout != nil && r.Rollout.Commit == commit
}

// Sent returns the revision in force and then the one that goes out in waves, as far as they exist.
func (r *Record) Sent() (all []settings.Commit) {
	if r.Commit != "" {
		all = append(all, r.Commit)
	}
	if r.Rollout != nil {
		all = append(all, r.Rollout.Commit)
	}
	return all
}

// Ancestors returns the revisions that the head of the branch has to descend from: the result of Sent and Followed.
func (r *Record) Ancestors() []settings.Commit {
	all := r.Sent()
	if r.Followed != "" && !slices.Contains(all, r.Followed) {
		all = append(all, r.Followed)
	}
	return all
}

// InUse returns the revisions whose files must stay stored: the result of Sent and the pinned one.
func (r *Record) InUse() []settings.Commit {
	use := r.Sent()
	if r.Pinned != nil {
		use = append(use, r.Pinned.Commit)
	}
	return use
}

// NewestKnown returns the newest commit of the branch that the record knows, for a master that has not read the branch.
func (r *Record) NewestKnown() settings.Commit {
	if r.Pinned != nil {
		return r.Pinned.Head
	}
	if n := len(r.History); n > 0 {
		return r.History[n-1].Commit
	}
	return r.Commit
}

// FindSkipped returns the entry of a revision that was rolled back, nil if it was not.
func (r *Record) FindSkipped(commit settings.Commit) *Skipped {
	for _, s := range r.Skipped {
		if s.Commit == commit {
			return &s
		}
	}
	return nil
}

// Pinning returns the record for a stored revision that a person gives to the whole fleet, as Enforced does for one of
// the branch.
func (r Record) Pinning(commit settings.Commit, safety policy.Safety, now time.Time) Record {
	followed := r.Followed
	r = r.Enforced(commit, safety, false, now)
	r.Followed = followed
	r.Guarded = nil // a person chose it
	return r
}

// Enforced returns the record for a revision of the branch that is given to the whole fleet. It ends the rollout; done
// says whether every document was written.
func (r Record) Enforced(commit settings.Commit, safety policy.Safety, done bool, now time.Time) Record {
	if r.Commit != commit {
		r = r.WithoutApproval()
		r.Since, r.Served, r.Former = now, 0, r.Generation
		r.Guarded = nil
	}
	r.Commit = commit
	r.Followed = commit
	r.Done = done
	r.Rollout = nil
	r.Safety = safety
	return r
}

// RolledBack returns the record after the rollout under way has failed: its revision is not tried again. The reason is
// cut to [status.MaxMessage] bytes.
func (r Record) RolledBack(reason string, now time.Time) Record {
	skipped := Skipped{Commit: r.Rollout.Commit, Reason: Cut(reason, status.MaxMessage), Time: now}
	r.Skipped = append(r.Skipped[:len(r.Skipped):len(r.Skipped)], skipped)
	r.Rollout = nil
	return r
}
