package peel_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// renames is set for a process that may rename the host: it has a host name of its own.
const renames = "PEEL_TEST_RENAMES_ITS_HOST"

func TestFactsThatChangeArePublished(t *testing.T) {
	if os.Getenv(renames) == "" {
		inNewHost(t)
		return
	}
	run(t, func(b *bench) {
		rename(t, "first")
		b.start()
		facts := b.listen(wire.AllFacts)
		time.Sleep(time.Hour)
		if n, _, err := facts.Pending(); err != nil || n > 0 {
			t.Errorf("%d messages while nothing changes, %v", n, err)
		}
		rename(t, "second")
		time.Sleep(15 * time.Minute)
		if n, _, err := facts.Pending(); err != nil || n != 1 {
			t.Errorf("%d messages after the host was renamed, %v", n, err)
		}
		if got := b.storedFacts()["hostname"]; got != "second" {
			t.Errorf("masters know %v", got)
		}
		rename(t, "third")
		b.bus.Restart(t)
		time.Sleep(30 * time.Second)
		if got := b.storedFacts()["hostname"]; got != "third" {
			t.Errorf("masters know %v after a reconnect", got)
		}
		if r := b.call("facts.get", map[string]any{"key": "hostname"}); r.Data != "third" {
			t.Errorf("the peel says %+v", r)
		}
	})
}

// inNewHost runs the test in a process whose host name is its own.
func inNewHost(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), renames+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUTS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if _, ran := err.(*exec.ExitError); err != nil && !ran {
		t.Skipf("cannot start a process with a host name of its own: %v", err)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func rename(t *testing.T, name string) {
	t.Helper()
	if err := syscall.Sethostname([]byte(name)); err != nil {
		t.Fatal(err)
	}
}
