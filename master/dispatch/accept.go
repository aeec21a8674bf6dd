package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// accept brings a request to the point where its job is running and published. The watch is nil where there is
// nothing to watch: the job is known already, or could not be begun.
func (d *Dispatcher) accept(ctx context.Context, r request) (*watch, *job.Job, error) {
	if err := r.spec.Normalize(time.Now()); err != nil {
		d.counts.refused.Add(1)
		return nil, nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	w, first := d.enter(&r)
	if !first {
		j, err := w.join(ctx, &r)
		return nil, j, err
	}
	watching, err := d.dispatch(ctx, w, &r)
	if err != nil {
		d.counts.refused.Add(1)
		d.log.Warn("job not dispatched", "jid", r.spec.JID, "user", r.user, "err", err)
		err = fmt.Errorf("cannot run job %s: %w", r.spec.JID, err)
	}
	if err != nil || !watching {
		d.forget(w)
	}
	w.err = err
	close(w.begun)
	if !watching {
		return nil, w.job, err
	}
	return w, w.job, nil
}

// enter makes this the one place where the job is dispatched. If it is dispatched here already that watch is
// returned instead.
func (d *Dispatcher) enter(r *request) (w *watch, first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w, ok := d.watches[r.spec.JID]; ok {
		return w, false
	}
	w = newWatch(r)
	d.watches[w.jid] = w
	return w, true
}

// join waits for what becomes of the first request for the job.
func (w *watch) join(ctx context.Context, r *request) (*job.Job, error) {
	if r.user != w.user || !r.spec.SameIntent(&w.spec) {
		return nil, fmt.Errorf("cannot run job %s: %w", w.jid, ErrTaken)
	}
	select {
	case <-ctx.Done():
		return nil, stopping(w.jid)
	case <-w.begun:
		return w.job, w.err
	}
}

func stopping(jid wire.JID) error {
	return fmt.Errorf("cannot run job %s: this master is stopping, ask again", jid)
}

// dispatch takes the steps that the package comment lists. It reports whether the job is to be watched now.
func (d *Dispatcher) dispatch(ctx context.Context, w *watch, r *request) (watching bool, err error) {
	j := job.FromDispatch(r.spec, r.user, d.o.Owner, time.Now())
	err = d.o.Store.Create(ctx, j)
	if errors.Is(err, job.ErrExists) {
		var known bool
		if j, known, err = d.resume(ctx, r); known {
			w.job = j
			return false, nil
		}
	}
	if err != nil {
		return false, err
	}
	if j.Epoch == 0 {
		j.Epoch = j.Revision
	}
	if err := d.o.Store.Activate(ctx, j); err != nil {
		d.log.Warn("job is not in the index", "jid", j.JID, "err", err)
	}
	if err := d.event(ctx, wire.DispatchOf(j.JID), "dispatched", j); err != nil {
		return false, err
	}
	now := time.Now()
	j.Status, j.Updated, j.Deadline = job.Running, now, now.Add(j.Timeout)
	if err := d.o.Store.Update(ctx, j); err != nil {
		return false, err
	}
	d.counts.dispatched.Add(1)
	d.log.Info("job dispatched", "jid", j.JID, "user", j.User, "function", j.Function, "targets", j.TargetCount, "epoch", j.Epoch)
	w.arm(j, now)
	d.publish(ctx, w, w.job.Targets)
	return true, nil
}

// resume finds out what became of an earlier request for the job. It is known where nothing is left to do; else the
// record is one of this master that was never published.
func (d *Dispatcher) resume(ctx context.Context, r *request) (j *job.Job, known bool, err error) {
	j, err = d.o.Store.Get(ctx, r.spec.JID)
	switch {
	case err != nil:
		return nil, false, err
	case j.User != r.user || !j.SameIntent(&r.spec):
		return nil, false, ErrTaken
	case j.Status == job.Claimed && j.Owner != d.o.Owner:
		return nil, false, fmt.Errorf("%w: %s", ErrElsewhere, j.Owner)
	case j.Status == job.Claimed:
		return j, false, nil
	case j.Status == job.Running && j.Owner == d.o.Owner && j.Updated.After(d.started):
		// It is not watched here, so the write to running was stored and its acknowledgement lost.
		return j, false, nil
	}
	return j, true, nil
}

// event records a step in the job's life in the stream job-events.
func (d *Dispatcher) event(ctx context.Context, subject, kind string, j *job.Job) error {
	data, err := canon.Marshal(wire.Event{JID: j.JID, Type: kind, Data: j.Summary(), Time: time.Now(), V: wire.Version})
	if err == nil {
		_, err = d.js.Publish(ctx, subject, data, jetstream.WithMsgID(string(j.JID)+"."+kind))
	}
	if err != nil {
		return fmt.Errorf("cannot record the event %s of job %s: %w", kind, j.JID, err)
	}
	return nil
}

// publish sends the job's request to some of its targets. A target that it could not be sent to is one that stays
// silent.
func (d *Dispatcher) publish(ctx context.Context, w *watch, targets []target.PeelID) {
	data, err := canon.Marshal(wire.Request{
		JID: w.jid, Function: w.spec.Function, ID: w.spec.StateID, Args: w.spec.Args, User: w.user,
		Epoch: w.job.Epoch, Deadline: w.job.Deadline, TimeLeft: max(1, time.Until(w.deadline)), V: wire.Version,
	})
	if err != nil {
		d.log.Error("request cannot be encoded", "jid", w.jid, "err", err)
		return
	}
	unsent := 0
	for _, id := range targets {
		if e := d.o.Conn.Publish(wire.Cmd(id.Wire()), data); e != nil {
			err, unsent = e, unsent+1
		}
	}
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	if e := d.o.Conn.FlushWithContext(ctx); e != nil && err == nil {
		err = e
	}
	if err != nil {
		d.log.Warn("request not sent to all targets", "jid", w.jid, "unsent", unsent, "targets", len(targets), "err", err)
	}
}
