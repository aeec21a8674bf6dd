//go:build linux && debian

package state

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// inHost is set in the process that runs inside a host: to debian, or to dnf.
const inHost = "ZESTER_TEST_IN_HOST"

// needsHost skips a test that does not run inside a Debian host.
func needsHost(t testing.TB) {
	t.Helper()
	if os.Getenv(inHost) != "debian" {
		t.Skip("runs inside a Debian host, see TestOnDebianHosts")
	}
}

// sh runs a script, and returns what it writes.
func sh(t testing.TB, format string, args ...any) string {
	t.Helper()
	out, err := exec.Command("sh", "-ec", fmt.Sprintf(format, args...)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// TestOnDebianHosts runs the tests named TestInHost… of this package inside Debian hosts of their own, as root, with a real
// systemd, dpkg and apt. DEBIAN_TAR names file systems of releases, separated by colons, as
//
//	mmdebstrap --variant=minbase --include=systemd,systemd-sysv,dbus,cron bookworm bookworm.tar
//
// makes them. Without it the test makes those of two releases once.
func TestOnDebianHosts(t *testing.T) {
	if os.Getenv(inHost) != "" {
		t.Skip("is inside")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for _, tar := range tars(t) {
		t.Run(strings.TrimSuffix(filepath.Base(tar), ".tar"), func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			sh(t, "tar -C %s -xf %s", root, tar)
			packages(t, filepath.Join(root, "repo"))
			must(t, os.WriteFile(filepath.Join(root, "etc/apt/sources.list"), []byte("deb [trusted=yes] file:/repo ./\n"), 0o644))
			exe, err := os.Executable()
			must(t, err)
			sh(t, "cp %s %s/test", exe, root)
			runTests(t, boot(t, root), "debian")
		})
	}
}

// runTests runs the tests inside a host.
func runTests(t *testing.T, cmd *exec.Cmd, kind string) {
	t.Helper()
	cmd.Env = []string{inHost + "=" + kind, "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TMPDIR=/tmp"}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	must(t, err)
}

// tars returns the file systems of the releases.
func tars(t *testing.T) (tars []string) {
	t.Helper()
	if list := os.Getenv("DEBIAN_TAR"); list != "" {
		return filepath.SplitList(list)
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		t.Skip("needs DEBIAN_TAR or mmdebstrap")
	}
	dir := filepath.Join(os.TempDir(), "zester-debian")
	must(t, os.MkdirAll(dir, 0o755))
	for _, release := range []string{"bookworm", "trixie"} {
		tar := filepath.Join(dir, release+".tar")
		if _, err := os.Stat(tar); err != nil {
			out, err := exec.Command("mmdebstrap", "--format=tar", "--variant=minbase", "--include=systemd,systemd-sysv,dbus,cron", release, tar+".new").CombinedOutput()
			if err != nil {
				t.Skipf("mmdebstrap cannot make %s: %v\n%.2000s", release, err, out)
			}
			must(t, os.Rename(tar+".new", tar))
		}
		tars = append(tars, tar)
	}
	return tars
}

// tests are those that run inside a host.
var tests = []string{"/test", "-test.v", "-test.run", "^TestInHost", "-test.bench", "InHost", "-test.benchtime", "10x"}

// inHostArgs returns the arguments of the test process in a host.
func inHostArgs() []string {
	run := os.Getenv("ZESTER_TEST_RUN") // a regular expression of the tests and benchmarks
	if run == "" {
		return append(tests, fmt.Sprintf("-worlds=%d", *worldCount), fmt.Sprintf("-worlds.seed=%d", *worldSeed))
	}
	return []string{"/test", "-test.v", "-test.run", run, "-test.bench", run, "-test.benchtime", "10x", fmt.Sprintf("-worlds=%d", *worldCount), fmt.Sprintf("-worlds.seed=%d", *worldSeed)}
}

// bare returns the command that runs the tests in a root without systemd.
func bare(t *testing.T, root string) *exec.Cmd {
	t.Helper()
	in := []string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--root=" + root}
	if out, err := exec.Command("unshare", append(in, "true")...).CombinedOutput(); err != nil {
		t.Skipf("this machine cannot start a host: %v, %s", err, out)
	}
	return exec.Command("unshare", append(in, inHostArgs()...)...)
}

// boot starts a host with systemd and returns the command that runs the tests in it. Where systemd-nspawn cannot start one
// the host has no systemd, and the tests of services are skipped.
func boot(t *testing.T, root string) *exec.Cmd {
	t.Helper()
	var console strings.Builder
	host := exec.Command("systemd-nspawn", "--register=no", "--keep-unit", "-q", "-D", root, "-b", "--console=passive")
	host.Env = append(os.Environ(), "UNIFIED_CGROUP_HIERARCHY=1")
	host.Stdout, host.Stderr = &console, &console
	if err := host.Start(); err != nil {
		t.Logf("no systemd: %v", err)
		return bare(t, root)
	}
	ended := make(chan struct{})
	go func() { _ = host.Wait(); close(ended) }()
	leader := 0
	t.Cleanup(func() {
		if leader > 0 {
			_ = syscall.Kill(leader, syscall.SIGKILL) // systemd-nspawn then ends by itself
		} else {
			_ = host.Process.Kill()
		}
		<-ended
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ended:
			t.Logf("no systemd, the host ends: %s", console.String())
			return bare(t, root)
		case <-ctx.Done():
			t.Fatalf("the host does not start: %s", console.String())
		}
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", host.Process.Pid))
		pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
		if err != nil {
			continue
		}
		leader = pid
		in := []string{"-a", "-t", strconv.Itoa(leader)}
		out, _ := exec.Command("nsenter", append(in, "systemctl", "is-system-running")...).Output()
		if state := strings.TrimSpace(string(out)); state == "running" || state == "degraded" {
			return exec.Command("nsenter", append(in, inHostArgs()...)...)
		}
	}
}

// step runs states in test mode and for real, and once more: what is predicted is applied, and then nothing is left.
// Verdicts are those of the real run.
func (h *fixture) step(text string, want ...string) *Result {
	h.t.Helper()
	predicted := h.run(text, true)
	applied := h.run(text, false)
	h.wants(applied, want...)
	for i, p := range predicted.States {
		a := applied.States[i]
		verdict := strings.Replace(string(p.Result), string(WouldChange), string(Changed), 1)
		if verdict != string(a.Result) || a.Result != Failed && fmt.Sprint(p.Changes) != fmt.Sprint(a.Changes) {
			h.t.Errorf("%s is predicted as %s %+v (%s), and applied as %s %+v (%s)", p.State, p.Result, p.Changes, p.Comment, a.Result, a.Changes, a.Comment)
		}
		if p.Cause != a.Cause {
			h.t.Errorf("%s has the predicted cause %q and the cause %q", p.State, p.Cause, a.Cause)
		}
	}
	again := h.run(text, false)
	for i, o := range again.States {
		if applied.States[i].Result != Failed && o.Result != Unchanged && o.Reason != OnChangesUnmet {
			h.t.Errorf("the second run: %s is %s %+v %s", o.State, o.Result, o.Changes, o.Comment)
		}
	}
	return applied
}
