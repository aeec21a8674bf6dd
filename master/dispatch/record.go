package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// errLost: the record of a watched job is gone, or has another owner or epoch. The watch ends without another write.
var errLost = errors.New("another master owns the job")

// reread replaces w.record by the stored record. The error is [errLost] if the job is no longer watched from here, and
// [ErrEnded] if the record is final.
func (d *Dispatcher) reread(ctx context.Context, w *watch) error {
	stored, err := d.o.Store.GetRecord(ctx, w.jid)
	if errors.Is(err, job.ErrNotFound) {
		d.log.Warn("job has no record", "jid", w.jid)
		return errLost
	}
	if err != nil {
		return err
	}
	if stored.Epoch == 0 { // a claim, whose epoch is its first revision
		stored.Epoch = w.record.Epoch
	}
	if stored.Owner != d.o.Owner || stored.Epoch != w.record.Epoch {
		d.count(func(s *Stats) { s.Fenced++ })
		d.log.Warn("job belongs to another master", "jid", w.jid, "epoch", stored.Epoch, "owner", stored.Owner,
			"status", stored.Status)
		return errLost
	}
	stored.Targets = w.record.Targets // they never change
	w.record = stored
	if stored.Status.Final() {
		return ErrEnded
	}
	return nil
}

// write changes the record of a watched job. If another master has changed the record meanwhile, for a cancel, change
// is applied to the newer one. The errors of reread mean that the record is not written.
func (d *Dispatcher) write(ctx context.Context, w *watch, change func(*job.Job)) error {
	for {
		j := *w.record
		change(&j)
		err := d.o.Store.Update(ctx, &j)
		if err == nil {
			w.record = &j
			return nil
		}
		if !errors.Is(err, job.ErrConflict) {
			return err
		}
		if err := d.reread(ctx, w); err != nil {
			return err
		}
	}
}

// persist repeats write until it succeeds, the error is one of reread, or ctx ends.
func (d *Dispatcher) persist(ctx context.Context, w *watch, change func(*job.Job)) error {
	return d.retry(ctx, w.jid, func() error { return d.write(ctx, w, change) })
}

const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// retry calls try, with growing pauses, until it succeeds, the error is [errLost] or [ErrEnded], or ctx ends.
func (d *Dispatcher) retry(ctx context.Context, jid wire.JID, try func() error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := try()
		if err == nil || isOver(err) {
			return err
		}
		d.logRetry(jid, err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// isOver reports whether an error says that there is nothing more to write for a job.
func isOver(err error) bool { return errors.Is(err, errLost) || errors.Is(err, ErrEnded) }

func (d *Dispatcher) logRetry(jid wire.JID, err error) {
	d.count(func(s *Stats) { s.Retried++ })
	d.log.Warn("trying again", "jid", jid, "err", err)
}

// finalize writes the end of a job.
func (d *Dispatcher) finalize(ctx context.Context, w *watch) {
	d.at(stepReturned)
	if w.tally.Missing() { // a target that was given up may have returned
		d.countMissed(ctx, w)
	}
	end, now := w.tally.End(), time.Now()
	err := d.persist(ctx, w, func(j *job.Job) {
		end.Canceled = j.Cancel != nil
		j.Finish(end, now)
	})
	if err != nil && !errors.Is(err, ErrEnded) {
		return
	}
	d.at(stepEnded)
	j := w.record
	d.count(func(s *Stats) { s.addEnded(j) })
	d.log.Info("job ended", "jid", j.JID, "status", j.Status, "returned", end.Returned, "succeeded", end.Succeeded,
		"targets", end.Targets)
	if j.Live { // else another master has concluded it
		_ = d.retry(ctx, j.JID, func() error { return d.conclude(ctx, j) })
	}
}

// conclude moves a live job whose record is final to the ended jobs and records the event of its end. The order
// matters: a reader that does not find the job in the bucket active finds it in the bucket jobs, and until the event is
// recorded every master finds the job among the live ones. It may be repeated, by any master: the last step, which is
// done once, counts the record for its user.
func (d *Dispatcher) conclude(ctx context.Context, j *job.Job) error {
	if err := d.o.Store.Archive(ctx, j, d.historyOf(ctx, j)); err != nil {
		return err
	}
	d.at(stepArchived)
	if err := d.o.Store.Record(ctx, wire.StatusOf(j.JID), "status", j); err != nil {
		return err
	}
	d.at(stepTold)
	if err := d.o.Store.Remove(ctx, j); err != nil {
		return err
	}
	d.at(stepRemoved)
	if d.o.Records != nil {
		d.o.Records.Admit(j.User, sizeOf(&j.Spec))
	}
	return nil
}

// historyOf returns how long the record of an ended job is kept: 0 for as long as the bucket keeps all, [shortHistory]
// if its user has used up a share of the bucket.
func (d *Dispatcher) historyOf(ctx context.Context, j *job.Job) time.Duration {
	if d.o.Records == nil {
		return 0
	}
	if err := d.o.Records.Refresh(ctx); err != nil {
		d.log.Debug("the room for records of ended jobs is not known", "err", err)
	}
	if d.o.Records.Admits(j.User, sizeOf(&j.Spec)) {
		return 0
	}
	d.refusals.Warn("history of "+j.User,
		"records of ended jobs are kept for 10 minutes: their user has used up a share of the bucket", "user", j.User)
	return shortHistory
}
