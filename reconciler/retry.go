package reconciler

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// skippedHead returns the condition HeadSkipped. It is true if head, the newest revision of the branch, was rolled back:
// then the revision in force stays, whichever that is after a pin.
func skippedHead(r *record.Record, head settings.Commit) status.Condition {
	c := status.Condition{Type: status.HeadSkipped}
	if r.FindSkipped(head) != nil {
		c.Status, c.Reason, c.ObservedRevision = true, "RolledBack", head
		c.Message = fmt.Sprintf("%s, the newest commit, was rolled back and is not tried again; %s stays in force until a newer commit comes or zester sync retry %[1]s", head.Short(), r.Commit.Short())
	}
	return c
}

// retry has a revision tried again that was rolled back: from its first wave, and past the guard as a new commit.
func (t *term) retry(ctx context.Context, req micro.Request) (any, error) {
	var q status.RetryRequest
	if len(req.Data()) > 0 {
		if err := canon.Unmarshal(req.Data(), &q); err != nil {
			return nil, record.Refuse("%v", err)
		}
	}
	var commit settings.Commit
	out, err := t.do(ctx, &ask{do: func(ctx context.Context) (err error) {
		if commit, err = t.last.CheckRetry(q.Revision, t.newestCommit()); err != nil {
			return err
		}
		r := t.note(t.last.WithoutSkipped(commit), t.commitInfo(t.head), status.OutcomeProgressing, "").NotedBy(commit, asker(req))
		if err := t.writeRecord(ctx, r); err != nil {
			return err
		}
		t.tried = gitrepo.Hash{}
		t.board.retries()
		t.r.log.Info("revision is tried again", "commit", commit, "by", asker(req))
		return nil
	}})
	if err != nil {
		return nil, err
	}
	return done{out, string(commit)}, nil
}
