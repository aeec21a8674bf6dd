package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// Errors of the commands below.
var (
	ErrNoEntry   = errors.New("there is no such entry in the schedule")
	ErrNotActive = errors.New("the entry is not active")
	ErrBusy      = errors.New("the entry runs already")
)

// Pause keeps an entry from running until pause.Until or until Resume is called, across restarts and reloads. Runs in
// flight go on. The pause replaces an earlier one. Pause sets pause.At. Pause, Resume and Skip return when the change
// is on the disk.
func (s *Scheduler) Pause(ctx context.Context, name string, pause Override) error {
	return s.order(ctx, "pause", name, func(o *owner, e *entry) error {
		now := o.s.now()
		pause.At = now.Wall
		e.Paused = &pause
		o.halt(e, ledger.Paused, now)
		o.note(e)
		o.s.log.Info("entry is paused", "entry", name, "by", pause.By, "why", pause.Reason, "until", pause.Until)
		return nil
	})
}

// Resume ends a pause by an operator or by failures, and cancels a skip. Fires missed during the pause are not made up.
// An entry that is not paused keeps its next fire.
func (s *Scheduler) Resume(ctx context.Context, name, by string) error {
	return s.order(ctx, "resume", name, func(o *owner, e *entry) error {
		o.resume(e, o.s.now(), by)
		return nil
	})
}

func (o *owner) resume(e *entry, now Instant, by string) {
	was, pause := e.IsActive(), e.Paused
	e.Paused, e.Skip, e.FailuresInRow = nil, nil, 0
	o.note(e)
	if !was {
		o.activate(e, now)
	}
	// it ended while the peel was down
	if pause != nil && !pause.Until.IsZero() && pause.Until.Before(now.Wall) && e.IsActive() {
		e.Since = pause.Until
		o.lose(e, Loss{From: pause.Until}, now)
	}
	o.s.log.Info("entry is resumed", "entry", e.Name, "by", by, "next", o.nextFire(e))
}

// Skip keeps the next fire of an entry's timing from running, unless it comes after skip.Until. It returns the nominal
// time that is planned now; a run or a new timing may still move it. Skip sets skip.At.
func (s *Scheduler) Skip(ctx context.Context, name string, skip Override) (nominal time.Time, err error) {
	err = s.order(ctx, "skip a run of", name, func(o *owner, e *entry) error {
		if !e.IsActive() || e.Next.Trigger == "" {
			return o.notActive(e)
		}
		skip.At = o.s.now().Wall
		e.Skip = &skip
		nominal = o.time(e.Next, e.Next.Nominal)
		o.s.log.Info("the next fire will be skipped", "entry", name, "by", skip.By, "why", skip.Reason,
			"nominal", nominal)
		return nil
	})
	return nominal, err
}

// Start runs an entry now, without splay, even if its windows are closed or its breaker is open. Its next fire stays.
// If the entry has no free slot, if_running decides: the run waits, or the error is [ErrBusy]. For an entry that is
// disabled or paused the error is [ErrNotActive].
func (s *Scheduler) Start(ctx context.Context, name, by string) error {
	return s.command(ctx, "run", name, func(o *owner, e *entry) error {
		if !e.IsActive() {
			return o.notActive(e)
		}
		now := o.s.now()
		o.finishEnded()
		at := now.Wall.In(o.s.o.Zone)
		f := Fire{
			Name:    name,
			Trigger: wire.TriggerManual,
			Nominal: at,
			Fired:   at,
			Started: at,
			By:      by,
			listed:  e.byHand(at),
		}
		if !o.enter(e, f, now) && e.Spec.Overlap.IfRunning == schedule.IfRunningSkip {
			return ErrBusy
		}
		o.s.log.Info("entry is run by hand", "entry", name, "by", by)
		return nil
	})
}

// maxNext is the highest number of times that Next returns.
const maxNext = 100

// Next returns the next n nominal times, at most 100, at which an entry may run. It assumes that runs take no time and
// that nobody runs the entry by hand. Times at which the windows are closed are left out; with outside: defer they are
// replaced by the time when the windows open. There are none for an entry that is not active.
func (s *Scheduler) Next(ctx context.Context, name string, n int) (fires []time.Time, err error) {
	err = s.command(ctx, "list the next runs of", name, func(o *owner, e *entry) error {
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

// order is command for a change that has to survive a restart: it returns when the change is on the disk. If the disk
// refuses, the error says that the change holds until the process ends.
func (s *Scheduler) order(ctx context.Context, what, name string, f func(*owner, *entry) error) error {
	stored := make(chan error, 1)
	err := s.command(ctx, what, name, func(o *owner, e *entry) error {
		err := f(o, e)
		if err == nil {
			o.Waiting = append(o.Waiting, stored)
		}
		return err
	})
	if err != nil {
		return err
	}
	select {
	case err = <-stored:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("cannot %s %q for good, a restart of the peel takes it back: %w", what, name, err)
	}
	return nil
}

// command calls f with an entry of the schedule. what names the command in errors.
func (s *Scheduler) command(ctx context.Context, what, name string, f func(*owner, *entry) error) error {
	var refused error
	err := s.do(ctx, func(o *owner) {
		if e := o.entries[name]; e != nil && e.Spec != nil {
			refused = f(o, e)
			o.Dirty, e.dirty = true, true
		} else {
			refused = o.noEntry(name)
		}
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return fmt.Errorf("cannot %s %q: %w", what, name, err)
	}
	return nil
}

// noEntry returns an error with a suggestion: the name of an entry that the schedule has.
func (o *owner) noEntry(name string) error {
	var names []string
	for known, e := range o.entries {
		if e.Spec != nil {
			names = append(names, known)
		}
	}
	slices.Sort(names)
	return fmt.Errorf("%w%s", ErrNoEntry, strictyaml.Suggest(name, names))
}

// notActive returns the error about an entry that cannot fire, with the reason.
func (o *owner) notActive(e *entry) error {
	state, why := e.State(o.s.now(), e.hasAllRuns())
	if state == StateDisabled {
		why = "its field enabled is false"
	}
	return fmt.Errorf("%w: %s", ErrNotActive, why)
}
