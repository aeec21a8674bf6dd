//go:build linux

package system

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// The parameter belongs to a network namespace that the thread of the test makes for itself. The thread ends with the
// test, because it stays locked.
func TestAKernelParameter(t *testing.T) {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("this machine has no network namespaces for tests: %v", err)
	}
	const live = "/proc/sys/net/ipv4/ip_forward"
	if err := os.WriteFile(live, []byte("0\n"), 0); err != nil {
		t.Skipf("this machine has a read-only /proc/sys: %v", err)
	}

	w := host.New()
	w.NewDirectory("/etc/sysctl.d", safefs.Info{Kind: safefs.Directory, Mode: 0o755})
	a := &state.SysctlPresent{Name: "net.ipv4.ip_forward", Value: "1"}
	steps, err := KernelParameter(t.Context(), w, a)
	if err != nil || len(steps) != 2 || steps[0].Before != "0" || steps[0].After != "1" || steps[1].Do != "create" {
		t.Fatalf("%+v, %v", steps, err)
	}
	for _, s := range steps {
		s.Predict(w)
	}
	if left, err := KernelParameter(t.Context(), w, a); err != nil || len(left) > 0 {
		t.Errorf("after the predicted steps: %+v, %v", left, err)
	}
	if err := steps[0].Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(live); strings.TrimSpace(string(data)) != "1" {
		t.Errorf("the kernel has %q", data)
	}

	if _, err := KernelParameter(t.Context(), w, &state.SysctlPresent{Name: "net.none", Value: "1"}); err == nil {
		t.Error("a parameter that the kernel does not have is set")
	}
}

func TestLinesOfMounts(t *testing.T) {
	one := uint32(1)
	a := &state.MountMounted{Name: "/srv", Device: "UUID=x", FSType: "ext4", Opts: []string{"ro", "nosuid"}, Pass: &one}
	if got := fstab(a); got != "UUID=x\t/srv\text4\tro,nosuid\t0\t1" {
		t.Error(got)
	}
	if got := fstab(&state.MountMounted{Name: "/t", Device: "none", FSType: "tmpfs"}); got != "none\t/t\ttmpfs\tdefaults\t0\t0" {
		t.Error(got)
	}
}

func TestWhatIsMounted(t *testing.T) {
	w := host.New()
	if !w.IsMounted("/proc") || w.IsMounted("/proc/nothing") {
		t.Error("/proc is not mounted, or something below it is")
	}
	steps, err := Mount(t.Context(), w, &state.MountMounted{Name: "/nothing", Device: "none", FSType: "tmpfs"})
	if err == nil || !strings.Contains(err.Error(), "makedir: true makes it") {
		t.Errorf("%+v, %v", steps, err)
	}
}
