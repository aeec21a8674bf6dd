package reconciler

import (
	"context"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/publish"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/top"
)

// inForce returns the record for a revision that is given to the whole fleet.
func (t *term) inForce(c gitrepo.Commit, safety top.Safety, done bool) record.Record {
	r, commit := t.last, settings.Commit(c.Hash.String())
	if r.Commit != commit {
		r = t.note(r, c, status.OutcomeProgressing, "")
	}
	if a := r.LastAttempt(); done && a != nil && a.Outcome == status.OutcomeProgressing {
		r = t.note(r, c, status.OutcomeApplied, "")
	}
	return r.Enforced(commit, safety, done, time.Now())
}

// writeRecord replaces the record unless another master has.
func (t *term) writeRecord(ctx context.Context, r record.Record) (err error) {
	if r, err = t.records.Write(ctx, r); err != nil {
		return err
	}
	t.last = r
	t.board.remember(r.History)
	return nil
}

// publish gives the revision to the whole fleet and returns how many documents that took.
func (t *term) publish(ctx context.Context, p *plan.Plan, s *archive.Revision) (int, error) {
	t.progress.Want(s.ID(), p, t.published.Heads())
	if err := t.published.WriteGroups(ctx, p.Groups); err != nil {
		return 0, err
	}
	writes, err := t.deliver(ctx, t.inForce(s.Commit, p.Safety(), false), publish.Portion{Commit: s.ID(), Peels: p.Peels, Plan: p})
	if err != nil || t.last.Commit == s.ID() && t.last.Done && t.last.Rollout == nil {
		return writes, err
	}
	return writes, t.writeRecord(ctx, t.inForce(s.Commit, p.Safety(), true))
}

// deliver writes the documents of portions that the bucket lacks, and returns how many. Before the first it writes the
// record r, with the generation that they get; without any it writes nothing.
func (t *term) deliver(ctx context.Context, r record.Record, portions ...publish.Portion) (int, error) {
	due, err := t.published.Due(ctx, portions...)
	if err != nil {
		return 0, err
	}
	if due.Len() > 0 {
		r.Generation = settings.NextGeneration(t.last.Generation, time.Now())
		if err := t.writeRecord(ctx, r); err != nil {
			return 0, err
		}
	}
	return t.published.Write(ctx, due, t.last)
}
