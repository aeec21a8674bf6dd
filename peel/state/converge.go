//go:build linux

package state

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// converge plans a state and applies or predicts its steps. The end of the run ends ctx; work goes on until the timeout
// of the state, so that a step that has begun can end.
func (x *run) converge(ctx, work context.Context, s *state.State, o *Outcome) error {
	react, doubt, err := x.reaction(ctx, s)
	if err != nil {
		return err
	}
	x.world.TakeWarnings()
	steps, err := x.plan(ctx, s, react)
	if err != nil {
		return err
	}
	o.Comment = x.world.TakeWarnings()
	if doubt != "" && len(steps) == 0 {
		return &host.UnknownError{Why: doubt}
	}
	wanted := x.wanted(s)
	if len(steps) > 0 {
		o.Cause = x.cause(s, wanted)
	}
	switch {
	case len(steps) == 0:
		o.Result = Unchanged
	case x.q.Test && asksCommand(s):
		return &host.UnknownError{Why: "the command would run, and says then whether it changes something"}
	case x.q.Test:
		return x.predict(ctx, steps, o)
	default:
		if err := x.intend(ctx, s, react); err != nil {
			return err
		}
		if err := x.change(ctx, work, s, steps, o); err != nil {
			return err
		}
	}
	if x.q.Test {
		return nil
	}
	x.memory.holds(s.Name, wanted)
	if x.putOff == s.Name {
		return x.memory.save() // it owes the reaction until the unit has another stamp
	}
	return x.settle(s)
}

// asksCommand reports whether a state is a command that says whether it changed something.
func asksCommand(s *state.State) bool {
	a, isCommand := s.Args.(*state.CmdRun)
	return isCommand && a.ChangedIf != nil
}

// change applies the steps. A command that changed nothing leaves no change, and nobody owes it a reaction.
func (x *run) change(ctx, work context.Context, s *state.State, steps []host.Step, o *Outcome) error {
	err := x.apply(ctx, work, s, steps, o)
	if errors.Is(err, errNothingChanged) && len(steps) == 1 {
		o.Result, o.Comment = Unchanged, errNothingChanged.Error()
		o.Cause, o.Changes = "", nil
		x.memory.disown(s.Name)
		return x.memory.save()
	}
	if err != nil && !errors.Is(err, errNothingChanged) {
		return err
	}
	o.Result, o.Comment = Changed, both(o.Comment, x.packages.Aside())
	return nil
}

