package reconciler

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
)

// verify shows who has signed a revision that is to go to the fleet. Its error refuses the revision, but one that is with
// the fleet already stays there: it was accepted by the keys of its time.
func (t *term) verify(head gitrepo.Hash) error {
	if !t.repo.Signed() {
		return nil
	}
	commit := settings.Commit(head.String())
	c := status.Condition{Type: status.SourceVerified, ObservedRevision: commit}
	who, err := t.repo.Verify(head, time.Now())
	switch e, _ := errors.AsType[*gitrepo.Error](err); {
	case err == nil:
		c.Status, c.Reason, c.Message = true, "Signed", fmt.Sprintf("by %s with the key %s", who.Principal, who.Fingerprint)
	case t.last.letThrough(commit) && e != nil:
		c.Reason, c.Message = string(e.Reason), err.Error()+"; it stays in force, as it was accepted before"
	default:
		return err
	}
	t.board.set(c)
	return nil
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

// errRewritten is of a signed revision that somebody has to approve because it does not come after the one in force.
var errRewritten = errors.New("history was rewritten")

// A rewrite is a *plan.BlockedError for the sake of errRewritten.
type rewrite struct{ *plan.BlockedError }

func (r rewrite) Is(err error) bool { return err == errRewritten }

func (r rewrite) Unwrap() error { return r.BlockedError }

// guardHistory stops a branch that goes elsewhere where commits have to be signed: whoever can move it but cannot sign
// could bring back any revision that was signed once.
func (t *term) guardHistory(head gitrepo.Hash, d *plan.Difference) error {
	if !t.repo.Signed() || t.last.Commit == "" {
		return nil
	}
	last, err := gitrepo.ParseHash(string(t.last.Commit))
	if err != nil {
		return err
	}
	after, err := t.repo.IsAncestor(last, head)
	if e, ok := errors.AsType[*gitrepo.Error](err); ok && e.Reason == gitrepo.RevisionNotFound {
		err = nil // the whole history of head is at hand, and it is not in there
	}
	if err != nil || after {
		return err
	}
	sum := sha256.Sum256([]byte(last.String() + " " + head.String() + " " + d.Hash))
	return rewrite{&plan.BlockedError{
		Hash: hex.EncodeToString(sum[:]),
		Reason: fmt.Sprintf("the branch moved from %s to %s, which does not come after it; where commits have to be signed, going back needs approval",
			t.last.Commit.Short(), settings.Commit(head.String()).Short()),
	}}
}
