package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// accept brings a request to the point where its job is running and published. The watch is nil if there is nothing to
// watch: the job is known already, or could not be begun.
func (d *Dispatcher) accept(ctx context.Context, r *request) (*watch, *job.Job, error) {
	err := d.vouch(ctx, r)
	if err == nil {
		err = d.check(ctx, r)
	}
	if err != nil {
		d.count(func(s *Stats) { s.Refused++ })
		return nil, nil, err
	}
	w, first := d.enter(newWatch(r.spec, r.user))
	if !first {
		j, err := w.join(ctx, r)
		return nil, j, err
	}
	j, watching, err := d.dispatch(ctx, w, r)
	if err != nil {
		d.count(func(s *Stats) { s.Refused++ })
		err = d.notDispatched(ctx, w, err)
		d.log.Warn("job not dispatched", "jid", r.spec.JID, "user", r.user, "err", err)
	}
	if watching {
		w.setResult(j, nil)
		return w, w.job, nil
	}
	d.forget(w)
	w.setResult(j, err)
	return nil, w.job, err
}

// check returns an error if the request must be refused.
func (d *Dispatcher) check(ctx context.Context, r *request) error {
	if err := r.spec.Normalize(time.Now()); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	// Masters are upgraded before peels, so no peel has a function that this catalogue lacks.
	if err := catalogue.CheckCall(r.spec.Function, r.spec.StateID, r.spec.Args); err != nil {
		return fmt.Errorf("%w: cannot run job %q: %w", ErrInvalid, r.spec.JID, err)
	}
	err := d.allow(ctx, r)
	if err != nil {
		d.log.Warn("job refused", "jid", r.spec.JID, "user", r.user, "function", r.spec.Function,
			"targets", len(r.spec.Targets), "err", err)
	} else {
		err = d.o.Room()
	}
	if err != nil {
		return fmt.Errorf("cannot run job %s: %w", r.spec.JID, err)
	}
	return d.second(ctx, r)
}

// second returns an error if a job waits for a second person: a [WaitsError], or the reason why it cannot.
func (d *Dispatcher) second(ctx context.Context, r *request) error {
	if d.o.Second == nil {
		return nil
	}
	from := grants.Caller{User: r.user}
	if r.from != nil {
		from = *r.from
	}
	return d.o.Second(ctx, from, &r.spec)
}

// allow checks the permissions of the caller. A request without one was checked where it came from, except for secrets.
func (d *Dispatcher) allow(ctx context.Context, r *request) error {
	switch {
	case r.from != nil && d.o.Allow != nil:
		return d.o.Allow(ctx, *r.from, &r.spec)
	case r.from == nil && catalogue.AsksForSecrets(r.spec.Args):
		return fmt.Errorf("%w: secrets are shown to people, with a credential of the bus", grants.ErrNotAllowed)
	}
	return nil
}

// vouch replaces what a request from the bus says about its approval by what the record of the held action says. The
// reason and the agent of any other job are what its client says.
func (d *Dispatcher) vouch(ctx context.Context, r *request) error {
	action := r.spec.Metadata[job.MetaHeld]
	r.spec.Metadata = job.OwnMetadata(r.spec.Metadata)
	if action == "" || r.from == nil {
		return nil
	}
	if d.o.Approved == nil {
		return fmt.Errorf("cannot run job %s: %w: nobody approved the action %.40q", r.spec.JID, grants.ErrNotAllowed,
			action)
	}
	approved, err := d.o.Approved(ctx, r.user, &r.spec, action)
	if err != nil {
		return fmt.Errorf("cannot run job %s: %w", r.spec.JID, err)
	}
	maps.Copy(r.spec.Metadata, approved)
	return nil
}

// notDispatched returns the error for a job that was not dispatched. It says that the job does not run only if that is
// certain: the claim was withdrawn, so that no master dispatches it later. Else it is an [ErrUnknown].
func (d *Dispatcher) notDispatched(ctx context.Context, w *watch, failed error) error {
	switch {
	case errors.Is(failed, ErrTaken), errors.Is(failed, ErrTooManyLive): // this request wrote nothing
	case w.claim == nil:
		return unknown(w.jid, failed)
	default:
		ctx, cancel := context.WithTimeout(ctx, withdrawLimit)
		defer cancel()
		if err := d.o.Store.Withdraw(ctx, w.claim); err != nil {
			d.log.Warn("claim not withdrawn", "jid", w.jid, "err", err)
			return unknown(w.jid, failed)
		}
	}
	return fmt.Errorf("cannot run job %s: %w", w.jid, failed)
}

func unknown(jid wire.JID, cause error) error {
	return fmt.Errorf("%w, look at job %s or repeat the request under the same ID: %w", ErrUnknown, jid, cause)
}

// enter makes w the watch of its job in this master. If there is one already, enter returns that one.
func (d *Dispatcher) enter(w *watch) (entered *watch, first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if other, ok := d.watches[w.jid]; ok {
		return other, false
	}
	d.watches[w.jid] = w
	d.liveBytes += w.size
	if w.spec.WhenOnline > 0 {
		d.waiting[w.jid] = w
	}
	return w, true
}

// join waits for the result of the first request for the job, which r repeats.
func (w *watch) join(ctx context.Context, r *request) (*job.Job, error) {
	if r.user != w.user || !r.spec.SameIntent(&w.spec) {
		return nil, fmt.Errorf("cannot run job %s: %w", w.jid, ErrTaken)
	}
	select {
	case <-ctx.Done():
		return nil, unknown(w.jid, errStopping)
	case <-w.begun:
		return w.job, w.err
	}
}

