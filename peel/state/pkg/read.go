//go:build linux

package pkg

import (
	"context"
	"maps"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/host"
)

// Versions returns the installed versions of packages by name; that of a package that is not installed is empty.
func Versions(ctx context.Context, names []string) (map[string]string, error) {
	m := New(host.New())
	if err := m.read(ctx); err != nil {
		return nil, err
	}
	versions := make(map[string]string, len(names))
	for _, name := range names {
		versions[name] = m.installed[name]
	}
	return versions, nil
}

// List returns the versions of all installed packages by name.
func List(ctx context.Context) (map[string]string, error) {
	m := New(host.New())
	if err := m.read(ctx); err != nil {
		return nil, err
	}
	maps.DeleteFunc(m.installed, func(name, _ string) bool { return strings.Contains(name, ":") }) // the same with an architecture
	return m.installed, nil
}

// Upgrades returns what an upgrade of all packages would do, by the lists of packages as they are.
func Upgrades(ctx context.Context) ([]host.Change, error) {
	m := New(host.New())
	if err := m.read(ctx); err != nil {
		return nil, err
	}
	effects, err := m.simulate(ctx, transaction{verb: "upgrade"})
	if err != nil {
		return nil, err
	}
	changes := make([]host.Change, len(effects))
	for i, e := range effects {
		changes[i] = e.step().Change
	}
	return changes, nil
}
