package reconciler

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/signature"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
)

// verify returns the signer of a revision that would go to the fleet, and shows it in the status. Its error refuses the
// revision. A revision that went out before stays in force: the keys of that time accepted it.
func (t *term) verify(head gitrepo.Hash) (who signature.Signer, err error) {
	if !t.repo.Signed() {
		return who, nil
	}
	commit := settings.Commit(head.String())
	c := status.Condition{Type: status.SourceVerified, ObservedRevision: commit}
	who, err = t.repo.Verify(head, time.Now())
	switch e, _ := errors.AsType[*gitrepo.Error](err); {
	case err == nil:
		c.Status, c.Reason, c.Message = true, "Signed", fmt.Sprintf("by %s with the key %s", who.Principal, who.Fingerprint)
	case t.last.IsSent(commit) && e != nil:
		c.Reason, c.Message = string(e.Reason), err.Error()+"; it stays in force, as it was accepted before"
	default:
		return who, err
	}
	t.board.set(c)
	return who, nil
}

// mayAllow reports whether the Zester-Allow line of a commit counts, by its signer. Where commits need not be signed it
// always does.
func (t *term) mayAllow(who signature.Signer) bool {
	names := t.r.o.MayAllow
	return !t.repo.Signed() || len(names) == 0 || slices.Contains(names, who.Principal) || slices.Contains(names, who.Fingerprint)
}

// trustAgain has a head that was refused for its signature judged again when the keys have come to accept it.
func (t *term) trustAgain(head gitrepo.Hash) {
	if head != t.distrusted || head != t.tried {
		return
	}
	if _, err := t.repo.Verify(head, time.Now()); err == nil {
		t.tried, t.distrusted = gitrepo.Hash{}, gitrepo.Hash{}
	}
}

// History says what happens when the branch moves to a commit that does not descend from the last revision that went to
// the fleet.
type History string

// The policies. Whoever can force-push could also commit, so the policy is the master's own configuration and never the
// repo's.
const (
	HistoryForbid  History = "forbid"  // the revision is refused, and cannot be approved
	HistoryApprove History = "approve" // the revision waits for approval; the default
	HistoryAllow   History = "allow"   // the revision is judged as any other
)

// errForbidden: the branch moved to a commit that does not descend from the last revision.
var errForbidden = errors.New("history: forbid in this master's configuration refuses that; move the branch back, or choose a revision with zester sync pin")

// rewritten says how the history of the branch was rewritten, empty if it was not or HistoryAllow permits it. Its error
// refuses the revision.
func (t *term) rewritten(head gitrepo.Hash) (how string, err error) {
	if t.r.o.History == HistoryAllow {
		return "", nil
	}
	for _, last := range t.last.Sent() {
		after, err := t.descends(head, last)
		if err != nil {
			return "", err
		}
		if after {
			continue
		}
		how = fmt.Sprintf("the branch moved from %s to %s, which does not descend from it", last.Short(), settings.Commit(head.String()).Short())
		if t.r.o.History == HistoryForbid {
			return "", fmt.Errorf("%s: %w", how, errForbidden)
		}
		return how, nil
	}
	return "", nil
}

// descends reports whether head descends from a revision that this master may never have fetched.
func (t *term) descends(head gitrepo.Hash, from settings.Commit) (bool, error) {
	before, err := gitrepo.ParseHash(string(from))
	if err != nil {
		return false, err
	}
	after, err := t.repo.IsAncestor(before, head)
	if e, ok := errors.AsType[*gitrepo.Error](err); ok && e.Reason == gitrepo.RevisionNotFound {
		return false, nil // the whole history of head is in the store, and from is not part of it
	}
	return after, err
}

// hashOfRewrite makes the hash of a plan name the two revisions as well: an approval of the same change on a branch that
// was not rewritten, or that was rewritten to another commit, does not approve it.
func hashOfRewrite(from, to settings.Commit, plan string) string {
	sum := sha256.Sum256([]byte(string(from) + " " + string(to) + " " + plan))
	return hex.EncodeToString(sum[:])
}
