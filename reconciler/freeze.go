package reconciler

import (
	"context"
	"slices"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/rollout"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/top"
)

// holdOf returns the freeze that holds a revision before it goes to any peel, nil if none does or a person has let the
// revision through.
func (t *term) holdOf(freezes []top.Freeze, p *plan.Plan, commit settings.Commit) *status.Freeze {
	if t.last.IsSent(commit) || t.last.Approved != nil && t.last.Approved.Commit == commit && t.last.Approved.Override != "" {
		return nil
	}
	var peels []target.PeelID
	given := t.published.Heads()
	for id, e := range p.Peels {
		if given.Of(id).Digest != e.Digest {
			peels = append(peels, id)
		}
	}
	hold, held := rollout.Frozen(freezes, peels, t.fleet.Index(), time.Now())
	if !held {
		return nil
	}
	return &status.Freeze{Commit: commit, Reason: cut(hold.Reason), Until: hold.Until}
}

// freeze records and shows that a freeze holds a revision.
func (t *term) freeze(ctx context.Context, c gitrepo.Commit) error {
	if r := t.note(t.last, c, status.OutcomeBlocked, t.frozen.Reason); !slices.EqualFunc(r.History, t.last.History, status.Attempt.Equal) {
		if err := t.writeRecord(ctx, r); err != nil {
			return err
		}
		t.r.log.Warn("a freeze holds the revision", "commit", t.frozen.Commit, "reason", t.frozen.Reason)
	}
	t.tried = c.Hash
	t.board.freeze(t.frozen)
	return nil
}

// thaw has the revision judged again that a freeze held.
func (t *term) thaw() {
	t.frozen, t.tried = nil, gitrepo.Hash{}
	t.board.freeze(nil)
}

// decided answers an order about the rollout or a freeze: the record is changed by a pure function.
func (t *term) decided(ctx context.Context, req micro.Request, about string, change func(record.Record, string) (record.Record, error)) (any, error) {
	out, err := t.do(ctx, &ask{do: func(ctx context.Context) error {
		r, err := change(t.last, asker(req))
		if err != nil {
			return err
		}
		if err := t.writeRecord(ctx, r); err != nil {
			return err
		}
		if t.frozen != nil {
			t.thaw()
		}
		t.r.log.Info("approved", "what", about, "by", asker(req))
		return nil
	}})
	if err != nil {
		return nil, err
	}
	return done{out, about}, nil
}

// openGate lets the rollout go on after its wave.
func (t *term) openGate(ctx context.Context, req micro.Request, q status.ApproveRequest) (any, error) {
	return t.decided(ctx, req, "gate "+q.Wave+reasonOf(q), func(r record.Record, by string) (record.Record, error) {
		return rollout.OpenGate(r, q.Wave, by, q.Reason, time.Now())
	})
}

// overrideFreeze lets a revision through the freeze that holds it.
func (t *term) overrideFreeze(ctx context.Context, req micro.Request, q status.ApproveRequest) (any, error) {
	return t.decided(ctx, req, "freeze "+q.Hash+reasonOf(q), func(r record.Record, by string) (record.Record, error) {
		var frozen settings.Commit
		if f := t.board.read().Frozen; f != nil {
			frozen = f.Commit
		}
		return rollout.OverrideFreeze(r, frozen, q.Hash, by, q.Reason, time.Now())
	})
}

// reasonOf returns the reason of a person for the audit log.
func reasonOf(q status.ApproveRequest) string {
	if q.Reason == "" {
		return ""
	}
	return ": " + q.Reason
}
