//go:build linux

package pkg

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// A joint is one transaction for several states.
type joint struct {
	all   transaction
	steps map[state.Arguments][]host.Step // of the states that have not been planned yet
	began bool
	err   error
}

// take returns the steps of a state once, nil if it is not part of the transaction.
func (j *joint) take(args state.Arguments) []host.Step {
	if j == nil {
		return nil
	}
	steps := j.steps[args]
	delete(j.steps, args)
	return steps
}

// Began reports whether the transaction of a joined state has begun, so that the state has a result.
func (m *Manager) Began(args state.Arguments) bool {
	return m.joint != nil && m.joint.began && m.joint.steps[args] != nil
}

// CanJoin reports whether two states of packages can be one transaction.
func CanJoin(a, b state.Arguments) bool {
	switch a := a.(type) {
	case *state.PkgInstalled:
		b, ok := b.(*state.PkgInstalled)
		return ok && a.AllowRemovals == b.AllowRemovals
	case *state.PkgLatest:
		_, ok := b.(*state.PkgLatest)
		return ok
	case *state.PkgRemoved:
		b, ok := b.(*state.PkgRemoved)
		return ok && a.Purge == b.Purge
	}
	return false
}

// Join plans one transaction for several states. Each two of them can be joined. [Manager.Plan] then gives each its
// steps; the first that is applied runs the transaction. If the transaction fails, each state is tried alone and judged
// by what is installed then. Join returns the states that have something to do; none if a plan for all is not possible,
// and each is planned alone.
func (m *Manager) Join(ctx context.Context, states []state.Arguments) (pending []state.Arguments) {
	m.joint = nil
	if m.read(ctx) != nil {
		return nil // the plan of each state gives the error
	}
	var all transaction
	for _, args := range states {
		t := m.missing(args)
		if len(t.packages) == 0 {
			continue
		}
		if m.freshen(ctx, args) != nil || m.failed != nil {
			return nil // planned alone, each state gives the error or the warning
		}
		pending = append(pending, args)
		all.verb, all.removals, all.native = t.verb, t.removals, t.native
		for _, p := range t.packages {
			if !slices.Contains(all.packages, p) { // two states may name one package
				all.packages = append(all.packages, p)
			}
		}
	}
	if len(pending) < 2 {
		return nil
	}
	effects, err := m.effects(ctx, all)
	if err != nil {
		return nil
	}
	return m.share(all, pending, effects)
}

// share gives each state the effects on its packages, and the first that has some those on packages that no state
// names.
func (m *Manager) share(all transaction, pending []state.Arguments, effects []effect) (changing []state.Arguments) {
	j := &joint{all: all, steps: make(map[state.Arguments][]host.Step, len(pending))}
	m.joint = j
	for _, args := range pending {
		t := m.missing(args)
		mine, others := []effect{}, []effect{}
		for _, e := range effects {
			named := t.has(e.name)
			if named || len(changing) == 0 && !all.has(e.name) {
				mine = append(mine, e)
			} else {
				others = append(others, e)
			}
		}
		if !slices.ContainsFunc(mine, func(e effect) bool { return t.has(e.name) }) {
			continue // it is the newest already
		}
		effects = others
		changing = append(changing, args)
		j.steps[args] = stepsOf(mine, func(ctx context.Context) error {
			if !j.began {
				j.began, j.err = true, m.execute(ctx, j.all)
			}
			if j.err == nil {
				return nil
			}
			return m.alone(ctx, t, mine, j.err)
		})
	}
	return changing
}

// alone runs the transaction of one state after the transaction of all failed.
func (m *Manager) alone(ctx context.Context, t transaction, effects []effect, failed error) error {
	if m.holds(ctx, t, effects) {
		return nil
	}
	if err := context.Cause(ctx); err != nil {
		return errors.Join(failed, err)
	}
	if _, err := m.effects(ctx, t); err != nil {
		return err
	}
	if err := m.execute(ctx, t); err != nil && !m.holds(ctx, t, effects) {
		return err
	}
	return nil
}
