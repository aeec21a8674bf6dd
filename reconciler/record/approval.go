package record

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// A Refusal is the error of an order that cannot be carried out; the same order fails again. Reason is a sentence for
// people.
type Refusal struct{ Reason string }

func (r *Refusal) Error() string { return r.Reason }

// Code returns the code of a reply with the refusal: it contradicts the present state.
func (r *Refusal) Code() string { return "409" }

// Refuse returns a *[Refusal] with a formatted reason.
func Refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// Approves reports whether this plan of this revision is approved and has not gone out yet.
func (r *Record) Approves(commit settings.Commit, hash string) bool {
	return r.Approved != nil && r.Approved.Commit == commit && r.Approved.Hash == hash
}

// WithoutApproval returns the record without the approval and without the revision that waited for it. Call it when
// that revision goes out or another one replaces it.
func (r Record) WithoutApproval() Record {
	r.Blocked, r.Approved = nil, nil
	return r
}

// IsOutdated reports whether head is another revision than the one that is approved or waits for approval.
func (r *Record) IsOutdated(head settings.Commit) bool {
	return r.Blocked != nil && r.Blocked.Commit != head || r.Approved != nil && r.Approved.Commit != head
}

// CheckApproval returns a *[Refusal] if the plan whose hash begins with digits cannot be approved. head is the newest
// revision, empty while the branch has not been read.
func (r *Record) CheckApproval(digits string, head settings.Commit) error {
	const cannot = "cannot approve plan %.64s: "
	switch {
	case len(digits) < status.MinHash:
		return Refuse("cannot approve plan %q: give %d digits of its hash or more", digits, status.MinHash)
	case r.Blocked == nil:
		return Refuse(cannot+"no revision waits for approval", digits)
	case head == "":
		return Refuse(
			cannot+
				"this master has not read the branch yet, so the plan may have changed: run zester sync now, "+
				"then try again",
			digits,
		)
	case r.Blocked.Commit != head:
		return Refuse(cannot+"the branch has moved from %s to %s", digits, r.Blocked.Commit.Short(), head.Short())
	case !strings.HasPrefix(r.Blocked.Hash, digits):
		return Refuse(cannot+"the plan of %s that waits is now %s", digits, head.Short(), r.Blocked.Hash)
	}
	return nil
}

// A Judgement holds what the guard found about a revision that would go to the fleet.
type Judgement struct {
	Hash       string // of its plan, in hex
	Exceeded   string // which limits the change exceeds, for people; empty if none
	Weakened   string // which rules in force the revision weakens, for people; empty if none
	Facts      string // why facts wait whose change the revision would bring along, for people; empty if none do
	Unreadable string // why waves cannot go back to the revision in force, for people; empty if they can
	RemovesAll bool   // no peel would keep a setting
	Rewritten  string // description of how the history of the branch was rewritten; empty if it was not
	Allowed    bool   // the Zester-Allow line of the commit names all limits of Exceeded and counts
}

// Judge returns nil if a revision may go out, else the entry for [Record].Blocked. A revision that waits for approval
// keeps waiting after the fleet has changed, even if its new plan is within the limits: no person has seen that plan.
// If another revision is in force or under way than when it began to wait, it is judged as a new one. One that waited
// only for a change of facts goes on when that no longer waits.
func (r *Record) Judge(commit settings.Commit, j Judgement) *Blocked {
	if r.Approves(commit, j.Hash) {
		return nil
	}
	blocked := &Blocked{Commit: commit, Hash: j.Hash, Sent: r.sentText()}
	waits := r.Blocked != nil && r.Blocked.Commit == commit && r.Blocked.Sent == blocked.Sent
	var reasons []string
	add := func(kind, reason string) {
		if reason != "" {
			reasons, blocked.Kind = append(reasons, reason), cmp.Or(blocked.Kind, kind)
		}
	}
	if r.IsAdopted() {
		add("Adopted", "it is the first revision after the fleet was adopted")
	}
	add(string(status.HistoryRewritten), j.Rewritten)
	add("SafetyWeakened", j.Weakened)
	add("BaseUnreadable", j.Unreadable)
	add(status.FactsChanged, j.Facts)
	if len(reasons) > 0 || !j.Allowed || waits || j.RemovesAll {
		add("TooManyChanges", j.Exceeded)
	}
	if len(reasons) == 0 && waits && r.Blocked.Kind != status.FactsChanged {
		add(r.Blocked.Kind, r.Blocked.Reason)
	}
	if len(reasons) == 0 {
		return nil
	}
	blocked.Reason = Cut(strings.Join(reasons, "; "), status.MaxMessage)
	return blocked
}

// sentText names the revisions of Sent.
func (r *Record) sentText() string {
	text := string(r.Commit)
	if r.Rollout != nil {
		text += " " + string(r.Rollout.Commit)
	}
	return text
}
