package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/peel/scheduler/rules"
)

// Why the scheduler does not do what somebody asks for.
var (
	ErrNoEntry   = errors.New("there is no such entry in the schedule")
	ErrNotActive = errors.New("the entry is not active")
	ErrBusy      = errors.New("the entry runs already")
)

// Pause keeps an entry from running until the order ends or Resume is called, over restarts and reloads. Runs in
// flight go on. An entry that is paused already gets the new order. At is set by Pause.
func (s *Scheduler) Pause(ctx context.Context, name string, order history.Override) error {
	return s.command(ctx, "pause", name, func(o *owner, e *entry) error {
		now := o.s.now()
		order.At = now.Wall
		e.Paused = &order
		o.halt(e, history.Paused, now)
		o.notePaused(e)
		o.s.log.Info("entry is paused", "entry", name, "by", order.By, "why", order.Reason, "until", order.Until)
		return nil
	})
}

// Resume ends a pause, also one that came of failures, and takes back a skip. Fires that came meanwhile are not made
// up. An entry that is not paused stays as it is.
func (s *Scheduler) Resume(ctx context.Context, name, by string) error {
	return s.command(ctx, "resume", name, func(o *owner, e *entry) error {
		o.resume(e, o.s.now(), by)
		return nil
	})
}

func (o *owner) resume(e *entry, now rules.Instant, by string) {
	was := e.IsActive()
	e.Paused, e.Skip, e.FailuresInRow = nil, nil, 0
	o.notePaused(e)
	if !was {
		o.activate(e, now)
	}
	o.s.log.Info("entry is resumed", "entry", e.Name, "by", by, "next", o.nextFire(e))
}

// Skip has the next fire of an entry's timing not run, unless it comes after the order has ended. It returns the
// fire's nominal time, as far as it can be known.
func (s *Scheduler) Skip(ctx context.Context, name string, order history.Override) (nominal time.Time, err error) {
	err = s.command(ctx, "skip a run of", name, func(o *owner, e *entry) error {
		if !e.IsActive() || e.Next.Trigger == "" {
			return ErrNotActive
		}
		order.At = o.s.now().Wall
		e.Skip = &order
		nominal = o.time(e.Next, e.Next.Nominal)
		o.s.log.Info("next fire is to be skipped", "entry", name, "by", order.By, "why", order.Reason, "nominal", nominal)
		return nil
	})
	return nominal, err
}

// Start runs an entry now, without its splay and whatever its windows and its breaker say. Its timer stays. At the
// limit of runs if_running decides: the error is [ErrBusy], or the run waits. An entry that is disabled or paused is
// refused with [ErrNotActive].
func (s *Scheduler) Start(ctx context.Context, name, by string) error {
	return s.command(ctx, "run", name, func(o *owner, e *entry) error {
		if !e.IsActive() {
			return ErrNotActive
		}
		now := o.s.now()
		o.finishEnded()
		at := now.Wall.In(o.s.o.Zone)
		f := Fire{Name: name, Trigger: history.TriggerManual, Nominal: at, Fired: at, Started: at}
		if !o.enter(e, f, now) && !e.isWaiting(f) {
			return ErrBusy
		}
		o.s.log.Info("run was asked for", "entry", name, "by", by)
		return nil
	})
}

// maxNext is how many fires Next returns.
const maxNext = 100

// Next returns the next n nominal times, 100 at the most, at which an entry may run, as if no run took time and none
// were asked for: those when its windows are shut are left out, or replaced by the time when they open where the entry
// wants that. There are none for an entry that is not active.
func (s *Scheduler) Next(ctx context.Context, name string, n int) (fires []time.Time, err error) {
	err = s.command(ctx, "foresee", name, func(o *owner, e *entry) error {
		if e.IsActive() && e.Next.Trigger != "" {
			fires = o.ahead(e, min(n, maxNext))
		}
		return nil
	})
	return fires, err
}

// ahead returns the next n times at which the entry may run, without splay.
func (o *owner) ahead(e *entry, n int) []time.Time {
	return e.Ahead(o.time(e.Next, e.Next.Nominal), o.time(e.Next, e.Next.At), o.s.now().Wall, n, o.s.o.Zone)
}

// command calls f with an entry of the schedule. what names the command in errors.
func (s *Scheduler) command(ctx context.Context, what, name string, f func(*owner, *entry) error) error {
	var refused error
	err := s.do(ctx, func(o *owner) {
		e := o.entries[name]
		if e == nil || e.Spec == nil {
			refused = ErrNoEntry
			return
		}
		refused = f(o, e)
		o.dirty = true
	})
	if err = errors.Join(err, refused); err != nil {
		return fmt.Errorf("cannot %s %q: %w", what, name, err)
	}
	return nil
}
