//go:build linux

package state

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/service"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// maxCuts is how often the end of the peel may cut off the command of a state. Then it waits for a person: it may be
// what ends the peel.
const maxCuts = 2

// command plans cmd.run. With react it runs though the path that it creates is there.
func (x *run) command(ctx context.Context, s *state.State, a *state.CmdRun, react bool) ([]host.Step, error) {
	if a.Creates != "" && !react && !x.again { // an attempt that failed may have made it
		info, err := x.world.Stat(a.Creates)
		if err != nil || info.Kind != 0 {
			return nil, err
		}
	}
	if x.memory.Begun[s.Name] >= maxCuts {
		return nil, fmt.Errorf(
			"the command was cut off twice: the peel or the host ended while it ran; "+
				"it waits until somebody runs state.settle %s",
			s.Name,
		)
	}
	what := a.Command
	if a.Argv != nil {
		what = strings.Join(a.Argv, " ")
	}
	var steps []host.Step
	if len(x.world.Unread()) > 0 && service.IsRunning() {
		steps = append(steps, service.Reload(x.world, "systemd", x.services.Forget)) // the command may call systemctl
	}
	return append(steps, host.Step{
		Change:  host.Change{Do: "run", What: what},
		Apply:   func(work context.Context) error { return x.runCommand(ctx, work, s, a) },
		Predict: func(w *host.World) { w.Unknowable() },
	}), nil
}

// runCommand runs the command of a state. That it began is on the disk before.
func (x *run) runCommand(ctx, work context.Context, s *state.State, a *state.CmdRun) error {
	x.memory.begin(s.Name)
	if err := x.memory.save(); err != nil {
		return err
	}
	end, err := x.o.Exec(work, Command{
		Shell: a.Command,
		Argv:  a.Argv,
		Cwd:   a.Cwd,
		Env:   a.Env,
		User:  a.User,
		Stdin: a.Stdin,
	})
	if err == nil && end.Code >= 0 || !isCutOff(ctx) {
		x.memory.end(s.Name)
		err = errors.Join(err, x.memory.save())
	}
	switch {
	case err != nil:
		return err
	case end.Code != 0 && !isChange(a.ChangedIf, Ended{Code: end.Code}):
		return fmt.Errorf("the command ended with %d: %s", end.Code, end.Output)
	}
	if a.Creates != "" {
		if info, err := x.world.Stat(a.Creates); err != nil || info.Kind == 0 {
			return errors.Join(fmt.Errorf("the command did not create %s", a.Creates), err)
		}
	}
	if a.ChangedIf != nil && !isChange(a.ChangedIf, end) {
		return errNothingChanged
	}
	return nil
}

// errNothingChanged is the error of a command that ran and says that it changed nothing.
var errNothingChanged = errors.New("the command ran and changed nothing")

// isChange reports whether a command that ended says that it changed something.
func isChange(c *state.ChangedIf, end Ended) bool {
	if c == nil {
		return false
	}
	if slices.Contains(c.Exit, uint32(end.Code)) {
		return true
	}
	re, err := regexp.Compile(c.Output)
	return c.Output != "" && err == nil && re.MatchString(end.Output)
}

// isCutOff reports whether the run was ended while a command ran, which a signal has ended. systemd signals the command
// and the peel at about the same time.
func isCutOff(ctx context.Context) bool {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	_, isLate := errors.AsType[*timeoutError](context.Cause(ctx))
	return ctx.Err() != nil && !isLate
}

// A timeoutError says that a state took too long.
type timeoutError struct{ limit time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("it took longer than its timeout of %s", e.limit)
}

// errNothingToSettle is the error of [Runner.Settle] about a state that owes nothing.
var errNothingToSettle = errors.New("it owes no reaction, and its command was not cut off")

// Settle counts what a state owes as made, and its command that was cut off as ended.
func (r *Runner) Settle(ctx context.Context, name string) error {
	unlock, err := lock(ctx, r.o.Lock, false)
	if err != nil {
		return err
	}
	defer unlock()
	m, err := loadMemory(r.o.Dir)
	if err != nil {
		return err
	}
	if owed, begun := m.settle(name), m.end(name); !owed && !begun {
		return fmt.Errorf("cannot settle the state %q: %w", name, errNothingToSettle)
	}
	return m.save()
}