// both returns two comments as one. Each may be empty.
func both(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// predict lays the steps over the world.
func (x *run) predict(ctx context.Context, steps []host.Step, o *Outcome) error {
	planned := x.world.Planned()
	for _, step := range steps {
		if step.Check != nil {
			if err := step.Check(ctx); err != nil && planned {
				return &host.UnknownError{Why: "it may depend on a predicted change: " + err.Error()}
			} else if err != nil {
				return err
			}
		}
		o.Changes = append(o.Changes, step.Change)
		if step.Predict != nil {
			step.Predict(x.world)
		}
	}
	x.world.SetUnread(host.UnitPaths(steps)...)
	o.Result = WouldChange
	return nil
}

// settle stores that a state owes no reaction. Test mode stores nothing.
func (x *run) settle(s *state.State) error {
	if x.q.Test || !x.memory.settle(s.Name) {
		return nil
	}
	return x.memory.save()
}

// reaction reports whether a service or command has to react to a change that it watches. doubt says, if not empty, why
// that is not known.
func (x *run) reaction(ctx context.Context, s *state.State) (react bool, doubt string, err error) {
	a, isService := s.Args.(*state.ServiceRunning)
	_, isCommand := s.Args.(*state.CmdRun)
	watched := x.watch[s.Name]
	if !isService && !isCommand || len(watched) == 0 {
		return false, "", nil
	}
	owed := slices.ContainsFunc(x.memory.Owed[s.Name], func(name string) bool { return slices.Contains(watched, name) })
	changed, doubtful := x.changed(watched)
	if x.q.Test && changed == "" && doubtful != "" {
		doubt = "it depends on whether " + doubtful + " changes"
	}
	if isService && owed && x.memory.Acted[s.Name] != "" {
		// The peel ended after systemctl was called. If the unit started or reloaded since, the reaction was made.
		stamp, err := x.services.Stamp(ctx, a.Name)
		if err != nil {
			return false, "", err
		}
		owed = stamp == x.memory.Acted[s.Name]
	}
	return owed || changed != "", doubt, nil
}

// cause says why a state changes the host. A reaction has the cause of the change that it reacts to.
func (x *run) cause(s *state.State, wanted string) Cause {
	if wanted == "" || x.memory.Held[s.Name] != wanted {
		return Intended
	}
	reactsTo := slices.Concat(x.memory.Owed[s.Name], x.watch[s.Name], x.onchanges[s.Name])
	for _, name := range reactsTo {
		d := x.done[name]
		if d != nil && d.Cause == Intended ||
			slices.Contains(x.memory.Owed[s.Name], name) && (d == nil || d.Cause == "") {
			return Intended
		}
	}
	return Drift
}

// intend stores what a change will owe, and of a reaction how the unit was before it.
func (x *run) intend(ctx context.Context, s *state.State, react bool) error {
	x.memory.owe(s.Name, x.reactors[s.Name])
	if a, ok := s.Args.(*state.ServiceRunning); ok && react {
		stamp, err := x.services.Stamp(ctx, a.Name)
		if err != nil {
			return err
		}
		x.memory.act(s.Name, stamp)
	}
	return x.memory.save()
}

// apply runs the steps and plans again. [run.intend] comes first.
func (x *run) apply(ctx, work context.Context, s *state.State, steps []host.Step, o *Outcome) error {
	defer x.forget(s)
	if err := x.noteUnits(steps); err != nil {
		return err
	}
	if err := x.applySteps(ctx, work, s, steps, o); err != nil {
		return errors.Join(err, x.storeUnread())
	}
	if err := x.storeUnread(); err != nil {
		return err
	}
	if _, isCommand := s.Args.(*state.CmdRun); isCommand {
		return nil
	}
	x.forget(s)
	left, err := x.plan(work, s, false)
	if err != nil {
		return fmt.Errorf("after its changes: %w", err)
	}
	if len(left) > 0 {
		return fmt.Errorf("after its changes the state does not hold: %s %s is still to be done", left[0].Do,
			left[0].What)
	}
	return nil
}

// applySteps runs the steps until one fails. What was done is in the changes of the outcome.
func (x *run) applySteps(ctx, work context.Context, s *state.State, steps []host.Step, o *Outcome) error {
	for i, step := range steps {
		if err := context.Cause(ctx); err != nil && step.Apply != nil {
			return err
		}
		if step.Apply == nil { // part of the step before
			o.Changes = append(o.Changes, step.Change)
			continue
		}
		before := x.services.Own()
		if err := step.Apply(work); err != nil {
			x.failed(work, s, steps[i:], o)
			if !wasEnded(ctx, err) {
				x.memory.act(s.Name, "")
			}
			return errors.Join(err, x.memory.save())
		}
		o.Changes = append(o.Changes, step.Change)
		if x.services.Own() != before {
			x.putOff = s.Name
		}
	}
	return nil
}

// failed notes what became of a step that failed, the first of steps, and of its parts. A transaction that failed may
// have changed some of its packages.
func (x *run) failed(work context.Context, s *state.State, steps []host.Step, o *Outcome) {
	isOfPackages := strings.HasPrefix(s.Function, "pkg.")
	for i, step := range steps {
		switch {
		case i > 0 && step.Apply != nil:
			return
		case isOfPackages && x.packages.Made(context.WithoutCancel(work), step.Change):
			o.Changes = append(o.Changes, step.Change)
		default:
			o.tried = append(o.tried, step.Change)
		}
	}
}

// wasEnded reports whether a step was ended rather than failed. What it told systemd to do may be done all the same.
func wasEnded(ctx context.Context, err error) bool {
	exit, isExit := errors.AsType[*exec.ExitError](err)
	return ctx.Err() != nil || isExit && exit.ExitCode() < 0
}

// forget has what is known of the host read again where the change of a state may have an effect.
func (x *run) forget(s *state.State) {
	x.services.Forget()
	if !strings.HasPrefix(s.Function, "file.") && !strings.HasPrefix(s.Function, "service.") {
		x.packages.Forget()
	}
}
