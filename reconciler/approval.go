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

// approves reports whether this plan of this revision is approved and has not gone out yet.
func (r *record) approves(commit settings.Commit, hash string) bool {
	return r.Approved != nil && r.Approved.Commit == commit && r.Approved.Hash == hash
}

// spent returns the record without the approval and without the revision that waited for it. Call it when that revision
// goes out or another one replaces it.
func (r record) spent() record {
	r.Blocked, r.Approved = nil, nil
	return r
}

// outrun reports whether the branch has moved past the revision that is approved or waits for approval.
func (r *record) outrun(head settings.Commit) bool {
	return r.Blocked != nil && r.Blocked.Commit != head || r.Approved != nil && r.Approved.Commit != head
}

// mayApprove returns a *refusal if the plan whose hash begins with digits cannot be approved. head is the newest
// revision, empty while the branch has not been read.
func (r *record) mayApprove(digits string, head settings.Commit) error {
	cannot := fmt.Sprintf("cannot approve plan %.64s: ", digits)
	switch {
	case len(digits) < status.MinHash:
		return &refusal{fmt.Sprintf("cannot approve plan %q: give %d digits of its hash or more", digits, status.MinHash)}
	case r.Blocked == nil:
		return &refusal{cannot + "no revision waits for approval"}
	case head == "":
		return &refusal{cannot + "this master has not read the branch yet, so the plan may have changed: run zester sync now, then try again"}
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

// A judgement holds what the guard found about a revision that would go to the fleet.
type judgement struct {
	hash      string             // of its plan
	guard     *plan.BlockedError // nil if the change is within the limits
	rewritten string             // how the history of the branch was rewritten, empty if it was not
	allowed   bool               // the Zester-Allow line of its commit names all limits and counts
}

// decide returns nil if a revision may go out, else the *stop that holds it back. A revision that waits for approval keeps
// waiting after the fleet has changed, even if its new plan is within the limits: nobody has seen that plan.
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
	case j.guard == nil, j.allowed && !waited && !j.guard.RemovesAll:
		return nil
	}
	return &stop{hash: j.hash, reason: j.guard.Reason}
}

// newestCommit returns the newest revision of the branch, empty while the branch has not been read.
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

// planAgain makes a new plan for the revision that waits for approval when the fleet or its settings have changed, so that
// the hash that status shows is the hash of what would go out.
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

// A planBase identifies what the hash of a plan depends on besides the revision.
type planBase struct {
	fleetMoves uint64 // number of changes of the fleet in this term
	generation uint64 // of the newest document
}

func (t *term) plannedFor() planBase { return planBase{t.fleetMoves, t.last.Generation} }

// A done is the answer of an order and the subject of its audit entry, [Order.About].
type done struct {
	status status.Sync
	about  string
}

// approve lets the revision that waits go out once, if the hash in the request is still the hash of its plan.
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
	return done{out, given.Hash + " of " + string(given.Commit)}, nil
}

// guard returns a *stop for a revision that is over the limits or rewrites history, unless its plan is approved. A
// Zester-Allow line of the commit also lets a revision over the limits out.
func (t *term) guard(ctx context.Context, p *plan.Plan, c gitrepo.Commit, who signature.Signer) error {
	commit := settings.Commit(c.Hash.String())
	if t.last.letThrough(commit) {
		return nil // the guard let it out before, and its writes may be half done
	}
	given := t.base(ctx)
	var err error
	if given.Targets, err = t.planInForce(ctx); err != nil {
		return err
	}
	difference, err := plan.Diff(given, p)
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
	if j.rewritten != "" || j.guard != nil {
		t.r.log.Info("guarded revision goes out", "commit", commit, "plan", j.hash, "approved", t.last.approves(commit, j.hash))
	}
	return nil
}

// planInForce returns the plan of the revision in force, nil if there is none, or if this master cannot get or compile it.
func (t *term) planInForce(ctx context.Context) (*plan.Plan, error) {
	if t.settled != nil {
		return t.settled, nil
	}
	if err := t.recall(ctx); err != nil || t.good == nil {
		return nil, err
	}
	p, err := t.compiler.Retarget(t.good.Tree, t.fleet.Index())
	if _, bad := errors.AsType[*plan.Error](err); bad {
		return nil, nil
	}
	return p, err
}

// beforeRollout returns what peels had before the rollout under way; ok is false if there is no rollout or its revisions
// cannot be compiled. The guard compares with it, because the fleet loses nothing by taking back what only some waves have.
func (t *term) beforeRollout(ctx context.Context) (base plan.Base, ok bool) {
	if t.last.Rollout == nil {
		return base, false
	}
	if ready, err := t.compile(ctx); err != nil || !ready {
		return base, false
	}
	return t.rolling.base.Base(), true
}