// dispatch takes the steps that the package comment lists. It reports whether the job is to be watched now.
func (d *Dispatcher) dispatch(ctx context.Context, w *watch, r *request) (j *job.Job, watching bool, err error) {
	d.mu.Lock()
	live, bytes := len(d.watches), d.liveBytes
	d.mu.Unlock()
	if live > d.maxLive {
		return nil, false, fmt.Errorf("%w (this master has %d, the limit)", ErrTooManyLive, d.maxLive)
	}
	if bytes > d.maxLiveBytes {
		return nil, false, fmt.Errorf("%w (with this one their requests take %d bytes, the limit is %d)",
			ErrTooManyLive, bytes, d.maxLiveBytes)
	}
	j = job.FromDispatch(r.spec, r.user, d.o.Owner, time.Now())
	if r.from != nil {
		j.Role = r.from.Role
	}
	if d.selects(ctx, r) {
		j.Target = r.spec.TargetExpr
	}
	w.claim = j
	d.at(stepAllowed)
	err = d.o.Store.Create(ctx, j)
	if errors.Is(err, job.ErrExists) {
		var known bool
		j, known, err = d.resume(ctx, r)
		w.claim = j
		if known {
			if j.Live && j.Status.Final() { // its owner may have died before it recorded the event of the end
				if err := d.conclude(ctx, j); err != nil {
					d.logRetry(j.JID, err)
				}
			}
			return j, false, nil
		}
		if err == nil && !slices.Equal(j.Targets, r.spec.Targets) {
			r.spec.Targets = j.Targets // of the first request, which this one repeats
			err = d.allow(ctx, r)
		}
	}
	if err != nil {
		return nil, false, err
	}
	d.at(stepCreated)
	if err := d.begin(ctx, w, j, j.Timeout); err != nil {
		return nil, false, err
	}
	return w.record, true, nil
}

// selects reports whether the expression of a request selects exactly its targets. The caller of Submit has selected
// them by it. A client of the bus may say anything, and a fleet that has changed since is shown by the names of the
// targets.
func (d *Dispatcher) selects(ctx context.Context, r *request) bool {
	if r.spec.TargetExpr == "" || r.from == nil {
		return r.spec.TargetExpr != ""
	}
	if d.o.Select == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, selectLimit)
	defer cancel()
	peels, err := d.o.Select(ctx, *r.from, r.spec.TargetExpr)
	return err == nil && slices.Equal(peels, r.spec.Targets)
}

// resume reads the result of an earlier request for the job. It is known if nothing is left to do; else the record is
// one of this master that was never published. The record that comes with an error is a claim to withdraw.
func (d *Dispatcher) resume(ctx context.Context, r *request) (j *job.Job, known bool, err error) {
	j, err = d.o.Store.Get(ctx, r.spec.JID)
	incomplete := errors.Is(err, job.ErrIncomplete)
	switch {
	case err != nil && !incomplete:
		return nil, false, err
	case j.User != r.user, !incomplete && !j.SameIntent(&r.spec):
		return nil, false, ErrTaken
	case j.Owner != d.o.Owner && (incomplete || j.Status == job.Claimed):
		return nil, false, fmt.Errorf("%w: %s", ErrElsewhere, j.Owner)
	case incomplete:
		return j, false, fmt.Errorf("%w, repeat the request", err)
	case j.Status == job.Claimed:
		return j, false, d.o.Store.Confirm(ctx, j)
	case j.Status == job.Running && j.Owner == d.o.Owner && j.Updated.After(d.started) && j.Epoch == j.RequestEpoch:
		// It is not watched here, so the write to running was stored and its acknowledgement lost. The epoch of one
		// that was taken over is another: its targets may have the request.
		return j, false, nil
	}
	return j, true, nil
}

// begin takes a claim from its record to its first requests, whose targets have so much time. A claim that was canceled
// is ready to be ended instead. The error is [grants.ErrNotAllowed] if the job's user was revoked.
func (d *Dispatcher) begin(ctx context.Context, w *watch, j *job.Job, limit time.Duration) error {
	if j.Epoch == 0 {
		j.Epoch = j.Revision
	}
	w.record = j
	if j.Cancel == nil {
		checking, cancel := context.WithTimeout(ctx, authorizeLimit)
		defer cancel()
		if err := d.o.CheckNotRevoked(checking, j.User); err != nil {
			return err
		}
	}
	if err := d.listen(ctx, w); err != nil {
		return err
	}
	if err := d.o.Store.Record(ctx, wire.DispatchOf(j.JID), "dispatched", j); err != nil {
		return err
	}
	d.at(stepAnnounced)
	first, now := firstTargets(&j.Spec), time.Now()
	if j.Cancel == nil {
		err := d.write(ctx, w, func(j *job.Job) {
			if j.Cancel == nil {
				j.Status, j.Updated, j.RequestEpoch = job.Running, now, j.Epoch
				j.Published, j.Sent, j.Deadline = first, now, now.Add(j.WhenOnline+limit)
			}
		})
		if err != nil {
			return err
		}
	}
	d.at(stepRunning)
	if w.record.Cancel != nil {
		w.endCanceled()
		return nil
	}
	d.count(func(s *Stats) { s.Dispatched++ })
	d.log.Info("job dispatched", "jid", j.JID, "user", j.User, "function", j.Function, "targets", j.TargetCount,
		"target", j.Target, "epoch", j.Epoch)
	w.epoch, w.next = j.Epoch, first
	if j.WhenOnline > 0 {
		w.onlineUntil = now.Add(j.WhenOnline)
	}
	w.tally.Begin(j.Targets, j.WhenOnline > 0)
	d.send(ctx, w, sequence(0, first), now.Add(limit))
	d.at(stepSent)
	return nil
}

// endCanceled makes the watch finalize a job whose request was never sent.
func (w *watch) endCanceled() {
	w.tally.Begin(w.record.Targets, false)
	w.tally.Halt()
}
