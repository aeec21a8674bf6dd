package reconciler

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/control"
	"github.com/seed-c01c3da5/zester/reconciler/decide"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/source"
	"github.com/seed-c01c3da5/zester/settings/sops"
	"github.com/seed-c01c3da5/zester/settings/status"
)

const (
	burstPause     = 50 * time.Millisecond // without a change of the fleet ends a burst of changes
	burstMost      = time.Second           // the longest burst
	reportQuiet    = 50 * time.Millisecond // least time between two evaluations of a rollout after reports
	tryAgainAfter  = 5 * time.Second       // least pause after a task or a write failed; the most is twice that
	republishEvery = time.Minute
)

// A loop decides and acts. One goroutine owns it; other goroutines read newest.
type loop struct {
	state   decide.State
	store   *record.Store
	source  *source.Source
	worker  *Worker
	watch   watch // of the rollout under way
	metrics *Metrics
	log     *slog.Logger

	orders  chan *control.Order
	results chan Result
	task    *runningTask // nil while the worker is idle
	tasks   sync.WaitGroup
	waiting []waiter
	burst   burst
	ring    *sops.Ring
	newest  atomic.Pointer[control.Snapshot]
}

// A runningTask is the task that the worker runs now.
type runningTask struct {
	Task
	cancel context.CancelFunc
}

// A waiter is a stored order whose consequences are not complete.
type waiter struct {
	order   *control.Order
	request uint64 // number of its request to the source, 0 if none
}

// A burst is a series of changes of the fleet; plans are made again when it ends. The zero value is no burst.
type burst struct {
	first time.Time // the first change
	until time.Time // when the burst ends without another change
}

func (b *burst) add(now time.Time) {
	if b.first.IsZero() {
		b.first = now
	}
	b.until = decide.Earlier(now.Add(burstPause), b.first.Add(burstMost))
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
		l.show()
		l.settle(next)
		if err := l.await(ctx, in, next.Until); err != nil {
			return err
		}
	}
}

// act carries out actions until there is none, or a task is under way. It returns the last decision.
func (l *loop) act(ctx context.Context) (decide.Action, error) {
	for {
		l.state.Now = time.Now()
		l.observe(ctx)
		a := decide.Next(&l.state)
		if l.task != nil && !l.task.fits(&l.state) {
			l.task.cancel() // its result is dropped
		}
		switch {
		case a.Kind == decide.DoNothing:
			return a, nil
		case a.Kind == decide.DoYield:
			return a, errOtherSource
		case a.IsTask() && l.task != nil:
			return decide.Action{Kind: decide.DoNothing, Reason: a.Reason}, nil
		case a.Kind == decide.DoPublish:
			if err := l.write(ctx, a); err != nil {
				return a, err
			}
			if l.state.Failed.Write.Err == nil {
				l.start(ctx, a)
			}
		case a.IsTask():
			l.start(ctx, a)
		default:
			if err := l.write(ctx, a); err != nil {
				return a, err
			}
		}
	}
}

// observe has package decide see the peels of the rollout under way, and the first peel with settings that the bus does
// not know. More such peels are counted when documents are published again.
func (l *loop) observe(ctx context.Context) {
	s := &l.state
	if s.Lost == nil {
		s.Lost = l.worker.lost()
	}
	r, p := s.Record.Rollout, s.Prepared
	l.watch.follow(ctx, r)
	if r == nil || p == nil || p.Goal != decide.GoalOf(&s.Record) {
		s.Observe(nil)
		return
	}
	l.watch.runs.Watch(p.Watched)
	seen := l.watch.observe(&s.Record, p, s.Now)
	s.Observe(&seen)
}

// fits reports whether the result of a task is still wanted.
func (j *runningTask) fits(s *decide.State) bool {
	switch j.Kind {
	case decide.DoJudge, decide.DoCompare, decide.DoMeasure:
		return j.Commit == s.Source.Head && (j.Kind == decide.DoCompare) == (s.Record.Pinned != nil)
	case decide.DoPrepare, decide.DoPublish:
		return j.Goal == decide.GoalOf(&s.Record)
	}
	return true
}

// start begins a task.
func (l *loop) start(ctx context.Context, a decide.Action) {
	s := &l.state
	j := Task{
		Kind:    a.Kind,
		Commit:  a.Commit,
		Goal:    decide.GoalOf(&s.Record),
		Basis:   s.Basis(),
		Attempt: s.Source.Attempt,
		Record:  s.Record,
		Ring:    l.ring,
	}
	if a.Kind == decide.DoPublish {
		j.Due = s.Prepared.Due
	}
	ctx, cancel := context.WithCancel(ctx)
	l.task = &runningTask{j, cancel}
	l.tasks.Go(func() { l.results <- l.worker.Do(ctx, j) })
}

