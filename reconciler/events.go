package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/control"
	"github.com/seed-c01c3da5/zester/reconciler/decide"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/source"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/sops"
)

// inputs are the channels from which the loop takes events, besides orders and results.
type inputs struct {
	branch   chan branchEvent
	fleet    <-chan struct{} // the fleet has changed
	reported <-chan struct{} // peels have reported
	unknown  <-chan struct{} // a peel has reported settings that the bus does not know; nil: none can
}

// A branchEvent is an event of the source, with the identities as they were read after it.
type branchEvent struct {
	source.Event
	ring *sops.Ring // nil if they could not be read, or at the beginning of an attempt
}

// await waits for one event and handles it.
func (l *loop) await(ctx context.Context, in inputs, until time.Time) error {
	s := &l.state
	reported := in.reported
	if s.Record.Rollout == nil {
		reported = nil
	}
	until = decide.Earlier(until, l.burst.until)
	var timer <-chan time.Time
	if !until.IsZero() {
		timer = time.After(time.Until(until))
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case e := <-in.branch:
		l.onRing(e.ring)
		l.onBranch(e.Event)
	case <-in.fleet:
		l.burst.add(time.Now())
	case o := <-l.orders:
		return l.onOrder(ctx, o)
	case r := <-l.results:
		return l.onResult(ctx, r)
	case <-reported:
		if next := s.Now.Add(reportQuiet); time.Now().Before(next) {
			return l.await(ctx, inputs{branch: in.branch, fleet: in.fleet}, decide.Earlier(until, next))
		}
	case <-in.unknown: // see observe
	case <-timer:
		if !l.burst.first.IsZero() && !time.Now().Before(l.burst.until) {
			l.burst = burst{}
			s.Changes++
		}
	}
	return nil
}

// onBranch handles the beginning or the end of an attempt to read the branch.
func (l *loop) onBranch(e source.Event) {
	s := &l.state
	if s.Shown.Reading = e.Began; e.Began {
		return
	}
	s.Source = decide.Branch{
		Attempt:  s.Source.Attempt + 1,
		Answers:  e.Answers,
		Head:     e.Head,
		Observed: e.Observed,
		Read:     e.Read,
		Err:      e.Err,
	}
	l.metrics.Attempted()
	l.metrics.Took(Fetch, e.Took)
	if e.Err != nil {
		reason := "Failed"
		if g, ok := errors.AsType[*gitrepo.Error](e.Err); ok {
			reason = string(g.Reason)
		}
		l.metrics.Failed(reason)
		l.log.Warn("branch not read", "reason", reason, "err", e.Err)
	}
}

// onRing handles changed identities: every revision is compiled again with them.
func (l *loop) onRing(ring *sops.Ring) {
	if ring == nil || ring.Equal(l.ring) {
		return
	}
	l.ring = ring
	l.state.Changes++
	l.log.Info("identities have changed")
}

// onOrder carries out an order of a person. Its error ends the term.
func (l *loop) onOrder(ctx context.Context, o *control.Order) error {
	s := &l.state
	if o.Change != nil {
		next, err := o.Change(s.Record, control.Seen{
			Now:    time.Now(),
			Owner:  s.Owner,
			Head:   s.Source.Head,
			Source: s.Own,
			Frozen: decide.FrozenOf(s),
		})
		if err == nil {
			err = l.put(ctx, next)
		}
		if err != nil {
			o.Accept(err)
			if errors.Is(err, record.ErrConflict) {
				return err
			}
			return nil
		}
		l.log.Info("order carried out", "order", o.Verb, "by", o.By)
	}
	l.state.Shown.Order = control.Carried{Verb: o.Verb, By: o.By, Time: time.Now()}
	l.show() // before the answer, which reads it; the next write may take long
	o.Accept(nil)
	w := waiter{order: o}
	if o.Read {
		w.request = l.source.Request(source.Order)
	}
	l.waiting = append(l.waiting, w)
	return nil
}

// onResult handles the result of a task. A result that no longer fits the record is dropped. Its error ends the term.
func (l *loop) onResult(ctx context.Context, out Result) error {
	s := &l.state
	fits := l.task.fits(s)
	l.task.cancel()
	l.task = nil
	if _, conflict := errors.AsType[*settings.ConflictError](out.Err); conflict ||
		errors.Is(out.Err, record.ErrConflict) {
		return out.Err
	}
	if out.Err != nil {
		if fits && ctx.Err() == nil {
			l.onFailure(out)
		} else if out.Task.Kind == decide.DoPublish {
			s.Prepared = nil
		}
		return nil
	}
	switch out.Task.Kind {
	case decide.DoJudge:
		if out.Judged.Arrived = s.Basis(); fits {
			s.Judged, s.Failed.Judge = out.Judged, decide.Failure{}
		}
		l.metrics.Took(Compile, out.Took)
	case decide.DoCompare:
		s.Compared, s.Failed.Judge = out.Compared, decide.Failure{}
	case decide.DoMeasure:
		s.Measured, s.Failed.Judge = out.Measured, decide.Failure{}
	case decide.DoPrepare:
		if fits {
			s.Prepared, s.Failed.Serve = out.Prepared, decide.Failure{}
		}
	case decide.DoPublish:
		l.onPublished(out, fits)
	case decide.DoRepublish:
		s.RepublishAt = time.Now().Add(republishEvery)
		s.Lost = out.Lost
		if len(out.Stale) > 0 {
			s.Changes++
			l.log.Warn("peels do not run their settings, which are written again", "peels", plan.FirstOf(out.Stale, 20))
		}
	}
	return nil
}

// onPublished handles a successful write of documents.
func (l *loop) onPublished(out Result, fits bool) {
	s := &l.state
	if !s.Record.Done {
		if s.Shown.Written != s.Record.Commit {
			s.Shown.Written, s.Shown.Writes = s.Record.Commit, 0
		}
		s.Shown.Writes += out.Writes
	}
	if fits && s.Prepared != nil {
		written := *s.Prepared
		written.Due, written.Lacking = nil, 0
		s.Prepared = &written
	}
	l.metrics.Took(Publish, out.Took)
}

// onFailure records that a task failed, and when it may be tried again.
func (l *loop) onFailure(out Result) {
	s := &l.state
	f := l.failed(fmt.Errorf("cannot %s: %w", out.Task.Kind, out.Err))
	f.Err = out.Err
	switch out.Task.Kind {
	case decide.DoJudge, decide.DoCompare, decide.DoMeasure:
		s.Failed.Judge = f
	default:
		s.Failed.Serve = f
		if out.Task.Kind == decide.DoPublish {
			s.Prepared = nil
		}
		l.metrics.Failed("PublishFailed")
	}
	if e, ok := errors.AsType[*gitrepo.Error](out.Err); ok && e.Reason == gitrepo.StoreDamaged {
		l.source.Request(source.Damaged)
	}
	l.log.Warn("task failed", "task", string(out.Task.Kind), "commit", settings.Commit(out.Task.Commit), "err", out.Err)
}
