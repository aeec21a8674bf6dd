package reconciler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/signature"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// approves reports whether somebody has approved this plan of this revision, and it has not gone out since.
func (r *record) approves(commit settings.Commit, hash string) bool {
	return r.Approved != nil && r.Approved.Commit == commit && r.Approved.Hash == hash
}

// spent returns the record without its approval and without the revision that waited for one: that revision goes out, or
// something else took its place.
func (r record) spent() record {
	r.Blocked, r.Approved = nil, nil
	return r
}

// outrun reports whether the record has an approval, or a revision that waits for one, that is not the newest revision.
func (r *record) outrun(head settings.Commit) bool {
	return r.Blocked != nil && r.Blocked.Commit != head || r.Approved != nil && r.Approved.Commit != head
}

// mayApprove says why the plan that begins with digits cannot be approved, nil if it can. head is the newest revision,
// empty while the branch has not been read.
func (r *record) mayApprove(digits string, head settings.Commit) error {
	cannot := fmt.Sprintf("cannot approve plan %.64s: ", digits)
	switch {
	case len(digits) < status.MinHash:
		return &refusal{fmt.Sprintf("cannot approve plan %q: give %d digits of its hash or more", digits, status.MinHash)}
	case r.Blocked == nil:
		return &refusal{cannot + "no revision waits for approval"}
	case head == "":
		return &refusal{cannot + "this master has not read the branch yet, so the plan may have changed; try again after zester sync now"}
	case r.Blocked.Commit != head:
		return &refusal{cannot + fmt.Sprintf("the branch has moved from %s to %s", r.Blocked.Commit.Short(), head.Short())}
	case !strings.HasPrefix(r.Blocked.Hash, digits):
		return &refusal{cannot + fmt.Sprintf("the plan of %s that waits is now %s", head.Short(), r.Blocked.Hash)}
	}
	return nil
}

// A stop holds a revision back until its plan is approved.
type stop struct {
	hash   string // of the plan
	reason string
	kind   string // reason of the condition; empty: TooManyChanges
}

func (s *stop) Error() string { return s.reason }

// A judgement is what was found about a revision that is to go to the fleet.
type judgement struct {
	hash      string             // of its plan
	guard     *plan.BlockedError // nil if the guard has nothing against it
	rewritten string             // how the history of the branch was rewritten, empty if it was not
	allowed   bool               // its commit says that a large change is meant, and may say so
}

// decide returns nil if a revision may go out, else the *stop that holds it back. A revision that waited for approval keeps
// waiting when only the fleet has changed, even if it changes less now: nobody has seen the new plan.
func (r *record) decide(commit settings.Commit, j judgement) error {
	waited := r.Blocked != nil && r.Blocked.Commit == commit
	switch {
	case r.approves(commit, j.hash):
		return nil
	case j.rewritten != "" && j.guard != nil:
		return &stop{j.hash, j.rewritten + "; " + j.guard.Reason, string(status.HistoryRewritten)}
	case j.rewritten != "":
		return &stop{j.hash, j.rewritten, string(status.HistoryRewritten)}
	case j.guard == nil && waited:
		return &stop{j.hash, r.Blocked.Reason, r.Blocked.Kind}
	case j.guard == nil, j.allowed && !waited && !j.guard.Nothing:
		return nil
	}
	return &stop{hash: j.hash, reason: j.guard.Reason}
}

// newestCommit is the newest revision of the branch, empty while the branch has not been read.
func (t *term) newestCommit() settings.Commit {
	if t.head.IsZero() {
		return ""
	}
	return settings.Commit(t.head.String())
}

// endApproval drops an approval, and a revision that waits for one, when the branch has moved on.
func (t *term) endApproval(ctx context.Context) error {
	if head := t.newestCommit(); head == "" || !t.last.outrun(head) {
		return nil
	}
	if err := t.writeRecord(ctx, t.last.spent()); err != nil {
		return err
	}
	t.board.unblock()
	return nil
}

// planAgain makes the plan of a revision that waits for approval again when the fleet or its settings have changed, so
// that the hash shown is the hash of what would go out.
func (t *term) planAgain(ctx context.Context) error {
	b := t.last.Blocked
	if b == nil || b.Commit != t.newestCommit() || t.last.Pinned != nil || t.planned == t.plannedFor() {
		return nil
	}
	if err := t.advance(ctx, t.head); err != nil {
		return err
	}
	t.planned = t.plannedFor()
	return nil
}

