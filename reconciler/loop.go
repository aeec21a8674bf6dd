package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/control"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/metrics"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/rollout"
	"github.com/seed-c01c3da5/zester/reconciler/source"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/sops"
)

const (
	fleetQuiet     = 50 * time.Millisecond // after the fleet changed
	fleetQuietMost = time.Second           // but never longer than this
	reportQuiet    = 50 * time.Millisecond // between two looks at a rollout because peels have reported
	tryAgainAfter  = 5 * time.Second       // least pause after a task or a write failed; twice it at most
	republishEvery = time.Minute
)

// A loop decides and acts. One goroutine owns it; what others may read is in newest.
type loop struct {
	state   state
	store   *record.Store
	source  *source.Source
	worker  *worker
	watch   watch // of the rollout under way
	metrics *metrics.Metrics
	log     *slog.Logger

	orders  chan *control.Order
	results chan result
	task    *runningTask // nil while the worker is idle
	tasks   sync.WaitGroup
	waiting []waiter
	quiet   quiet
	ring    *sops.Ring
	newest  atomic.Pointer[control.Snapshot]
}

// A runningTask is what the worker does now.
type runningTask struct {
	task
	cancel context.CancelFunc
}

// A waiter is an order in force whose effects are under way.
type waiter struct {
	order *control.Order
	look  uint64 // that it asked for, 0 for none
}

// A quiet is a burst of changes of the fleet that has not ended.
type quiet struct{ first, until time.Time }

func (q *quiet) changed(now time.Time) {
	if q.first.IsZero() {
		q.first = now
	}
	q.until = earlier(now.Add(fleetQuiet), q.first.Add(fleetQuietMost))
}

// run decides and acts until ctx ends or another master leads.
func (l *loop) run(ctx context.Context, in inputs) error {
	defer func() {
		if l.task != nil {
			l.task.cancel()
		}
		l.tasks.Wait()
		l.watch.follow(ctx, nil)
	}()
	for {
		next, err := l.act(ctx)
		if err != nil {
			return err
		}
		l.show(next)
		l.settle(next)
		if err := l.await(ctx, in, next.until); err != nil {
			return err
		}
	}
}

// act does what is to be done until there is nothing, or a task is under way.
func (l *loop) act(ctx context.Context) (action, error) {
	for {
		l.state.now = time.Now()
		l.observe(ctx)
		a := decide(&l.state)
		if l.task != nil && !l.task.fits(&l.state) {
			l.task.cancel() // its result is dropped
		}
		switch {
		case a.kind == doNothing:
			return a, nil
		case a.kind == doYield:
			return a, errOtherSource
		case a.isTask() && l.task != nil:
			return action{kind: doNothing}, nil
		case a.kind == doPublish:
			if err := l.write(ctx, a); err != nil {
				return a, err
			}
			if l.state.failed.write.err == nil {
				l.start(ctx, a)
			}
		case a.isTask():
			l.start(ctx, a)
		default:
			if err := l.write(ctx, a); err != nil {
				return a, err
			}
		}
	}
}

// observe brings the step of the rollout under way up to date.
func (l *loop) observe(ctx context.Context) {
	s := &l.state
	r := s.record.Rollout
	l.watch.follow(ctx, r)
	switch p := s.prepared; {
	case r == nil:
		s.step = rollout.Step{}
	case p != nil && p.goal == goalOf(&s.record):
		l.watch.runs.Watch(p.watched)
		s.step = rollout.Next(*r, l.watch.observe(&s.record, p, s.now))
	case s.step.Rollout.Commit != r.Commit:
		s.step = rollout.Step{}
	}
}

// fits reports whether the result of a task is still wanted.
func (j *runningTask) fits(s *state) bool {
	switch j.kind {
	case doJudge, doCompare, doMeasure:
		return j.commit == s.source.head && (j.kind == doCompare) == (s.record.Pinned != nil)
	case doPrepare, doPublish:
		return j.goal == goalOf(&s.record)
	}
	return true
}

// start begins a task.
func (l *loop) start(ctx context.Context, a action) {
	s := &l.state
	j := task{kind: a.kind, commit: a.commit, goal: goalOf(&s.record), basis: s.basis(), attempt: s.source.attempt, record: s.record, ring: l.ring}
	if a.kind == doPublish {
		j.due = s.prepared.due
	}
	ctx, cancel := context.WithCancel(ctx)
	l.task = &runningTask{j, cancel}
	l.tasks.Go(func() { l.results <- l.worker.do(ctx, j) })
}

