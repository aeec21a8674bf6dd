//go:build linux && debian

package state

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// inHost is set in the process that runs inside a Debian host.
const inHost = "ZESTER_TEST_IN_HOST"

// TestOnADebianHost runs the tests named On… of this package inside a Debian host of its own, as root, with the real dpkg
// and apt. DEBIAN_TAR names the file system, as mmdebstrap --variant=minbase bookworm makes it.
func TestOnADebianHost(t *testing.T) {
	tar := os.Getenv("DEBIAN_TAR")
	if tar == "" || os.Geteuid() != 0 {
		t.Skip("needs root, and DEBIAN_TAR")
	}
	root := t.TempDir()
	sh := func(format string, args ...any) {
		t.Helper()
		if out, err := exec.Command("sh", "-ec", fmt.Sprintf(format, args...)).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	sh("tar -C %s -xf %s", root, tar)
	packages(t, filepath.Join(root, "repo"))
	must(t, os.WriteFile(filepath.Join(root, "etc/apt/sources.list"), []byte("deb [trusted=yes] file:/repo ./\n"), 0o644))
	exe, err := os.Executable()
	must(t, err)
	sh("cp %s %s/test", exe, root)
	cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--root="+root, "/test", "-test.v", "-test.run", "^TestInHost")
	cmd.Env = []string{inHost + "=1", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TMPDIR=/tmp"}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	must(t, err)
}

// packages builds a repository: a 1.0 and 2.0, b needs a, c conflicts with a, d needs a (>= 2).
func packages(t *testing.T, dir string) {
	t.Helper()
	for _, p := range []string{"a_1.0", "a_2.0", "b_1.0:Depends: a", "c_1.0:Conflicts: a", "e_1.0:Provides: virtual"} {
		p, field, _ := strings.Cut(p, ":")
		name, version, _ := strings.Cut(p, "_")
		build := filepath.Join(t.TempDir(), p)
		must(t, os.MkdirAll(build+"/DEBIAN", 0o755))
		must(t, os.MkdirAll(build+"/usr/share/"+name, 0o755))
		must(t, os.WriteFile(build+"/usr/share/"+name+"/version", []byte(version), 0o644))
		control := fmt.Sprintf("Package: zt-%s\nVersion: %s\nArchitecture: all\nMaintainer: x <x@example.com>\nDescription: test\n", name, version)
		if field != "" {
			key, value, _ := strings.Cut(field, ": ")
			control += key + ": zt-" + value + "\n"
		}
		must(t, os.WriteFile(build+"/DEBIAN/control", []byte(control), 0o644))
		must(t, os.MkdirAll(dir, 0o755))
		if out, err := exec.Command("dpkg-deb", "-b", build, dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	out, err := exec.Command("sh", "-c", "cd "+dir+" && dpkg-scanpackages -m . > Packages").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestInHostPackages(t *testing.T) {
	if os.Getenv(inHost) == "" {
		t.Skip("runs inside a Debian host")
	}
	h := newHost(t)
	step := func(text string, want ...string) *Result {
		t.Helper()
		for i, w := range want { // test mode predicts it
			want[i] = strings.Replace(w, ": changed", ": would_change", 1)
		}
		if !strings.Contains(text, "FIRST") {
			h.wants(h.run(text, true), want...)
		}
		for i, w := range want {
			want[i] = strings.Replace(w, ": would_change", ": changed", 1)
		}
		r := h.run(strings.ReplaceAll(text, "FIRST", ""), false)
		h.wants(r, want...)
		return r
	}
	// Before the first refresh test mode does not know the package.
	h.wants(h.run("zt-a: {pkg.installed: {}}", true), "zt-a: unknown")
	step("zt-a: {pkg.installed: {version: '1.0'}} #FIRST", "zt-a: changed intended")
	step("zt-a: {pkg.installed: {version: '1.0'}}", "zt-a: unchanged")
	step("zt-a: {pkg.installed: {}}", "zt-a: unchanged") // any version
	r := step("zt-a: {pkg.latest: {}}", "zt-a: changed intended")
	if c := r.States[0].Changes[0]; c.Do != "upgrade" || c.Before != "1.0" || c.After != "2.0" {
		t.Errorf("%+v", c)
	}
	step("zt-a: {pkg.installed: {version: '1.0'}}", "zt-a: changed intended") // a downgrade
	r = step("zt-b: {pkg.installed: {}}", "zt-b: changed intended")
	// A package that conflicts would remove two that no state names.
	r = h.run("zt-c: {pkg.installed: {}}", false)
	h.wants(r, "zt-c: failed")
	if want := "which the state does not name; allow_removals: true allows it"; !strings.Contains(r.States[0].Comment, want) {
		t.Errorf("the comment is %q, want %q in it", r.States[0].Comment, want)
	}
	r = h.run("zt-a: {pkg.removed: {}}", false) // b needs it
	h.wants(r, "zt-a: failed")
	r = step("x: {pkg.removed: {names: [zt-a, zt-b]}}", "x: changed intended")
	if !r.States[0].Changes[0].Deletes {
		t.Errorf("%+v", r.States[0].Changes)
	}
	step("zt-e: {pkg.installed: {}}\nzt-virtual: {pkg.installed: {}}", "zt-e: changed intended", "zt-virtual: unchanged")
	r = h.run("no-such-package: {pkg.installed: {}}", false)
	h.wants(r, "no-such-package: failed")
	if !strings.Contains(r.States[0].Comment, "Unable to locate package no-such-package") {
		t.Error(r.States[0].Comment)
	}
	step("zt-c: {pkg.installed: {allow_removals: true}}", "zt-c: changed intended")
	if _, err := os.Stat("/usr/share/c/version"); err != nil {
		t.Error(err)
	}
}
