package daemon

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// ownPath returns the path by which this process was started. It is read at the start: later another program can be
// there.
func ownPath(log *slog.Logger) string {
	path, err := exec.LookPath(os.Args[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		log.Warn("the path of this program is not known: SIGUSR1 cannot start another one", "err", err)
		return ""
	}
	return path
}

func askToReplace(d Daemon, path string, log *slog.Logger) {
	if d.Replace == nil {
		log.Warn("SIGUSR1 is for peels: restart this program to start another one")
		return
	}
	select {
	case d.Replace <- path:
	default: // it waits for such a moment already
	}
}

// becomeNext starts the program at path with the arguments and the environment of this one, and the same process ID.
// It returns only if it cannot. The next program has SIGUSR1 ignored until it listens for it, so that one in between
// cannot end it.
func becomeNext(path string, log *slog.Logger) error {
	log.Info("starting the program that is now here", "path", path)
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err == nil {
		notify(log, fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.SdNotifyReloading, now.Nano()/1000))
	}
	signal.Ignore(syscall.SIGUSR1)
	if err := syscall.Exec(path, os.Args, os.Environ()); err != nil {
		return fmt.Errorf("cannot start %s in the place of this program: %w", path, err)
	}
	return nil
}
