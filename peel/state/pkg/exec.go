//go:build linux

package pkg

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/seed-c01c3da5/zester/peel/state/host"
)

const maxOutput = 4000 // bytes of the end of a failed command's output

func hasPrograms(names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		_, err := exec.LookPath(name)
		return err != nil
	})
}

// output runs a program that changes nothing.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = environment()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s: %w: %s", name, err, tail(stderr.Bytes()))
	}
	return out, nil
}

func environment() []string {
	return append(host.Environment(), "DEBIAN_FRONTEND=noninteractive", "DEBCONF_NONINTERACTIVE_SEEN=true",
		"APT_LISTCHANGES_FRONTEND=none", "NEEDRESTART_MODE=l")
}

func tail(b []byte) string {
	b = bytes.TrimSpace(b)
	if len(b) > maxOutput {
		b = b[len(b)-maxOutput:]
	}
	return strings.ToValidUTF8(string(b), "?")
}

// runsDpkg reports whether dpkg is a child of a process.
func runsDpkg(pid int) bool {
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid)) // a process that has ended has none
	return slices.ContainsFunc(strings.Fields(string(children)), func(child string) bool {
		name, _ := os.ReadFile("/proc/" + child + "/comm")
		return string(name) == "dpkg\n"
	})
}

// run runs a program that changes packages. The end of ctx sends it SIGTERM, unless dpkg is at work, and waits for it;
// the end of this process leaves it alone. Its output is a file without a name, because a pipe would end it with this
// process.
func run(ctx context.Context, argv []string) error {
	if _, err := os.Stat("/run/systemd/system"); err == nil && hasPrograms("systemd-run") {
		argv = slices.Concat([]string{"systemd-run", "--scope", "--quiet", "--collect", "--"}, argv)
	}
	out, err := os.CreateTemp("", "zester-pkg-")
	if err != nil {
		return fmt.Errorf("cannot keep the output of %s: %w", argv[0], err)
	}
	defer func() { _ = out.Close() }()
	if err := os.Remove(out.Name()); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error {
		if runsDpkg(cmd.Process.Pid) {
			return os.ErrProcessDone // without apt-get, dpkg would end in the middle of a package; it is waited for
		}
		return cmd.Process.Signal(syscall.SIGTERM)
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		text := make([]byte, 2*maxOutput)
		end, _ := out.Seek(0, 2)
		n, _ := out.ReadAt(text, max(0, end-int64(len(text))))
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, tail(text[:n]))
	}
	return nil
}
