package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// Cancel records that user wants a job to stop, for a reason that may be empty, and sends the cancel to its peels and
// to its owner, whichever master that is. It returns the record with the cancel: the job ends by itself, soon after. A
// job that has ended without all its returns may still run on peels: these get the cancel, and its record stays as it
// is. The error is [job.ErrNotFound], [ErrEnded] or [ErrCanceled] where there is nothing to cancel.
func (d *Dispatcher) Cancel(ctx context.Context, jid wire.JID, user, reason string) (*job.Job, error) {
	j, err := d.markCanceled(ctx, jid, job.Cancel{By: user, Reason: reason})
	if errors.Is(err, job.ErrNotFound) {
		err = job.ErrNotFound
	}
	if j != nil {
		switch e := d.o.Store.RecordCancel(ctx, jid); {
		case e != nil && err == nil && j.Status.Final():
			err = e
		case e != nil && err == nil:
			d.log.Warn("cancel is recorded, but was not sent", "jid", jid, "err", e)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot cancel job %s: %w", jid, err)
	}
	text := "job canceled"
	if j.Status.Final() {
		text = "cancel sent to the peels of an ended job"
	}
	d.log.Info(text, "jid", jid, "user", user, "function", j.Function, "targets", j.TargetCount)
	return j, nil
}

// markCanceled writes the cancel into the record, unless that is final. With an error it returns the job too if peels
// may not have received an earlier cancel.
func (d *Dispatcher) markCanceled(ctx context.Context, jid wire.JID, c job.Cancel) (*job.Job, error) {
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
			return j, fmt.Errorf("%w: %s canceled it at %s", ErrCanceled, j.Cancel.By,
				j.Cancel.Time.UTC().Format(time.RFC3339))
		}
		c.Time = time.Now()
		j.Cancel, j.Updated = &c, c.Time
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
