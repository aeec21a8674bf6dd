//go:build linux

package pkg

import (
	"context"

	"github.com/seed-c01c3da5/zester/peel/state/host"
)

// List returns the versions of all installed packages.
func List(ctx context.Context) (map[string]string, error) {
	m := New(host.New(), true)
	if err := m.read(ctx); err != nil {
		return nil, err
	}
	return m.now.plain(), nil
}

// plain returns the versions of the packages by their names without an architecture.
func (i *inventory) plain() map[string]string {
	list := make(map[string]string, len(i.versions)/2)
	for name, version := range i.versions {
		if !i.qualified[name] {
			list[name] = version
		}
	}
	return list
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
