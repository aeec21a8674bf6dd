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
// record that is returned is the one with the wish: the job ends by itself, soon after. Of a job that has ended without all
// its returns, whose peels may still be at work, only these are told; its record stays as it is. The error is
// [job.ErrNotFound], [ErrEnded] or [ErrCanceled] where there is nothing to cancel.
func (d *Dispatcher) Cancel(ctx context.Context, jid wire.JID, user string) (*job.Job, error) {
	return d.CancelBecause(ctx, jid, user, "")
}

// CancelBecause is Cancel with a reason for the record.
func (d *Dispatcher) CancelBecause(ctx context.Context, jid wire.JID, user, reason string) (*job.Job, error) {
	j, err := d.markCanceled(ctx, jid, job.Cancel{By: user, Reason: reason})
	if errors.Is(err, job.ErrNotFound) {
		err = job.ErrNotFound
	}
	if j != nil {
		e := d.o.Store.RecordCancel(ctx, jid)
		switch {
		case e != nil && err == nil && j.Status.Final():
			err = e
		case e != nil && err == nil:
			d.log.Warn("cancel is recorded, but was not sent", "jid", jid, "err", e)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot cancel job %s: %w", jid, err)
	}
	what := "job canceled"
	if j.Status.Final() {
		what = "peels of an ended job told to stop"
	}
	d.log.Info(what, "jid", jid, "user", user, "function", j.Function, "targets", j.TargetCount)
	return j, nil
}

// markCanceled writes the wish into the record, unless that is final. The job comes with an error, too, if there are peels
// that may not have heard of it the first time.
func (d *Dispatcher) markCanceled(ctx context.Context, jid wire.JID, wish job.Cancel) (*job.Job, error) {
	for {
		j, err := d.o.Store.GetRecord(ctx, jid)
		switch {
		case err != nil:
			return nil, err
		case j.Status.Final() && j.ReturnCount >= j.Published:
			return nil, endedAlready(j)
		case j.Status == job.Canceled:
			return j, endedAlready(j)
		case j.Status.Final():
			return j, nil
		case j.Cancel != nil:
			return j, fmt.Errorf("%w: %s asked for it at %s", ErrCanceled, j.Cancel.By, j.Cancel.Time.UTC().Format(time.RFC3339))
		}
		wish.Time = time.Now()
		j.Cancel, j.Updated = &wish, wish.Time
		switch err = d.o.Store.Update(ctx, j); {
		case err == nil:
			return j, nil
		case !errors.Is(err, job.ErrConflict):
			return nil, err
		}
	}
}

func endedAlready(j *job.Job) error {
	return fmt.Errorf("%w: %s at %s", ErrEnded, j.Status, j.Updated.UTC().Format(time.RFC3339))
}
