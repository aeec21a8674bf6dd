package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// finalize writes the end of a job whose returns are all stored: the record, then the event, then the index. It
// tries until it succeeds, the job turns out to be another master's, or ctx ends.
func (d *Dispatcher) finalize(ctx context.Context, w *watch) {
	end, now := w.end(), time.Now()
	j := *w.job
	ours := false
	if !persist(ctx, func() (retry bool) { ours, retry = d.writeEnd(ctx, &j, end, now); return retry }) || !ours {
		return
	}
	d.counts.ended(j.Status)
	d.log.Info("job ended", "jid", j.JID, "status", j.Status, "returned", end.Returned, "succeeded", end.Succeeded, "targets", end.Targets)
	persist(ctx, func() (retry bool) { return d.complain(&j, d.event(ctx, wire.StatusOf(j.JID), "status", &j)) })
	persist(ctx, func() (retry bool) { return d.complain(&j, d.o.Store.Deactivate(ctx, j.JID)) })
}

// writeEnd tries once to make j's record final. Ours is false if the job has another owner now, or the same one
// under another epoch: then the record is not touched.
func (d *Dispatcher) writeEnd(ctx context.Context, j *job.Job, end job.End, now time.Time) (ours, retry bool) {
	j.Finish(end, now)
	err := d.o.Store.Update(ctx, j)
	if !errors.Is(err, job.ErrConflict) {
		return err == nil, d.complain(j, err)
	}
	stored, err := d.o.Store.Get(ctx, j.JID)
	switch {
	case errors.Is(err, job.ErrNotFound):
		d.log.Warn("job has no record any more", "jid", j.JID)
		return false, false
	case err != nil:
		return false, d.complain(j, err)
	case stored.Owner != d.o.Owner || stored.Epoch != j.Epoch:
		d.counts.fenced.Add(1)
		d.log.Warn("job has another owner, its end is not ours to write", "jid", j.JID, "epoch", j.Epoch, "owner", stored.Owner)
		return false, false
	case stored.Status.Final():
		*j = *stored
		return true, false
	}
	*j = *stored
	return false, true
}

func (d *Dispatcher) complain(j *job.Job, err error) (retry bool) {
	if err != nil {
		d.counts.retried.Add(1)
		d.log.Warn("trying again", "jid", j.JID, "err", err)
	}
	return err != nil
}

const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// persist calls try until it asks for no retry, with growing pauses. It reports false if ctx ended before.
func persist(ctx context.Context, try func() (retry bool)) bool {
	for pause := firstPause; try(); pause = min(2*pause, lastPause) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
	return true
}
