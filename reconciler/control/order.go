package control

import (
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/rollout"
	"github.com/seed-c01c3da5/zester/reconciler/source"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// Seen is the state besides the record that an order may depend on.
type Seen struct {
	Now   time.Time
	Owner string          // this master
	Head  settings.Commit // the newest commit of the branch, empty while it was not read
	// Source is what this master follows.
	Source record.Source
	// Frozen are the revisions that a freeze holds: the one under way and the newest.
	Frozen []rollout.Frozen
}

// A Change applies an order to a record and returns the new one. It is pure. Its error is a *[record.Refusal].
type Change func(r record.Record, s Seen) (record.Record, error)

// An Order is a request of a person to the loop. The loop applies Change, stores the record and calls Accept. It calls
// Settle when no attempt to read the branch and no task that follows from the order is under way.
type Order struct {
	Verb   string // of zester.api.sync
	By     string // the user, from the subject
	Read   bool   // read the branch
	Change Change // nil: the record stays as it is

	accepted chan error
	settled  chan struct{}
}

// NewOrder returns an order for the loop.
func NewOrder(verb, by string, read bool, change Change) *Order {
	return &Order{
		Verb:     verb,
		By:       by,
		Read:     read,
		Change:   change,
		accepted: make(chan error, 1),
		settled:  make(chan struct{}),
	}
}

// Accept reports that the change is stored, or with err why it is not. Call it once.
func (o *Order) Accept(err error) { o.accepted <- err }

// Settle reports that the consequences are complete. Call it once, after Accept(nil).
func (o *Order) Settle() { close(o.settled) }

// Pause keeps new commits from the fleet. Peels that are new or change get the revision in force.
func Pause(by string) Change {
	return func(r record.Record, s Seen) (record.Record, error) {
		if p := r.Suspended; p != nil {
			return r, record.Refuse("cannot pause: %s has done so at %s", p.By, p.Time.UTC().Format(time.RFC3339))
		}
		r.Suspended = &record.Approval{By: by, Time: s.Now}
		return r, nil
	}
}

// Resume lets new commits go out again, beginning with the newest. since is when the pause began; zero: any.
func Resume(since time.Time) Change {
	return func(r record.Record, _ Seen) (record.Record, error) {
		p := r.Suspended
		if p == nil {
			return r, record.Refuse("cannot resume: nothing is paused")
		}
		if err := checkSince("resume", "pause", since, p.By, p.Time); err != nil {
			return r, err
		}
		r.Suspended = nil
		return r, nil
	}
}

// checkSince returns a *[record.Refusal] if an order would end another pause or pin than the one that the person saw.
func checkSince(verb, noun string, since time.Time, by string, began time.Time) error {
	if since.IsZero() || since.Equal(began) {
		return nil
	}
	return record.Refuse("cannot %s: the order is about the %s of %s, and %s has made another one at %s", verb, noun,
		since.UTC().Format(time.RFC3339), by, began.UTC().Format(time.RFC3339))
}

// Approve lets the blocked revision go out once, or what new facts take, if the hash of its plan begins with the hash
// in the request.
func Approve(q status.ApproveRequest, by string) Change {
	return func(r record.Record, s Seen) (record.Record, error) {
		if len(q.Hash) >= status.MinHash && r.Facts.Waits() && strings.HasPrefix(r.Facts.Hash, q.Hash) {
			r.Facts.Approved = &record.Approval{Commit: r.Commit, Hash: r.Facts.Hash, By: by, Time: s.Now}
			return r, checkRevision(q.Revision, r.Commit)
		}
		if err := r.CheckApproval(q.Hash, s.Head); err != nil {
			return r, err
		}
		if err := checkRevision(q.Revision, r.Blocked.Commit); err != nil {
			return r, err
		}
		given := record.Approval{Commit: r.Blocked.Commit, Hash: r.Blocked.Hash, By: by, Time: s.Now}
		r = r.WithoutApproval().NotedBy(given.Commit, by)
		r.Approved = &given
		return r, nil
	}
}

// checkRevision returns a *[record.Refusal] if an order would let another revision go on than the one that the person
// saw. digits begin the commit of that; empty digits are not checked.
func checkRevision(digits string, goesOn settings.Commit) error {
	switch {
	case digits == "":
		return nil
	case len(digits) < status.MinRevision:
		return record.Refuse("cannot approve for revision %q: give %d digits of the commit or more", digits,
			status.MinRevision)
	case !strings.HasPrefix(string(goesOn), digits):
		return record.Refuse(
			"cannot approve for revision %.64s: the order would let %s go on; zester sync status shows it", digits,
			goesOn.Short(),
		)
	}
	return nil
}

// OpenGate lets the rollout of the revision that the person saw continue after a wave with a manual gate has passed.
func OpenGate(q status.ApproveRequest, by string) Change {
	return func(r record.Record, s Seen) (record.Record, error) {
		if r.Rollout != nil {
			if err := checkRevision(q.Revision, r.Rollout.Commit); err != nil {
				return r, err
			}
		}
		return rollout.OpenGate(r, q.Wave, status.Approval{By: by, Reason: q.Reason, Time: s.Now})
	}
}

// OverrideFreeze lets a revision that a freeze holds through, if its commit begins with the digits in the request.
func OverrideFreeze(q status.ApproveRequest, by string) Change {
	return func(r record.Record, s Seen) (record.Record, error) {
		for _, f := range s.Frozen {
			isLonger := f.Until.IsZero() || f.Until.After(q.Until)
			if !q.Until.IsZero() && isLonger && strings.HasPrefix(string(f.Commit), q.Hash) {
				return r, record.Refuse("cannot override the freeze for %.64q: the order is about one until %s, and "+
					"the freeze has become longer; zester sync status shows it", q.Hash,
					q.Until.UTC().Format(time.RFC3339))
			}
		}
		return rollout.OverrideFreeze(r, s.Frozen, q.Hash, status.Approval{By: by, Reason: q.Reason, Time: s.Now})
	}
}

// Pin gives the whole fleet a stored revision at once, as it was in force before. Waves, the guard and a pause do not
// apply, and a rollout under way ends. The Safety of the revision has to be known.
func Pin(pinned *archive.Revision, by string, untilNewer bool) Change {
	return func(r record.Record, s Seen) (record.Record, error) {
		commit := pinned.ID()
		if r.Commit != commit || r.Rollout != nil {
			r = r.Pinning(commit, *pinned.Safety, s.Now).Noted(status.Attempt{
				Commit: commit, Author: source.Byline(pinned.Commit), Message: pinned.Commit.Subject(),
				Outcome: status.OutcomeProgressing, Master: s.Owner,
			}, s.Now).NotedBy(commit, by)
		}
		head := s.Head
		if head == "" {
			head = r.NewestKnown()
		}
		r.Pinned = &record.Pin{Commit: commit, By: by, Time: s.Now, UntilNewer: untilNewer, Head: head}
		return r.WithoutApproval(), nil
	}
}

// Unpin follows the branch again. since is when the pin began; zero: any.
func Unpin(since time.Time) Change {
	return func(r record.Record, _ Seen) (record.Record, error) {
		p := r.Pinned
		if p == nil {
			return r, record.Refuse("cannot unpin: nothing is pinned")
		}
		if err := checkSince("unpin", "pin", since, p.By, p.Time); err != nil {
			return r, err
		}
		r.Pinned = nil
		return r, nil
	}
}

// Retry tries a revision again that was rolled back: the guard checks it as a new commit, and it begins with the first
// wave.
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
		again.Outcome = status.OutcomeProgressing
		again.Reason = ""
		again.Master = s.Owner
		again.Ended = time.Time{}
		return r.WithoutSkipped(commit).Noted(again, s.Now).NotedBy(commit, by), nil
	}
}
