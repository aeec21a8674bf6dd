package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// pin gives the whole fleet a stored revision at once: who pins knows it from before, and wants it now. So neither waves
// nor the guard nor a pause hold it up.
func (t *term) pin(ctx context.Context, req micro.Request) (any, error) {
	var q status.PinRequest
	if err := canon.Unmarshal(req.Data(), &q); err != nil {
		return nil, record.Refuse("%v", err)
	}
	commit, err := t.storedRevision(ctx, q.Revision)
	if err != nil {
		return nil, err
	}
	return t.do(ctx, &ask{do: func(ctx context.Context) error {
		s, err := t.archive.Load(ctx, commit)
		if err != nil {
			return err
		}
		if s == nil {
			return record.Refuse("cannot pin %s: it is not stored any more", commit)
		}
		if _, err := t.compiler.Retarget(s.Tree, t.fleet.Index()); err != nil {
			return unusable(commit, err)
		}
		r := t.last
		if r.Commit != commit || r.Rollout != nil {
			r = t.note(r, s.Commit, status.OutcomeProgressing, "").NotedBy(commit, asker(req))
		}
		r.Pinned = &record.Pin{Commit: commit, By: asker(req), Time: time.Now(), UntilNewer: q.UntilNewer, Head: t.newest()}
		r = r.WithoutApproval()
		t.r.log.Info("revision pinned", "commit", commit, "by", r.Pinned.By)
		if err := t.writeRecord(ctx, r); err != nil {
			return err
		}
		t.board.attempted(commit) // also if it is in force, so that nothing more is written: no other revision waits now
		return nil
	}})
}

func unusable(commit settings.Commit, err error) error {
	if bad, ok := errors.AsType[*plan.Error](err); ok {
		return record.Refuse("cannot pin %s: %v", commit.Short(), bad)
	}
	return err
}

// newest is the newest commit of the branch that is known.
func (t *term) newest() settings.Commit {
	if !t.head.IsZero() {
		return settings.Commit(t.head.String())
	}
	return t.last.NewestKnown()
}

// storedRevision finds the one stored revision whose commit begins with some digits.
func (t *term) storedRevision(ctx context.Context, digits string) (settings.Commit, error) {
	if len(digits) < status.MinRevision {
		return "", record.Refuse("cannot pin %q: name %d digits of a commit at least", digits, status.MinRevision)
	}
	found, err := t.archive.Find(ctx, digits)
	if err != nil {
		return "", err
	}
	switch len(found) {
	case 0:
		return "", record.Refuse("cannot pin %.64s: no such revision is stored; zester sync history shows which are", digits)
	case 1:
		return found[0], nil
	}
	return "", record.Refuse("cannot pin %.64s: %d stored revisions begin so", digits, len(found))
}

// unpin follows the branch again.
func (t *term) unpin(ctx context.Context, req micro.Request) (any, error) {
	return t.do(ctx, &ask{branch: true, do: func(ctx context.Context) error {
		if t.last.Pinned == nil {
			return record.Refuse("cannot unpin: nothing is pinned")
		}
		return t.release(ctx, "by", asker(req))
	}})
}

func (t *term) release(ctx context.Context, why ...any) error {
	r := t.last
	r.Pinned = nil
	if err := t.writeRecord(ctx, r); err != nil {
		return err
	}
	t.tried = gitrepo.Hash{}
	t.r.log.Info("pin released", why...)
	return nil
}

// unpinIfNewer ends a pin until newer when there is a commit that comes after the one that is pinned, that was not known
// when it was, and that was not rolled back.
func (t *term) unpinIfNewer(ctx context.Context) error {
	p := t.last.Pinned
	head := settings.Commit(t.head.String())
	if p == nil || !p.UntilNewer || t.head.IsZero() || head == p.Head || head == p.Commit {
		return nil
	}
	if t.last.FindSkipped(head) != nil {
		return nil
	}
	pinned, err := gitrepo.ParseHash(string(p.Commit))
	if err != nil {
		return err
	}
	if after, err := t.repo.IsAncestor(pinned, t.head); err != nil || !after {
		return nil // it belongs to another history
	}
	return t.release(ctx, "commit", head)
}

// hold puts the pinned revision in force.
func (t *term) hold(ctx context.Context, commit settings.Commit) error {
	if t.last.Commit == commit && t.last.Rollout == nil {
		return nil
	}
	s, err := t.sourceOf(ctx, commit)
	if err != nil || s == nil {
		return err
	}
	p, err := t.sealable(t.compiler.Retarget(s.Tree, t.fleet.Index()))
	if err != nil {
		return fmt.Errorf("cannot bring the pinned revision to the fleet: %w", err)
	}
	return t.enforce(ctx, p, s)
}

// pastAttempts answers sync.history.
func (t *term) pastAttempts(ctx context.Context, _ micro.Request) (any, error) {
	all, err := t.archive.List(ctx)
	if err != nil {
		return nil, err
	}
	stored := map[settings.Commit]bool{}
	for _, m := range all {
		stored[m.Commit] = true
	}
	h := status.History{Attempts: t.board.attempts()}
	for i := range h.Attempts {
		h.Attempts[i].Stored = stored[h.Attempts[i].Commit]
	}
	return h, nil
}