// A planBase is what the hash of a plan depends on besides the revision.
type planBase struct {
	fleet      uint64 // how often the fleet has changed in this term
	generation uint64 // of the newest document
}

func (t *term) plannedFor() planBase { return planBase{t.fleetMoves, t.last.Generation} }

// An approved is the answer of sync.approve, with what the audit log says of it.
type approved struct {
	status status.Sync
	about  string
}

// approve lets the revision that waits go out, once, if its plan is still the one that was looked at.
func (t *term) approve(ctx context.Context, req micro.Request) (any, error) {
	var q status.ApproveRequest
	if err := canon.Unmarshal(req.Data(), &q); err != nil {
		return nil, &refusal{err.Error()}
	}
	var given approval
	out, err := t.do(ctx, &ask{do: func(ctx context.Context) error {
		if err := t.planAgain(ctx); err != nil {
			return err
		}
		r := t.last
		if err := r.mayApprove(q.Hash, t.newestCommit()); err != nil {
			return err
		}
		given = approval{Commit: r.Blocked.Commit, Hash: r.Blocked.Hash, By: asker(req), Time: time.Now()}
		r = r.spent().by(given.Commit, given.By)
		r.Approved = &given
		if err := t.writeRecord(ctx, r); err != nil {
			return err
		}
		t.tried = gitrepo.Hash{}
		t.board.unblock()
		t.r.log.Info("plan approved", "commit", given.Commit, "plan", given.Hash, "by", given.By)
		return nil
	}})
	if err != nil {
		return nil, err
	}
	if out.Blocked != "" {
		return nil, &refusal{fmt.Sprintf("cannot approve plan %s: the fleet changed at the same time, and the plan is now %s", given.Hash, out.Blocked)}
	}
	return approved{out, given.Hash + " of " + string(given.Commit)}, nil
}

// guard refuses a revision that changes more than is likely to be meant, or that rewrites history, unless somebody has
// approved just this plan or the commit says that it is meant.
func (t *term) guard(ctx context.Context, p *plan.Plan, c gitrepo.Commit, who signature.Signer) error {
	commit := settings.Commit(c.Hash.String())
	if t.last.letThrough(commit) {
		return nil // it was let through before, and its writes may be half done
	}
	difference, err := plan.Diff(t.base(ctx), p)
	if err != nil {
		return err
	}
	j := judgement{hash: difference.Hash}
	extent := difference
	if base, ok := t.beforeRollout(ctx); ok {
		if extent, err = plan.Diff(base, p); err != nil {
			return err
		}
	}
	if guard, ok := errors.AsType[*plan.BlockedError](extent.Guard(p.Limits.Stricter(t.last.limits()))); ok {
		j.guard, j.allowed = guard, guard.AllowedBy(c.Message)
		if j.allowed && !t.mayAllow(who) {
			j.allowed = false
			guard.Reason += fmt.Sprintf("; the line %s does not count, as verify.allow of the master does not name its signer, %s", guard.Trailer(), who.Principal)
		}
	}
	if j.rewritten, err = t.rewritten(c.Hash); err != nil {
		return err
	}
	if j.rewritten != "" {
		j.hash = hashOfRewrite(t.last.Commit, commit, j.hash)
	}
	if err := t.last.decide(commit, j); err != nil {
		return err
	}
	if t.last.Approved != nil || j.guard != nil {
		t.r.log.Info("revision is let through the guard", "commit", commit, "plan", j.hash, "approved", t.last.Approved)
	}
	return nil
}

// beforeRollout returns what peels had before the rollout under way; ok is false if there is none, or if its revisions
// cannot be had. The guard compares with that: to take back what only the first wave has is no loss for the fleet.
func (t *term) beforeRollout(ctx context.Context) (base plan.Base, ok bool) {
	if t.last.Rollout == nil {
		return base, false
	}
	if ready, err := t.compile(ctx); err != nil || !ready {
		return base, false
	}
	return t.rolling.base.Base(), true
}
