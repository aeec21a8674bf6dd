//go:build linux

// Package service has the functions of states for units of systemd. Begin a run with [New] and plan with
// [Manager.Running] and [Manager.Dead]. [Status] and [Control] are for people who ask for one unit.
//
// Guarantees:
//   - A plan changes nothing and asks systemd once for all units of the run. [Manager.Forget] has it asked again.
//   - systemd reads its units again, in a step of its own, before the first call for a unit after a file of units
//     changed: systemd says so, or a step of this run or of an earlier one changed it. systemd does not notice a file
//     that overrides one of a package, nor the first drop-in of a unit.
//   - A unit that was started, restarted or reloaded is still up two seconds later; otherwise the error has the last
//     lines of its journal.
//   - A unit that has to be started is not restarted as well.
//   - No step ends the unit that this process belongs to: [Manager.Own] returns the call, which is made after the run.
//   - A unit of type oneshot counts as running once it ended well. systemd forgets units that no other unit needs; such
//     a unit is started again in the next run.
//
// Known gaps: other service managers than systemd. A restart of another unit that takes the unit of this process along
// (PartOf, BindsTo) is not put off.
package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/settings/state"
)

const (
	settle       = 2 * time.Second // after which a unit that was started has to be up
	journalLines = "10"            // of a unit that is not
	maxOutput    = 2000            // bytes of the output of systemctl in an error
)

// A Manager knows the units of a host during one run. It is not safe for concurrent use.
type Manager struct {
	world *host.World
	names []string             // units that are asked for together
	units map[string]host.Unit // nil: not asked yet
	own   OwnCall              // what is to be done after the run
	ended map[string]bool      // units of type oneshot that a step started, and that ended well
}

// New returns a manager for a run over a world, whose states name these units.
func New(w *host.World, names []string) *Manager {
	return &Manager{world: w, names: names, ended: map[string]bool{}}
}

// Own returns the call that ends the unit of this process. Steps of the run put it off.
func (m *Manager) Own() OwnCall { return m.own }

// Forget has systemd asked again, because something on the host changed.
func (m *Manager) Forget() { m.units = nil }

// unit returns a unit as the host has it.
func (m *Manager) unit(ctx context.Context, name string) (host.Unit, error) {
	if u, ok := m.units[name]; ok {
		return u, nil
	}
	names := m.names
	if !slices.Contains(names, name) {
		names = append(slices.Clone(names), name)
	}
	units, err := show(ctx, names)
	if err != nil {
		return host.Unit{}, err
	}
	m.units = units
	return units[name], nil
}

// Stamp identifies the last start, stop, restart or reload of a unit.
func (m *Manager) Stamp(ctx context.Context, name string) (string, error) {
	u, err := m.unit(ctx, state.UnitName(name))
	return u.Stamp, err
}

// planned returns a unit as planned steps leave it. In test mode a unit that a planned step may bring is unknown.
func (m *Manager) planned(ctx context.Context, name string) (host.Unit, error) {
	u, err := m.unit(ctx, state.UnitName(name))
	if err != nil {
		return u, err
	}
	if name := m.world.RemovedWith(u); name != "" {
		return u, &host.UnknownError{
			Why: "the unit " + u.Name + " belongs to the package " + name + ", which would be removed",
		}
	}
	if u = m.world.Unit(u); u.Exists() {
		return u, nil
	}
	err = m.world.Lacks("there is no unit %s on this host", u.Name)
	if _, isUnknown := errors.AsType[*host.UnknownError](err); isUnknown {
		return u, err
	}
	return u, nil
}

// Running plans service.running. With react a unit that is up is restarted, or reloaded.
func (m *Manager) Running(ctx context.Context, a *state.ServiceRunning, react bool) ([]host.Step, error) {
	u, err := m.planned(ctx, a.Name)
	if err != nil {
		return nil, err
	}
	switch {
	case !u.Exists():
		return nil, fmt.Errorf("there is no unit %s on this host", u.Name)
	case u.Load == "masked" && (!a.Unmask || u.Enabled != "masked"):
		return nil, fmt.Errorf("the unit %s is %s; unmask: true allows to start one that is masked", u.Name, u.Enabled)
	case u.Load != "loaded" && u.Load != "masked":
		return nil, fmt.Errorf("systemd cannot use the unit %s: it is %s", u.Name, u.Load)
	}
	var steps []host.Step
	if u.Load == "masked" {
		steps = append(steps, m.step("unmask", u, func(u *host.Unit) { u.Load, u.Enabled = "loaded", "disabled" }))
	}
	if a.Enable != nil && *a.Enable != isEnabled(u) {
		steps = append(steps, m.enable(u, *a.Enable)...)
	}
	isUp := u.IsRunning() || u.Ends && (u.HasEnded || u.Active == "activating" || m.ended[u.Name])
	switch {
	case !isUp:
		steps = append(steps, m.step("start", u, func(u *host.Unit) { u.Active, u.Sub = "active", "running" }))
	case react && a.Reload && u.CanReload && !u.NeedsReload:
		steps = append(steps, m.step("reload", u, func(*host.Unit) {}))
	case react:
		steps = append(steps, m.step("restart", u, func(*host.Unit) {}))
	}
	return m.afterReload(u, steps), nil
}

