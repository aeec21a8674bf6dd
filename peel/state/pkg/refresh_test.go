//go:build linux

package pkg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// unreachable is apt on a host whose lists are old, with a repository that does not answer.
type unreachable struct {
	apt
	refreshes *int
}

func (unreachable) inventory(context.Context) (*inventory, error) { return newInventory(), nil }

func (unreachable) isStale() bool { return true }

func (u unreachable) refresh(context.Context) error {
	*u.refreshes++
	return errors.New("apt-get ended with 100: E: third.example does not answer")
}

func (unreachable) simulate(_ context.Context, t transaction) (effects []effect, err error) {
	for _, p := range t.packages {
		if p.name == "missing" {
			return nil, fmt.Errorf("missing: %w", errNotInLists)
		}
		effects = append(effects, effect{name: p.name, to: "1.0"})
	}
	return effects, nil
}

// One repository that does not answer fails the states whose packages only a refresh could bring, and no others.
func TestARepositoryThatDoesNotAnswer(t *testing.T) {
	yes := true
	for _, c := range []struct {
		args  state.Arguments
		fails bool
	}{
		{&state.PkgInstalled{Name: "vim"}, false},
		{&state.PkgLatest{Name: "vim"}, false},
		{&state.PkgInstalled{Name: "missing"}, true},
		{&state.PkgInstalled{Name: "vim", Refresh: &yes}, true},
	} {
		w := host.New()
		m := New(w, false)
		refreshes := 0
		m.tool = unreachable{refreshes: &refreshes}
		if pending := m.Join(t.Context(), []state.Arguments{c.args, &state.PkgInstalled{Name: "git"}}); pending != nil {
			t.Errorf("%+v: %v are planned together, without the warning", c.args, pending)
		}
		w.TakeWarnings()
		steps, err := m.Plan(t.Context(), c.args)
		if (err != nil) != c.fails || err == nil && len(steps) != 1 {
			t.Errorf("%+v: %d steps, %v", c.args, len(steps), err)
		}
		if err != nil && !strings.Contains(err.Error(), "third.example does not answer") {
			t.Errorf("%+v: the error does not say why: %v", c.args, err)
		}
		if warning := w.TakeWarnings(); !c.fails && !strings.Contains(warning, "cannot refresh the lists of packages: apt-get ended with 100") {
			t.Errorf("%+v: the warning is %q", c.args, warning)
		}
		if refreshes != 1 {
			t.Errorf("%+v: %d refreshes", c.args, refreshes)
		}
	}
}