// write stores the record of an action, and notes what it means. Its error ends the term.
func (l *loop) write(ctx context.Context, a action) error {
	s := &l.state
	before := s.record
	if err := l.put(ctx, a.next); err != nil {
		if errors.Is(err, record.ErrConflict) || ctx.Err() != nil {
			return err
		}
		s.failed.write = l.failed(err)
		l.log.Warn("record not written", "action", string(a.kind), "err", err)
		return nil
	}
	s.failed.write = failure{}
	r := &s.record
	switch a.kind {
	case doRefuse:
		l.log.Error("revision refused, the last good one stays in force", "commit", s.judged.commit, "reason", s.judged.refused.reason, "err", s.judged.refused.message())
		l.metrics.Failed(s.judged.refused.reason)
	case doBlock:
		l.log.Error("revision waits for approval", "commit", r.Blocked.Commit, "plan", r.Blocked.Hash, "reason", r.Blocked.Reason)
		l.metrics.Failed(cmp.Or(r.Blocked.Kind, "TooManyChanges"))
	case doFreeze:
		l.log.Warn("a freeze holds the revision", "commit", s.judged.commit, "reason", r.LastAttempt().Reason)
	case doEnforce, doBeginRollout:
		s.shown.moved = s.judged.moved
		s.measured = nil
		said := "revision goes out"
		if a.kind == doBeginRollout {
			said = "rollout begins"
		}
		l.log.Info(said, "commit", s.judged.commit, "author", s.judged.info.Author, "plan", s.judged.guard.Hash)
	case doStep:
		if stage := r.Rollout.Stage; !stage.Taken.Equal(before.Rollout.Stage.Taken) && !stage.Taken.IsZero() {
			l.log.Info("wave begins", "commit", r.Rollout.Commit, "wave", r.Rollout.Wave().Name, "peels", stage.Size)
		}
	case doReleasePin:
		l.log.Info("pin released", "commit", before.Pinned.Commit, "head", s.source.head)
	case doComplete:
		s.shown.completed, s.shown.completion = r.Commit, s.step.Reason
		l.log.Info("every wave has passed", "commit", r.Commit)
	case doRollBack:
		l.log.Error("revision rolled back", "commit", before.Rollout.Commit, "reason", s.step.Reason)
		l.metrics.Failed("WaveFailed")
	case doFinish:
		writes := 0
		if s.shown.written == r.Commit {
			writes = s.shown.writes
		}
		l.log.Info("revision in force", "commit", r.Commit, "writes", writes)
	}
	return nil
}

// put writes the record.
func (l *loop) put(ctx context.Context, next record.Record) error {
	stored, err := l.store.Write(ctx, next)
	if err == nil {
		l.state.record = stored
	}
	return err
}

func (l *loop) failed(err error) failure {
	return failure{err: err, cause: l.state.cause(), until: time.Now().Add(tryAgainAfter + rand.N(tryAgainAfter))}
}

// show publishes what the state says.
func (l *loop) show(next action) {
	s := &l.state
	s.shown.working, s.shown.waits = l.task != nil, next.reason
	if p := s.prepared; p != nil && p.goal == goalOf(&s.record) && (s.record.Done || s.record.Rollout != nil) {
		c := p.base.revision.Commit
		s.shown.good = status.Revision{Commit: s.record.Commit, Author: source.Byline(c), Message: c.Subject(), Time: c.Time, Since: s.record.Since}
	}
	s.shown.conditions = transitions(s.shown.conditions, conditions(s), s.now)
	newest := s.snapshot()
	newest.Order = l.state.shown.order
	l.newest.Store(newest)
}

// settle answers the orders of which nothing is under way any longer.
func (l *loop) settle(next action) {
	if l.task != nil || !l.quiet.first.IsZero() || next.kind != doNothing {
		return
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(w waiter) bool {
		if w.look > l.state.source.answers {
			return false
		}
		w.order.Settle()
		return true
	})
}

// inputs are the channels on which the rest of the world speaks to the loop.
type inputs struct {
	looks    chan look       // at the branch
	fleet    <-chan struct{} // the fleet has changed
	reported <-chan struct{} // peels have reported something
}

// A look tells of the branch, and of the identities that were read after it; nil if they could not be.
type look struct {
	source.Event
	ring *sops.Ring
}

// await takes one event.
func (l *loop) await(ctx context.Context, in inputs, until time.Time) error {
	s := &l.state
	now := time.Now()
	reported := in.reported
	if s.record.Rollout == nil {
		reported = nil
	} else if next := s.now.Add(reportQuiet); now.Before(next) {
		reported, until = nil, earlier(until, next)
	}
	until = earlier(until, l.quiet.until)
	var timer <-chan time.Time
	if !until.IsZero() {
		timer = time.After(time.Until(until))
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case look := <-in.looks:
		l.onRing(look.ring)
		l.onLook(look.Event)
	case <-in.fleet:
		l.quiet.changed(time.Now())
	case o := <-l.orders:
		return l.onOrder(ctx, o)
	case r := <-l.results:
		return l.onResult(ctx, r)
	case <-reported:
	case <-timer:
		if !l.quiet.first.IsZero() && !time.Now().Before(l.quiet.until) {
			l.quiet = quiet{}
			s.changes++
		}
	}
	return nil
}

