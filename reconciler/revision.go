package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/metrics"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
)

// refuse shows what is wrong with a revision and remembers that it was tried. An error that says nothing about the
// revision is returned.
func (t *term) refuse(ctx context.Context, head gitrepo.Hash, err error) error {
	c := status.Condition{Status: true, Message: err.Error(), ObservedRevision: settings.Commit(head.String())}
	var messages []string
	if bad, ok := errors.AsType[*plan.Error](err); ok {
		c.Type, c.Reason, c.Where = status.CompileFailed, string(bad.Reason), bad.Errors[0].Pos.String()
		for _, e := range bad.Errors {
			messages = append(messages, e.Error())
		}
	} else if stop, ok := errors.AsType[*stop](err); ok {
		return t.block(ctx, head, stop)
	} else if errors.Is(err, errForbidden) {
		c.Type, c.Reason = status.GuardBlocked, "HistoryForbidden"
		messages = []string{err.Error()}
	} else if e, ok := errors.AsType[*gitrepo.Error](err); ok && e.Reason.Stalled() {
		c.Type, c.Reason = status.CompileFailed, string(e.Reason)
		messages = []string{err.Error()}
	} else if ok && e.Reason == gitrepo.Untrusted {
		c.Type, c.Status, c.Reason = status.SourceVerified, false, string(e.Reason)
		messages = []string{err.Error()}
		t.distrusted = head
	} else {
		return err
	}
	if r := t.note(t.last, t.commitInfo(head), status.OutcomeRejected, append(messages, err.Error())[0]); !slices.EqualFunc(r.History, t.last.History, status.Attempt.Equal) {
		if err := t.writeRecord(ctx, r); err != nil {
			return err
		}
		t.r.metrics.Failed(c.Reason) // once, however often the fleet has it judged again
	}
	t.tried = head
	t.board.refuse(c, messages)
	t.r.log.Error("revision refused, the last good one stays in force", "commit", head, "reason", c.Reason, "err", err)
	return nil
}

// block records and shows that a revision waits for approval.
func (t *term) block(ctx context.Context, head gitrepo.Hash, s *stop) error {
	next := s.Blocked
	if before := t.last.Blocked; before == nil || *before != next {
		r := t.note(t.last.WithoutApproval(), t.commitInfo(head), status.OutcomeBlocked, s.Reason)
		r.Blocked = &next
		if err := t.writeRecord(ctx, r); err != nil {
			return err
		}
		t.r.metrics.Failed(cmp.Or(s.Kind, "TooManyChanges"))
		t.r.log.Error("revision waits for approval", "commit", head, "plan", s.Hash, "reason", s.Reason)
	}
	t.tried = head
	t.board.block(&next)
	return nil
}

func isConflict(err error) bool {
	_, ok := errors.AsType[*settings.ConflictError](err)
	return ok || errors.Is(err, record.ErrConflict)
}

// advance compiles a commit and makes it the one in force if it is good.
func (t *term) advance(ctx context.Context, head gitrepo.Hash) error {
	who, err := t.verify(head)
	if err != nil {
		return t.refuse(ctx, head, err)
	}
	snapshot, err := t.repo.Snapshot(head)
	if err != nil {
		return t.refuse(ctx, head, err)
	}
	compile := t.compiler.Compile
	if t.last.IsSent(settings.Commit(head.String())) {
		compile = t.compiler.Retarget // it was let through, and only the fleet has changed
	}
	began := time.Now()
	p, err := t.sealable(compile(snapshot.Tree, t.fleet.Index()))
	t.took(metrics.Compile, began)
	if err != nil {
		return t.refuse(ctx, head, err)
	}
	if err := t.guard(ctx, p, snapshot.Commit, who); err != nil {
		return t.refuse(ctx, head, err)
	}
	if err := t.noteAncestry(head); err != nil {
		return err
	}
	this := &archive.Revision{Commit: snapshot.Commit, Tree: snapshot.Tree}
	if t.last.Commit != "" && string(t.last.Commit) != head.String() {
		inForce, err := t.planInForce(ctx)
		if err != nil {
			return err
		}
		safety := t.safety(inForce, p)
		if t.frozen = t.holdOf(safety.Freezes, p, settings.Commit(head.String())); t.frozen != nil {
			return t.freeze(ctx, snapshot.Commit)
		}
		if len(safety.Waves) > 0 && t.good != nil {
			return t.begin(ctx, this, safety)
		}
	}
	if err := t.enforce(ctx, p, this); err != nil {
		return err
	}
	t.tried = head
	return nil
}