// afterReload puts a daemon-reload before the steps for a unit, if systemd has to read the unit again, or calls for it
// have to wait until it has read others.
func (m *Manager) afterReload(u host.Unit, steps []host.Step) []host.Step {
	if !u.NeedsReload && (len(steps) == 0 || len(m.world.Unread()) == 0) {
		return steps
	}
	return append([]host.Step{Reload(m.world, u.Name, m.Forget)}, steps...)
}

// Reload returns the step that has systemd read its units again, for the sake of what is named.
func Reload(w *host.World, what string, forget func()) host.Step {
	return host.Step{
		Change: host.Change{Do: "daemon-reload", What: what},
		Apply: func(ctx context.Context) error {
			forget()
			if _, err := systemctl(ctx, "daemon-reload"); err != nil {
				return err
			}
			w.UnitsRead()
			return nil
		},
		Predict: func(w *host.World) { w.PlanUnitsRead() },
	}
}

// IsRunning reports whether the host runs systemd.
func IsRunning() bool {
	_, err := os.Stat("/run/systemd/system")
	return err == nil
}

// isEnabled reports whether a unit comes up by itself after a boot.
func isEnabled(u host.Unit) bool {
	return slices.Contains([]string{"enabled", "alias", "indirect"}, u.Enabled)
}

// enable plans to enable or disable a unit. One that cannot be enabled is started by others, or not at all: that is a
// warning.
func (m *Manager) enable(u host.Unit, on bool) []host.Step {
	if !on {
		return []host.Step{m.step("disable", u, func(u *host.Unit) { u.Enabled = "disabled" })}
	}
	if slices.Contains([]string{"static", "transient", "generated"}, u.Enabled) {
		m.world.Warn("the unit %s is %s: its file has no section [Install], so it cannot be enabled; leave enable out",
			u.Name, u.Enabled)
		return nil
	}
	return []host.Step{m.step("enable", u, func(u *host.Unit) { u.Enabled = "enabled" })}
}

// Dead plans service.dead.
func (m *Manager) Dead(ctx context.Context, a *state.ServiceDead) ([]host.Step, error) {
	u, err := m.planned(ctx, a.Name)
	if err != nil {
		return nil, err
	}
	if !u.Exists() {
		m.world.Warn("there is no unit %s on this host", u.Name)
	}
	var steps []host.Step
	if u.Active != "inactive" && u.Active != "failed" && m.own != (OwnCall{"stop", u.Name}) {
		steps = append(steps, m.step("stop", u, func(u *host.Unit) { u.Active, u.Sub = "inactive", "dead" }))
	}
	if a.Enable != nil && startsAtBoot(u) {
		steps = append(steps, m.enable(u, false)...)
	}
	if a.Mask && u.Enabled != "masked" {
		steps = append(steps, m.step("mask", u, func(u *host.Unit) { u.Load, u.Enabled = "masked", "masked" }))
	}
	if len(steps) > 0 {
		steps = m.afterReload(u, steps)
	}
	return steps, nil
}

// AtBoot plans service.enabled and service.disabled.
func (m *Manager) AtBoot(ctx context.Context, name string, on bool) ([]host.Step, error) {
	u, err := m.planned(ctx, name)
	if err != nil {
		return nil, err
	}
	switch {
	case !u.Exists():
		return nil, fmt.Errorf("there is no unit %s on this host", u.Name)
	case u.Load == "masked" && on:
		return nil, fmt.Errorf("the unit %s is masked; 'systemctl unmask %s' allows to enable it", u.Name, u.Name)
	case on && isEnabled(u), !on && !startsAtBoot(u):
		return nil, nil
	case !on && (u.Enabled == "indirect" || u.Enabled == "enabled-runtime"):
		const text = "the unit %s is %s, which systemctl disable does not change; disable the unit that starts it"
		m.world.Warn(text, u.Name, u.Enabled)
		return nil, nil
	}
	return m.afterReload(u, m.enable(u, on)), nil
}

