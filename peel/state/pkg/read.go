//go:build linux

package pkg

import (
	"context"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/host"
)

// List returns the versions of all installed packages.
func List(ctx context.Context) (map[string]string, error) {
	m := New(host.New(), true)
	if err := m.read(ctx); err != nil {
		return nil, err
	}
	list := make(map[string]string, len(m.now.versions)/2)
	for name, version := range m.now.versions {
		if !strings.Contains(name, ":") { // names with an architecture are given as well
			list[name] = version
		}
	}
	return list, nil
}

// Versions returns the installed versions of packages, empty of one that is not installed.
func Versions(ctx context.Context, names []string) (map[string]string, error) {
	m := New(host.New(), true)
	if err := m.read(ctx); err != nil {
		return nil, err
	}
	versions := make(map[string]string, len(names))
	for _, name := range names {
		versions[name] = m.now.versions[name]
	}
	return versions, nil
}

// Upgrades returns what an upgrade of all packages would do, by the lists of packages as they are.
func Upgrades(ctx context.Context) ([]host.Change, error) {
	t, err := find(true)
	if err != nil {
		return nil, err
	}
	effects, err := t.upgrades(ctx)
	changes := make([]host.Change, 0, len(effects))
	for _, s := range stepsOf(effects, nil) {
		changes = append(changes, s.Change)
	}
	return changes, err
}
