//go:build linux

package state

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockPause is how often a run that waits tries again.
const lockPause = 100 * time.Millisecond

// lock waits until no other run holds the file. Runs in test mode share it.
func lock(ctx context.Context, name string, shared bool) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, fmt.Errorf("cannot lock the host for a run of states: %w", err)
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the host for a run of states: %w", err)
	}
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	ticker := time.NewTicker(lockPause)
	defer ticker.Stop()
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			_ = f.Close()
			return nil, fmt.Errorf("cannot lock %s: %w", name, err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("another run of states holds %s: %w", name, context.Cause(ctx))
		}
	}
}