// onLook takes what a look at the branch has told.
func (l *loop) onLook(e source.Event) {
	s := &l.state
	if s.shown.looking = e.Looking; e.Looking {
		return
	}
	s.source = branch{attempt: s.source.attempt + 1, answers: e.Answers, head: e.Head, observed: e.Observed, read: e.Read, err: e.Err}
	l.metrics.Attempted()
	l.metrics.Took(metrics.Fetch, e.Took)
	if e.Err != nil {
		reason := "Failed"
		if g, ok := errors.AsType[*gitrepo.Error](e.Err); ok {
			reason = string(g.Reason)
		}
		l.metrics.Failed(reason)
		l.log.Warn("branch not read", "reason", reason, "err", e.Err)
	}
}

// onRing takes identities that have changed: every revision is compiled with them again.
func (l *loop) onRing(ring *sops.Ring) {
	if ring == nil || ring.Equal(l.ring) {
		return
	}
	l.ring = ring
	l.state.changes++
	l.log.Info("identities have changed")
}

// onOrder carries out what a person wants. Its error ends the term.
func (l *loop) onOrder(ctx context.Context, o *control.Order) error {
	s := &l.state
	if o.Change != nil {
		var frozen settings.Commit
		if f := freezeOf(s); f != nil {
			frozen = f.Commit
		}
		next, err := o.Change(s.record, control.Seen{Now: time.Now(), Owner: s.owner, Head: s.source.head, Source: s.own, Frozen: frozen})
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
	l.state.shown.order = control.Carried{Verb: o.Verb, By: o.By, Time: time.Now()}
	l.show(action{reason: s.shown.waits}) // before the answer, which reads it: the next write may take long
	o.Accept(nil)
	w := waiter{order: o}
	if o.Look {
		w.look = l.source.Look(source.Order)
	}
	l.waiting = append(l.waiting, w)
	return nil
}

// onResult takes the result of a task. What no longer fits the record is dropped. Its error ends the term.
func (l *loop) onResult(ctx context.Context, out result) error {
	s := &l.state
	fits := l.task.fits(s)
	l.task.cancel()
	l.task = nil
	if _, conflict := errors.AsType[*settings.ConflictError](out.err); conflict || errors.Is(out.err, record.ErrConflict) {
		return out.err
	}
	if out.err != nil {
		if fits && ctx.Err() == nil {
			l.onFailure(out)
		} else if out.task.kind == doPublish {
			s.prepared = nil
		}
		return nil
	}
	switch out.task.kind {
	case doJudge:
		if out.judged.arrived = s.basis(); fits {
			s.judged, s.failed.judge = out.judged, failure{}
		}
		l.metrics.Took(metrics.Compile, out.took)
	case doCompare:
		s.compared, s.failed.judge = out.compared, failure{}
	case doMeasure:
		s.measured, s.failed.judge = out.measured, failure{}
	case doPrepare:
		if fits {
			s.prepared, s.failed.serve = out.prepared, failure{}
		}
	case doPublish:
		if !s.record.Done {
			if s.shown.written != s.record.Commit {
				s.shown.written, s.shown.writes = s.record.Commit, 0
			}
			s.shown.writes += out.writes
		}
		if fits && s.prepared != nil {
			written := *s.prepared
			written.due, written.lacking = nil, 0
			s.prepared = &written
		}
		l.metrics.Took(metrics.Publish, out.took)
	case doRepublish:
		s.republishAt = time.Now().Add(republishEvery)
		if len(out.stale) > 0 {
			s.changes++
			l.log.Warn("peels do not run their settings, which are written again", "peels", plan.FirstOf(out.stale, 20))
		}
	}
	return nil
}

// onFailure notes that a task failed, and until when it is not tried again.
func (l *loop) onFailure(out result) {
	s := &l.state
	f := l.failed(fmt.Errorf("cannot %s: %w", out.task.kind, out.err))
	f.err = out.err
	switch out.task.kind {
	case doJudge, doCompare, doMeasure:
		s.failed.judge = f
	default:
		s.failed.serve = f
		if out.task.kind == doPublish {
			s.prepared = nil
		}
		l.metrics.Failed("PublishFailed")
	}
	if e, ok := errors.AsType[*gitrepo.Error](out.err); ok && e.Reason == gitrepo.StoreDamaged {
		l.source.Look(source.Damaged)
	}
	l.log.Warn("task failed", "task", string(out.task.kind), "commit", settings.Commit(out.task.commit), "err", out.err)
}