// startsAtBoot reports whether something of systemd starts a unit at boot, also if that does not last.
func startsAtBoot(u host.Unit) bool { return isEnabled(u) || u.Enabled == "enabled-runtime" }

// step is one call of systemctl for a unit.
func (m *Manager) step(verb string, u host.Unit, effect func(*host.Unit)) host.Step {
	change := host.Change{Do: verb, What: u.Name}
	switch verb {
	case "start", "stop":
		change.Before = u.Active
	case "enable", "disable", "mask", "unmask":
		change.Before = u.Enabled
	}
	putOff := endsOwn(verb, u.Name)
	if putOff {
		change.After = afterRun
	}
	return host.Step{
		Change: change,
		Apply: func(ctx context.Context) error {
			if putOff {
				m.own = OwnCall{verb, u.Name}
				return nil
			}
			m.Forget()
			err := control(ctx, verb, u.Name)
			m.ended[u.Name] = err == nil && u.Ends
			return err
		},
		Predict: func(w *host.World) {
			now := w.Unit(u)
			effect(&now)
			w.SetUnit(now)
		},
	}
}

// Status describes a unit; one that does not exist has the load state not-found.
func Status(ctx context.Context, name string) (host.Unit, error) {
	name = state.UnitName(name)
	units, err := show(ctx, []string{name})
	return units[name], err
}

// Control starts, stops, restarts or reloads a unit and checks what became of it. What would end this process is not
// done but returned, to be made after the result is stored.
func Control(ctx context.Context, verb, name string) (OwnCall, error) {
	if !slices.Contains([]string{"start", "stop", "restart", "reload"}, verb) {
		return OwnCall{}, fmt.Errorf("%q is not start, stop, restart or reload", verb)
	}
	if name = state.UnitName(name); endsOwn(verb, name) {
		return OwnCall{verb, name}, nil
	}
	return OwnCall{}, control(ctx, verb, name)
}

// control runs one verb of systemctl.
func control(ctx context.Context, verb, name string) error {
	_, err := systemctl(ctx, verb, "--", name)
	if !slices.Contains([]string{"start", "restart", "reload"}, verb) {
		return err
	}
	if err == nil {
		err = staysUp(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("%w%s", err, journal(ctx, name))
	}
	return nil
}

// staysUp waits and reports a unit that is not up, or was started again by systemd in the meantime.
func staysUp(ctx context.Context, name string) error {
	before, err := Status(ctx, name)
	if err != nil {
		return err
	}
	timer := time.NewTimer(settle)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	after, err := Status(ctx, name)
	switch {
	case err != nil:
		return err
	case after.Ends && after.Active != "failed":
		return nil
	case !after.IsRunning():
		return fmt.Errorf("%s is %s (%s) %s after its start", name, after.Active, after.Sub, settle)
	case invocation(after) != invocation(before):
		return fmt.Errorf("%s ended within %s, and systemd started it again", name, settle)
	}
	return nil
}

// invocation identifies the last start of a unit.
func invocation(u host.Unit) string {
	id, _, _ := strings.Cut(u.Stamp, " ")
	return id
}

// journal returns the last lines of a unit's journal, empty if there are none.
func journal(ctx context.Context, name string) string {
	cmd := exec.CommandContext(ctx, "journalctl", "--quiet", "--no-pager", "--lines="+journalLines,
		"--output=short-iso", "--unit="+name)
	cmd.Env = host.Environment()
	out, err := cmd.Output()
	if err != nil || len(bytes.TrimSpace(out)) == 0 {
		return ""
	}
	return "; the last lines of its journal:\n" + strings.ToValidUTF8(string(out), "?")
}

// errNoSystemd says what is missing.
var errNoSystemd = errors.New("this host does not run systemd: there is no /run/systemd/system")

// systemctl runs it and returns its output.
func systemctl(ctx context.Context, args ...string) ([]byte, error) {
	if !IsRunning() {
		return nil, errNoSystemd
	}
	cmd := exec.CommandContext(ctx, "systemctl", slices.Concat([]string{"--no-pager", "--no-ask-password"}, args)...)
	cmd.Env = append(host.Environment(), "SYSTEMD_COLORS=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("systemctl %s: %w: %.*s", strings.Join(args, " "), err, maxOutput,
			bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
