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
	needsHost(t)
	h := newHost(t)
	sh(t, "dpkg --purge zt-a zt-b zt-c zt-e 2>&1; rm -rf /var/lib/apt/lists/*")
	// Before the first refresh test mode does not know the package.
	h.wants(h.run("zt-a: {pkg.installed: {}}", true), "zt-a: unknown")
	h.wants(h.run("zt-a: {pkg.installed: {version: '1.0'}}", false), "zt-a: changed intended")
	h.step("zt-a: {pkg.installed: {version: '1.0'}}", "zt-a: unchanged")
	h.step("zt-a: {pkg.installed: {}}", "zt-a: unchanged") // any version
	r := h.step("zt-a: {pkg.latest: {}}", "zt-a: changed intended")
	if c := r.States[0].Changes[0]; c.Do != "upgrade" || c.Before != "1.0" || c.After != "2.0" {
		t.Errorf("%+v", c)
	}
	h.step("zt-a: {pkg.installed: {version: '1.0'}}", "zt-a: changed intended") // a downgrade
	r = h.step("zt-b: {pkg.installed: {}}", "zt-b: changed intended")
	// A package that conflicts would remove two that no state names.
	r = h.run("zt-c: {pkg.installed: {}}", false)
	h.wants(r, "zt-c: failed")
	if want := "which the state does not name; allow_removals: true allows it"; !strings.Contains(r.States[0].Comment, want) {
		t.Errorf("the comment is %q, want %q in it", r.States[0].Comment, want)
	}
	r = h.run("zt-a: {pkg.removed: {}}", false) // b needs it
	h.wants(r, "zt-a: failed")
	r = h.step("x: {pkg.removed: {names: [zt-a, zt-b]}}", "x: changed intended")
	if !r.States[0].Changes[0].Deletes {
		t.Errorf("%+v", r.States[0].Changes)
	}
	h.step("zt-e: {pkg.installed: {}}\nzt-virtual: {pkg.installed: {}}", "zt-e: changed intended", "zt-virtual: unchanged")
	r = h.run("no-such-package: {pkg.installed: {}}", false)
	h.wants(r, "no-such-package: failed")
	if !strings.Contains(r.States[0].Comment, "Unable to locate package no-such-package") {
		t.Error(r.States[0].Comment)
	}
	h.step("zt-c: {pkg.installed: {allow_removals: true}}", "zt-c: changed intended")
	if _, err := os.Stat("/usr/share/c/version"); err != nil {
		t.Error(err)
	}
}
