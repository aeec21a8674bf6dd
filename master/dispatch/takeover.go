package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
)

// released is the subject on which a master that stops announces that it has released jobs. The message is empty.
const released = "zester.master.released"

// takeOver continues a job whose owner this master has just become, with a raised epoch: a claim is dispatched with the
// time that it has left, a running job is watched.
func (d *Dispatcher) takeOver(ctx, work context.Context, w *watch) {
	var err error
	if w.record.Status == job.Claimed {
		err = d.beginAgain(work, w)
	} else {
		err = d.watchAgain(work, w)
	}
	w.setResult(w.record, err)
	if err != nil {
		d.forget(w) // the next scan finds it, because its owner does not watch it
		d.log.Warn("job not continued yet", "jid", w.jid, "err", err)
		return
	}
	d.watch(ctx, work, w)
}

// beginAgain dispatches a claim that another master left, and ends it if its deadline has passed. A claim under the ID
// of an ended job is withdrawn: its end would replace the record of that job.
func (d *Dispatcher) beginAgain(ctx context.Context, w *watch) error {
	if err := d.o.Store.Confirm(ctx, w.record); err != nil {
		return err
	}
	left := time.Until(w.record.Deadline) - w.record.WhenOnline
	if left <= 0 {
		d.log.Warn("job was not dispatched before its deadline", "jid", w.jid)
		w.endCanceled()
		return nil
	}
	limit := min(left, w.record.Timeout)
	err := d.authorizeUser(ctx, w.record, &w.record.Spec)
	if err == nil {
		err = d.begin(ctx, w, w.record, limit)
	}
	if errors.Is(err, grants.ErrNotAllowed) {
		if err = d.cancelRefused(ctx, w.jid, err); err == nil {
			err = d.reread(ctx, w)
		}
		if err == nil {
			err = d.begin(ctx, w, w.record, limit) // which ends it
		}
	}
	return err
}

// watchAgain continues the watch of a job that runs. Every return is in the bucket. Targets without one are sent the
// request again under its epoch, by which those that have it recognise it.
func (d *Dispatcher) watchAgain(ctx context.Context, w *watch) error {
	j, now := w.record, time.Now()
	w.epoch, w.next = j.RequestEpoch, min(j.Published, len(j.Targets))
	w.tally.Begin(j.Targets, j.WhenOnline > 0)
	sent := sequence(0, w.next)
	w.tally.Advance(sent, Silent, Unsent)
	deadline := now.Add(time.Until(j.Deadline))
	w.waves = append(w.waves, &wave{places: sent, deadline: deadline, checkSilentAt: now})
	if j.WhenOnline > 0 {
		w.onlineUntil = deadline.Add(-j.Timeout)
	}
	if j.Cancel != nil {
		d.stopSending(ctx, w)
	}
	if err := d.listen(ctx, w); err != nil {
		return err
	}
	if err := d.replay(ctx, w); err != nil {
		return err
	}
	d.log.Info("job taken over", "jid", w.jid, "user", w.user, "epoch", j.Epoch, "reclaims", j.ReclaimCount)
	return nil
}
