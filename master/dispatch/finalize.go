package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// amendment is what became of a change of the record of a watched job.
type amendment uint8

const (
	amended   amendment = iota
	unwritten           // ctx ended before
	foreign             // the job is another master's, or has no record
	ended               // the record is final
)

// amend changes the record of a watched job and tries until that succeeds, the job turns out not to be watched from
// here, or ctx ends. Change is applied to the newest record, which others may have changed.
func (d *Dispatcher) amend(ctx context.Context, w *watch, change func(*job.Job)) (result amendment) {
	result = unwritten
	persist(ctx, func() (retry bool) {
		j := *w.record
		change(&j)
		err := d.o.Store.Update(ctx, &j)
		if err == nil {
			w.record, result = &j, amended
			return false
		}
		if !errors.Is(err, job.ErrConflict) {
			return d.complain(w.jid, err)
		}
		result, retry = d.reread(ctx, w)
		return retry
	})
	return result
}

// reread looks who has changed the record. The change is to be tried again if that was no other owner.
func (d *Dispatcher) reread(ctx context.Context, w *watch) (result amendment, retry bool) {
	stored, err := d.o.Store.GetRecord(ctx, w.jid)
	switch {
	case errors.Is(err, job.ErrNotFound):
		d.log.Warn("job has no record", "jid", w.jid)
		return foreign, false
	case err != nil:
		return unwritten, d.complain(w.jid, err)
	case stored.Owner != d.o.Owner || stored.Epoch != w.record.Epoch:
		d.lost(w, stored)
		return foreign, false
	}
	w.see(stored)
	if stored.Status.Final() {
		return ended, false
	}
	return unwritten, true
}

// finalize writes the end of a job whose returns are all stored.
func (d *Dispatcher) finalize(ctx context.Context, w *watch) {
	d.at(stepReturned)
	if w.tally.missing() { // a target that was given up may have returned
		d.countMissed(ctx, w)
	}
	end, now := w.tally.end(), time.Now()
	switch d.amend(ctx, w, func(j *job.Job) {
		end.Canceled = j.Cancel != nil
		j.Finish(end, now)
	}) {
	case unwritten, foreign:
		return
	}
	d.at(stepEnded)
	j := w.record
	d.counts.ended(j)
	d.log.Info("job ended", "jid", j.JID, "status", j.Status, "returned", end.Returned, "succeeded", end.Succeeded, "targets", end.Targets)
	if j.Live { // else another master has concluded it
		persist(ctx, func() (retry bool) { return d.complain(j.JID, d.conclude(ctx, j)) })
	}
}

// conclude moves a live job whose record is final to the ended jobs and tells its end. The order matters: a reader that
// does not find the job in the bucket active finds it in the bucket jobs, and until the end is told every master finds
// the job among the live ones. It may be repeated, by any master.
func (d *Dispatcher) conclude(ctx context.Context, j *job.Job) error {
	if err := d.o.Store.Archive(ctx, j); err != nil {
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
	return nil
}

func (d *Dispatcher) complain(jid wire.JID, err error) (retry bool) {
	if err != nil {
		d.counts.retried.Add(1)
		d.log.Warn("trying again", "jid", jid, "err", err)
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
