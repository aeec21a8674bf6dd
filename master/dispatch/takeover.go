package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
)

// replayWait is how long one reading of the bucket may take.
const replayWait = 30 * time.Second

// released is the subject on which a master that stops announces that it has released jobs. The message is empty.
const released = "zester.master.released"

// takeOver continues a job that this master has just become the owner of, with a raised epoch: a claim is dispatched with
// the time that it has left, a running job is watched.
func (d *Dispatcher) takeOver(ctx, work context.Context, j *job.Job) {
	w, first := d.enter(newWatch(j.Spec, j.User))
	if !first {
		return
	}
	w.record = j
	var err error
	if j.Status == job.Claimed {
		err = d.beginAgain(work, w)
	} else {
		err = d.watchAgain(work, w)
	}
	w.begins(w.record, err)
	if err != nil {
		d.forget(w) // the next scan finds it, because its owner does not watch it
		d.log.Warn("job not continued yet", "jid", j.JID, "err", err)
		return
	}
	d.watch(ctx, work, w)
}

// beginAgain dispatches a claim that another master left, and ends it if its deadline has passed. A claim under the ID of
// an ended job is withdrawn: to end it would replace the record of that job.
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
	err := d.judge(ctx, w.user, &w.record.Spec)
	if err == nil {
		err = d.begin(ctx, w, w.record, limit)
	}
	if !errors.Is(err, grants.ErrNotAllowed) {
		return err
	}
	if err = d.cancelRefused(ctx, w.jid, err); err != nil {
		return err
	}
	canceled, err := d.o.Store.Get(ctx, w.jid)
	if err != nil {
		return err
	}
	return d.begin(ctx, w, canceled, limit) // which ends it
}

// watchAgain continues the watch of a job that runs. Every return is in the bucket. Targets without one are sent the request
// again under its epoch, by which those that have it know it.
func (d *Dispatcher) watchAgain(ctx context.Context, w *watch) error {
	j, now := w.record, time.Now()
	w.epoch, w.next = j.RequestEpoch, min(j.Published, len(j.Targets))
	w.tally.begin(j.Targets, j.WhenOnline > 0)
	sent := sequence(0, w.next)
	w.tally.advance(sent, silent, unsent)
	until := now.Add(time.Until(j.Deadline))
	w.waves = append(w.waves, &wave{places: sent, until: until, at: now})
	if j.WhenOnline > 0 {
		w.patience = until.Add(-j.Timeout)
	}
	if j.Cancel != nil {
		d.stop(ctx, w)
	}
	if err := d.listen(ctx, w); err != nil {
		return err
	}
	if !d.replay(ctx, w) {
		return errors.New("its returns could not be read")
	}
	d.log.Info("job taken over", "jid", w.jid, "user", w.user, "epoch", j.Epoch, "reclaims", j.ReclaimCount)
	return nil
}

// replay counts the returns that are in the bucket, those that were counted before excepted. It tries until it has read all
// or ctx ends.
func (d *Dispatcher) replay(ctx context.Context, w *watch) bool {
	return persist(ctx, func() (retry bool) {
		ctx, cancel := context.WithTimeout(ctx, replayWait)
		defer cancel()
		return d.complain(w.jid, d.o.Store.Stored(ctx, w.jid, func(r job.StoredReturn) { _ = d.countReturn(w, r) }))
	})
}

// countMissed counts the stored returns of a job if messages may have been missed since this was done last.
func (d *Dispatcher) countMissed(ctx context.Context, w *watch) {
	if gaps := d.countGaps(w); gaps != w.gaps || d.lacks(ctx, w) {
		w.gaps = gaps
		d.replay(ctx, w)
	}
}

// release lets go of a job for another master to take over at once. If that cannot be written the job is taken over
// when this master has been missed.
func (d *Dispatcher) release(ctx context.Context, w *watch) {
	switch d.amend(ctx, w, func(j *job.Job) { j.Owner, j.Updated = "", time.Now() }) {
	case amended:
		d.log.Info("job released", "jid", w.jid)
		if err := d.o.Conn.Publish(released, nil); err != nil {
			d.log.Debug("release not told", "jid", w.jid, "err", err)
		}
	case unwritten:
		d.log.Warn("job left running", "jid", w.jid)
	}
}
