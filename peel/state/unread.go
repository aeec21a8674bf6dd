//go:build linux

package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"

	"github.com/seed-c01c3da5/zester/peel/state/host"
)

// unreadFile is the file with the paths of units that runs changed and that systemd has not read since. It is about the
// host and not about states, so a function that is run by itself uses it too.
func (r *Runner) unreadFile() string { return filepath.Join(r.o.Dir, "unread-units.json") }

// loadUnread returns the paths that earlier runs left.
func (r *Runner) loadUnread() (paths []string, err error) {
	data, err := os.ReadFile(r.unreadFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &paths)
	}
	if err != nil {
		return nil, fmt.Errorf(
			"cannot read which units systemd has not read: %w; run systemctl daemon-reload and remove %s", err,
			r.unreadFile(),
		)
	}
	return paths, nil
}

// storeUnread stores the paths of the world if they are others than those on the disk.
func (x *run) storeUnread() error {
	paths := x.world.Unread()
	if slices.Equal(paths, x.unread) {
		return nil
	}
	data, err := json.Marshal(paths)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(x.o.Dir, 0o700); err != nil {
		return err
	}
	if err := renameio.WriteFile(x.unreadFile(), data, 0o600); err != nil {
		return fmt.Errorf("cannot store which units systemd has not read: %w", err)
	}
	x.unread = paths
	return nil
}

// noteUnits notes on the disk that steps are about to change files of units.
func (x *run) noteUnits(steps []host.Step) error {
	x.world.SetUnread(host.UnitPaths(steps)...)
	return x.storeUnread()
}
