package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/signature"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// A stop holds a revision back until its plan is approved.
type stop struct{ record.Blocked }

func (s *stop) Error() string { return s.Reason }

// newestCommit returns the newest revision of the branch, empty while the branch has not been read.
func (t *term) newestCommit() settings.Commit {
	if t.head.IsZero() {
		return ""
	}
	return settings.Commit(t.head.String())
}

// endApproval drops an approval, and a revision that waits for one, when the branch has moved on.
func (t *term) endApproval(ctx context.Context) error {
	if head := t.newestCommit(); head == "" || !t.last.IsOutdated(head) {
		return nil
	}
	if err := t.writeRecord(ctx, t.last.WithoutApproval()); err != nil {
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
		return nil, record.Refuse("%v", err)
	}
	switch {
	case q.Wave != "":
		return t.openGate(ctx, req, q)
	case q.Override:
		return t.overrideFreeze(ctx, req, q)
	}
	var given record.Approval
	out, err := t.do(ctx, &ask{do: func(ctx context.Context) error {
		if err := t.planAgain(ctx); err != nil {
			return err
		}
		r := t.last
		if err := r.CheckApproval(q.Hash, t.newestCommit()); err != nil {
			return err
		}
		given = record.Approval{Commit: r.Blocked.Commit, Hash: r.Blocked.Hash, By: asker(req), Time: time.Now()}
		r = r.WithoutApproval().NotedBy(given.Commit, given.By)
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
		return nil, record.Refuse("cannot approve plan %s: the fleet changed at the same time, and the plan is now %s", given.Hash, out.Blocked)
	}
	return done{out, given.Hash + " of " + string(given.Commit)}, nil
}

// guard returns a *stop for a revision that is over the limits or rewrites history, unless its plan is approved. A
// Zester-Allow line of the commit also lets a revision over the limits out.
func (t *term) guard(ctx context.Context, p *plan.Plan, c gitrepo.Commit, who signature.Signer) error {
	commit := settings.Commit(c.Hash.String())
	if t.last.IsSent(commit) {
		return nil // the guard let it out before, and its writes may be half done
	}
	given := t.published.Base(ctx)
	var err error
	if given.Targets, err = t.planInForce(ctx); err != nil {
		return err
	}
	difference, err := plan.Diff(given, p)
	if err != nil {
		return err
	}
	j := record.Judgement{Hash: difference.Hash}
	extent := difference
	if base, ok := t.beforeRollout(ctx); ok {
		if extent, err = plan.Diff(base, p); err != nil {
			return err
		}
	}
	if guard, ok := errors.AsType[*plan.BlockedError](extent.Guard(p.Limits.Stricter(t.last.LimitsOrDefault()))); ok {
		j.Exceeded, j.RemovesAll, j.Allowed = guard.Reason, guard.RemovesAll, guard.AllowedBy(c.Message)
		if j.Allowed && !t.mayAllow(who) {
			j.Allowed = false
			j.Exceeded += fmt.Sprintf("; the line %s does not count, as verify.allow of the master does not name its signer, %s", guard.Trailer(), who.Principal)
		}
	}
	if j.Rewritten, err = t.rewritten(c.Hash); err != nil {
		return err
	}
	if j.Rewritten != "" {
		j.Hash = hashOfRewrite(t.last.Commit, commit, j.Hash)
	}
	t.judged.Store(&judged{commit, j.Hash, changeOf(difference)})
	if b := t.last.Judge(commit, j); b != nil {
		return &stop{*b}
	}
	if j.Rewritten != "" || j.Exceeded != "" {
		t.r.log.Info("guarded revision goes out", "commit", commit, "plan", j.Hash, "approved", t.last.Approves(commit, j.Hash))
	}
	return nil
}

// planInForce returns the plan of the revision in force, nil if there is none, or if this master cannot get or compile it.
func (t *term) planInForce(ctx context.Context) (*plan.Plan, error) {
	if p := t.published.Plan(); p != nil {
		return p, nil
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
