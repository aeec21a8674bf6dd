package scheduler

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/peel/scheduler/rules"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A run is one fire that was let through.
type run struct {
	e       *entry
	fire    Fire
	hash    string // of the entry when it started
	timing  string // of the entry's timing then
	file    string // has its record; empty if there is none
	probes  bool   // the entry's breaker waits for its end
	yields  bool   // it was canceled for the next run
	cancel  context.CancelCauseFunc
	over    chan struct{} // closed when it must not be tried again
	result  wire.Result
	reports bool // it is reported after its end
	stored  bool // the report is stored
	ended   rules.Instant
}

// carryOut is the goroutine of a run.
func (s *Scheduler) carryOut(ctx context.Context, r *run) {
	r.result = wire.Result{Error: "the run ended without a result"} // for an Exec that ends its goroutine
	defer func() {
		r.cancel(nil)
		r.ended = s.now()
		s.conclude(r)
	}()
	s.recordBegin(r)
	r.result = s.attempts(ctx, r)
}

// maxReports is how many reports may be in progress at a time. Each holds the result of its run in memory.
const maxReports = 64

// conclude hands an ended run to the owner, which frees its slot, and then stores its report. If [maxReports] others are in
// progress it stores the report first: the run keeps its slot, so that reports do not accumulate in memory.
func (s *Scheduler) conclude(r *run) {
	s.recordEnd(r, r.end())
	if s.o.Report == nil || !r.fire.Entry.ReturnJob.Wants(r.result.Success) {
		s.hand(s.ended, r)
		return
	}
	r.reports = true
	select {
	case s.reports <- struct{}{}:
		s.hand(s.ended, r)
		s.store(r)
		<-s.reports
	default:
		s.store(r)
		s.hand(s.ended, r)
	}
	s.hand(s.reported, r)
}

// store stores the report of a run and adds that to the run's record.
func (s *Scheduler) store(r *run) {
	if r.stored = s.o.Report(r.fire, r.result); r.stored {
		end := r.end()
		end.Reported = true
		s.recordEnd(r, end)
	}
}

// end returns the end of a run for its record.
func (r *run) end() history.RunEnd {
	return history.RunEnd{Ended: r.ended.Wall, Success: r.result.Success, Error: history.CutError(r.result.Error)}
}

// hand gives a run to the owner, unless the owner has stopped waiting.
func (s *Scheduler) hand(to chan<- *run, r *run) {
	select {
	case to <- r:
	case <-s.gone:
	}
}

// exec calls Exec within the entry's timeout. A panic is a failure.
func (s *Scheduler) exec(ctx context.Context, f Fire) (out wire.Result) {
	if limit := f.Entry.Timeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("timed out after %s", limit))
		defer cancel()
	}
	defer func() {
		if p := recover(); p != nil {
			out = wire.Result{Error: fmt.Sprintf("panic: %v", p)}
			s.log.Error("run panicked", "entry", f.Name, "err", p, "stack", string(debug.Stack()))
		}
	}()
	out = s.o.Exec(ctx, f)
	if ctx.Err() == nil || out.Success {
		return out
	}
	if cause := context.Cause(ctx).Error(); out.Error == "" {
		out.Error = cause
	} else if !strings.Contains(out.Error, cause) {
		out.Error = cause + ": " + out.Error
	}
	return out
}