// enforce gives a revision to the whole fleet.
func (t *term) enforce(ctx context.Context, p *plan.Plan, s *archive.Revision) error {
	began := time.Now()
	writes, err := t.publish(ctx, p, s)
	if writes > 0 {
		t.took(metrics.Publish, began)
	}
	if string(t.last.Commit) != s.Commit.Hash.String() {
		return err
	}
	t.endRolling()
	t.good, t.stale = s, err != nil // from here on: what is written in part is finished, never undone
	if err != nil {
		return err
	}
	t.board.good(s.Commit, t.last, writes, p)
	t.archive.Request(s, t.last.InUse())
	t.r.log.Info("revision in force", "commit", s.Commit.Hash, "author", s.Commit.Author, "writes", writes)
	return nil
}

// noteAncestry shows when the branch has moved to a commit that does not come after the last good one.
func (t *term) noteAncestry(head gitrepo.Hash) error {
	if t.last.Commit == "" || string(t.last.Commit) == head.String() {
		return nil
	}
	after, err := t.descends(head, t.last.Commit)
	if err != nil {
		return err
	}
	if after {
		t.board.clear(status.HistoryRewritten)
		return nil
	}
	reason := "ForcePushed"
	if before, err := gitrepo.ParseHash(string(t.last.Commit)); err == nil {
		if back, err := t.repo.IsAncestor(head, before); err == nil && back {
			reason = "Rewound"
		}
	}
	t.board.set(status.Condition{
		Type: status.HistoryRewritten, Status: true, Reason: reason,
		Message: fmt.Sprintf("the branch moved from %s to %s, which does not come after it", t.last.Commit.Short(), settings.Commit(head.String()).Short()),
	})
	t.r.log.Warn("history of the branch was rewritten", "reason", reason, "from", t.last.Commit, "commit", head)
	return nil
}

// retarget brings the revision in force to peels that are new or whose facts have changed since it was published.
func (t *term) retarget(ctx context.Context) error {
	if err := t.recall(ctx); err != nil || t.good == nil {
		return err
	}
	p, err := t.sealable(t.compiler.Retarget(t.good.Tree, t.fleet.Index()))
	if err != nil {
		return fmt.Errorf("cannot bring the revision in force to all peels: %w", err)
	}
	if _, err := t.publish(ctx, p, t.good); err != nil {
		return err
	}
	t.stale = false
	t.board.serves(t.good.Commit, t.last)
	t.board.behind(p, t.last.Commit)
	return nil
}

// recall opens the revision that an earlier term left in force, if it can be had and is not open.
func (t *term) recall(ctx context.Context) error {
	if t.good != nil || t.last.Commit == "" {
		return nil
	}
	s, err := t.sourceOf(ctx, t.last.Commit)
	if err != nil || s == nil {
		return err
	}
	t.good = s
	t.board.serves(s.Commit, t.last)
	t.archive.Request(s, t.last.InUse())
	return nil
}

// sourceOf opens a revision: from this master's store of the repo, or from what is stored on the bus. It returns nil if
// neither has it.
func (t *term) sourceOf(ctx context.Context, commit settings.Commit) (*archive.Revision, error) {
	hash, err := gitrepo.ParseHash(string(commit))
	if err != nil {
		return nil, err
	}
	snapshot, unread := t.repo.Snapshot(hash)
	if unread == nil {
		return &archive.Revision{Commit: snapshot.Commit, Tree: snapshot.Tree}, nil
	}
	s, err := t.archive.Load(ctx, commit)
	if s != nil {
		t.archived[commit] = s.Commit
		return s, nil
	}
	if e, ok := errors.AsType[*gitrepo.Error](unread); ok && e.Reason == gitrepo.RevisionNotFound {
		unread = nil
	}
	return nil, errors.Join(err, unread)
}
