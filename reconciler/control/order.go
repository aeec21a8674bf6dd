package control

import (
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/rollout"
	"github.com/seed-c01c3da5/zester/reconciler/source"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
)

// Seen is what an order may depend on besides the record.
type Seen struct {
	Now   time.Time
	Owner string          // this master
	Head  settings.Commit // the newest commit of the branch, empty while it was not read
	// Source is what this master follows.
	Source record.Source
	// Frozen is the revision that a freeze holds, empty if there is none.
	Frozen settings.Commit
}

// A Change returns the record as an order changes it. It is pure. Its error is a *[record.Refusal].
type Change func(r record.Record, s Seen) (record.Record, error)

// An Order is what a person wants of the loop. The loop applies Change, stores the record and calls Accept. It calls Settle
// when no look at the branch and no job that follows from the order is under way.
type Order struct {
	Verb   string // of zester.api.sync
	By     string // the user, from the subject
	Look   bool   // the branch is to be read
	Change Change // nil: the record stays as it is

	accepted chan error
	settled  chan struct{}
}

// NewOrder returns an order for the loop.
func NewOrder(verb, by string, look bool, change Change) *Order {
	return &Order{Verb: verb, By: by, Look: look, Change: change, accepted: make(chan error, 1), settled: make(chan struct{})}
}

// Accept answers that the order is in force, or why it is not. Call it once.
func (o *Order) Accept(err error) { o.accepted <- err }

// Settle answers that nothing that follows is under way. Call it once, after Accept(nil).
func (o *Order) Settle() { close(o.settled) }

// Pause keeps new commits from the fleet. Peels that are new or change are served from the revision in force.
func Pause(by string) Change {
	return func(r record.Record, s Seen) (record.Record, error) {
		if p := r.Suspended; p != nil {
			return r, record.Refuse("cannot pause: %s has done so at %s", p.By, p.Time.UTC().Format(time.RFC3339))
		}
		r.Suspended = &record.Approval{By: by, Time: s.Now}
		return r, nil
	}
}

// Resume lets new commits go out again, beginning with the newest.
func Resume() Change {
	return func(r record.Record, _ Seen) (record.Record, error) {
		if r.Suspended == nil {
			return r, record.Refuse("cannot resume: nothing is paused")
		}
		r.Suspended = nil
		return r, nil
	}
}

// Approve lets the revision that waits go out once, if the hash of its plan begins with digits.
func Approve(digits, by string) Change {
	return func(r record.Record, s Seen) (record.Record, error) {
		if err := r.CheckApproval(digits, s.Head); err != nil {
			return r, err
		}
		given := record.Approval{Commit: r.Blocked.Commit, Hash: r.Blocked.Hash, By: by, Time: s.Now}
		r = r.WithoutApproval().NotedBy(given.Commit, by)
		r.Approved = &given
		return r, nil
	}
}

// OpenGate lets the rollout go on after a wave with a manual gate has passed.
func OpenGate(wave, why, by string) Change {
	return func(r record.Record, s Seen) (record.Record, error) { return rollout.OpenGate(r, wave, by, why, s.Now) }
}

// OverrideFreeze lets the revision that a freeze holds through, if its commit begins with digits.
func OverrideFreeze(digits, why, by string) Change {
	return func(r record.Record, s Seen) (record.Record, error) {
		return rollout.OverrideFreeze(r, s.Frozen, digits, by, why, s.Now)
	}
}

// Pin gives the whole fleet a stored revision at once: the person who pins it knows it from before. So neither waves nor the
// guard nor a pause hold it up, and a rollout under way ends. The Safety of the revision has to be known.
func Pin(pinned *archive.Revision, by string, untilNewer bool) Change {
	return func(r record.Record, s Seen) (record.Record, error) {
		commit := pinned.ID()
		if r.Commit != commit || r.Rollout != nil {
			r = r.Noted(status.Attempt{
				Commit: commit, Author: source.Byline(pinned.Commit), Message: pinned.Commit.Subject(),
				Outcome: status.OutcomeProgressing, Master: s.Owner,
			}, s.Now).NotedBy(commit, by)
			r = r.Enforced(commit, *pinned.Safety, false, s.Now)
		}
		head := s.Head
		if head == "" {
			head = r.NewestKnown()
		}
		r.Pinned = &record.Pin{Commit: commit, By: by, Time: s.Now, UntilNewer: untilNewer, Head: head}
		return r.WithoutApproval(), nil
	}
}

// Unpin follows the branch again.
func Unpin() Change {
	return func(r record.Record, _ Seen) (record.Record, error) {
		if r.Pinned == nil {
			return r, record.Refuse("cannot unpin: nothing is pinned")
		}
		r.Pinned = nil
		return r, nil
	}
}

// Retry has a revision tried again that was rolled back: from its first wave, and past the guard as a new commit.
func Retry(digits, by string) Change {
	return func(r record.Record, s Seen) (record.Record, error) {
		commit, err := r.CheckRetry(digits, s.Head)
		if err != nil {
			return r, err
		}
		again := status.Attempt{Commit: commit}
		for _, a := range r.History {
			if a.Commit == commit {
				again = a
			}
		}
		again.Outcome, again.Reason, again.Master, again.Ended = status.OutcomeProgressing, "", s.Owner, time.Time{}
		return r.WithoutSkipped(commit).Noted(again, s.Now).NotedBy(commit, by), nil
	}
}