// write stores the record of an action. Its error ends the term.
func (l *loop) write(ctx context.Context, a decide.Action) error {
	s := &l.state
	before := s.Record
	if err := l.put(ctx, a.Next); err != nil {
		if errors.Is(err, record.ErrConflict) || ctx.Err() != nil {
			return err
		}
		s.Failed.Write = l.failed(err)
		l.log.Warn("record not written", "action", string(a.Kind), "err", err)
		return nil
	}
	s.Failed.Write = decide.Failure{}
	l.onWritten(a.Kind, before)
	return nil
}

// onWritten logs a change of the record and updates the state that depends on it.
func (l *loop) onWritten(kind decide.Kind, before record.Record) {
	s, r := &l.state, &l.state.Record
	switch kind {
	case decide.DoRefuse:
		l.log.Error("revision refused, the last good one stays in force", "commit", s.Judged.Commit,
			"reason", s.Judged.Refused.Reason, "err", s.Judged.Refused.Message())
		l.metrics.Failed(s.Judged.Refused.Reason)
	case decide.DoBlock:
		l.log.Error("revision waits for approval", "commit", r.Blocked.Commit, "plan", r.Blocked.Hash,
			"reason", r.Blocked.Reason)
		l.metrics.Failed(r.Blocked.Kind)
	case decide.DoFreeze:
		l.log.Warn("a freeze holds the revision", "commit", s.Judged.Commit, "reason", r.LastAttempt().Reason)
	case decide.DoEnforce, decide.DoBeginRollout:
		s.Shown.Moved = s.Judged.Moved
		s.Measured = nil
		message := "revision goes out"
		if kind == decide.DoBeginRollout {
			message = "rollout begins"
		}
		l.log.Info(message, "commit", s.Judged.Commit, "author", s.Judged.Info.Author, "plan", s.Judged.Guard.Hash)
	case decide.DoNoteLost:
		l.log.Error("older copy of the bus", "err", r.Lost.String())
	case decide.DoNoteFacts:
		if f := &r.Facts; f.Waits() {
			l.log.Error("what new facts take waits for approval", "commit", r.Commit, "plan", f.Hash,
				"peels", f.Peels.Len(), "reason", f.Reason)
			l.metrics.Failed(status.FactsChanged)
		}
	case decide.DoStep:
		if stage, was := r.Rollout.Stage, before.Rollout.Stage; stage.Size > 0 &&
			(stage.Wave != was.Wave || stage.Size != was.Size) {
			l.log.Info("wave begins", "commit", r.Rollout.Commit, "wave", r.Rollout.Wave().Name, "peels", stage.Size)
		}
	case decide.DoReleasePin:
		l.log.Info("pin released", "commit", before.Pinned.Commit, "head", s.Source.Head)
	case decide.DoComplete:
		s.Shown.Completed, s.Shown.Completion = r.Commit, s.Step.Reason
		l.log.Info("every wave has passed", "commit", r.Commit)
	case decide.DoRollBack:
		l.log.Error("revision rolled back", "commit", before.Rollout.Commit, "reason", s.Step.Reason)
		l.metrics.Failed("WaveFailed")
	case decide.DoFinish:
		writes := 0
		if s.Shown.Written == r.Commit {
			writes = s.Shown.Writes
		}
		l.log.Info("revision in force", "commit", r.Commit, "writes", writes)
	}
}

// put writes the record.
func (l *loop) put(ctx context.Context, next record.Record) error {
	stored, err := l.store.Write(ctx, next)
	if err == nil {
		l.state.Record = stored
	}
	return err
}

func (l *loop) failed(err error) decide.Failure {
	return decide.Failure{
		Err:   err,
		Cause: l.state.Cause(),
		Until: time.Now().Add(tryAgainAfter + rand.N(tryAgainAfter)),
	}
}

// show makes a new snapshot for other goroutines.
func (l *loop) show() {
	l.newest.Store(l.state.Show(l.task != nil))
}

// settle calls Settle of the orders whose consequences are complete.
func (l *loop) settle(next decide.Action) {
	if l.task != nil || !l.burst.first.IsZero() || next.Kind != decide.DoNothing {
		return
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(w waiter) bool {
		if w.request > l.state.Source.Answers {
			return false
		}
		w.order.Settle()
		return true
	})
}
