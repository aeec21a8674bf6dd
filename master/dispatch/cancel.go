package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// Cancel records that user wants a job to stop and tells its peels and its owner, whichever master that is. The
// record that is returned is the one with the wish: the job ends by itself, soon after. The error is [job.ErrNotFound],
// [ErrEnded] or [ErrCanceled] where there is nothing to cancel.
func (d *Dispatcher) Cancel(ctx context.Context, jid wire.JID, user string) (*job.Job, error) {
	j, err := d.markCanceled(ctx, jid, user)
	if err == nil {
		d.log.Info("job canceled", "jid", jid, "user", user, "function", j.Function, "targets", j.TargetCount)
	}
	if err == nil || errors.Is(err, ErrCanceled) {
		if e := d.o.Store.Record(ctx, wire.CancelOf(jid), "cancel", j); e != nil && err == nil {
			d.log.Warn("cancel is recorded, but was not sent", "jid", jid, "err", e)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot cancel job %s: %w", jid, err)
	}
	return j, nil
}

// markCanceled writes the wish into the record. The job comes with [ErrCanceled], too.
func (d *Dispatcher) markCanceled(ctx context.Context, jid wire.JID, user string) (*job.Job, error) {
	for {
		j, err := d.o.Store.Get(ctx, jid)
		switch {
		case err != nil:
			return nil, err
		case j.Status.Final():
			return nil, fmt.Errorf("%w: %s at %s", ErrEnded, j.Status, j.Updated.UTC().Format(time.RFC3339))
		case j.Cancel != nil:
			return j, fmt.Errorf("%w: %s asked for it at %s", ErrCanceled, j.Cancel.By, j.Cancel.Time.UTC().Format(time.RFC3339))
		}
		now := time.Now()
		j.Cancel, j.Updated = &job.Cancel{By: user, Time: now}, now
		if err = d.o.Store.Update(ctx, j); !errors.Is(err, job.ErrConflict) {
			return j, err
		}
	}
}
