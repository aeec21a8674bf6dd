//go:build linux && debian

package state

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOnADnfHost runs TestInHostDnf in a host with a real dnf and rpm. DNF_TAR names its file system, as
//
//	mmdebstrap --variant=minbase --include=dnf,rpm,createrepo-c bookworm dnf.tar
//
// makes it: Debian has dnf, and the test takes apt-get away.
func TestOnADnfHost(t *testing.T) {
	tar := os.Getenv("DNF_TAR")
	if tar == "" || os.Geteuid() != 0 || os.Getenv(inHost) != "" {
		t.Skip("needs root, and DNF_TAR")
	}
	root := t.TempDir()
	sh(t, "tar -C %s -xf %s; rm %[1]s/usr/bin/apt-get; mkdir -p %[1]s/etc/yum.repos.d", root, tar)
	exe, err := os.Executable()
	must(t, err)
	sh(t, "cp %s %s/test; mkdir %[2]s/build", exe, root)
	for name, more := range map[string]string{
		"zt-a 1.0": "", "zt-a 2.0": "", "zt-b 1.0": "Requires: zt-a", "zt-c 1.0": "Conflicts: zt-a",
		"zt-e 1.0": "Provides: zt-virtual", "zt-f 1.0": "",
	} {
		name, version, _ := strings.Cut(name, " ")
		spec := "Name: " + name + "\nVersion: " + version + "\nRelease: 1\nSummary: x\nLicense: x\nBuildArch: noarch\n" +
			more + "\n%description\nx\n"
		if name == "zt-f" {
			spec += withFiles
		} else {
			spec += "%files\n"
		}
		must(t, os.WriteFile(filepath.Join(root, "build", name+version+".spec"), []byte(spec), 0o644))
	}
	sh(t, `unshare --mount --pid --fork --mount-proc --root=%s sh -ec 'for s in /build/*; do rpmbuild -bb --define "_rpmdir /repo" $s; done; createrepo_c -q /repo'`, root)
	runTests(t, bare(t, root), "dnf")
}

// withFiles is the part of a package with a configuration file and a file in a directory of its own.
const withFiles = `%install
mkdir -p %{buildroot}/etc %{buildroot}/opt/zt-f
echo x > %{buildroot}/etc/zt-f.conf
echo x > %{buildroot}/opt/zt-f/tool
%files
%config /etc/zt-f.conf
%dir /opt/zt-f
/opt/zt-f/tool
`

// testsDnfFiles removes a package with files, a directory and an edited configuration file, and compares each
// prediction with what rpm did.
func (h *fixture) testsDnfFiles() {
	h.step("zt-f: {pkg.installed: {}}", "zt-f: changed intended")
	h.step("conf: {file.managed: {path: /etc/zt-f.conf, content: 'edited\n'}}", "conf: changed intended")
	states := `zt-f: {pkg.removed: {}}
tool: {file.absent: {path: /opt/zt-f/tool}, require: [zt-f]}
dir: {file.absent: {path: /opt/zt-f}, require: [zt-f]}
conf: {file.absent: {path: /etc/zt-f.conf}, require: [zt-f]}
`
	copied := "copy: {file.absent: {path: /etc/zt-f.conf.rpmsave}, require: [zt-f]}\n"
	gone := []string{"tool: unchanged", "dir: unchanged", "conf: unchanged"}
	predicted := append([]string{"zt-f: would_change intended"}, gone...)
	h.wants(h.run(states+copied, true), append(predicted, "copy: unknown")...)
	h.wants(h.run(states, false), append([]string{"zt-f: changed intended"}, gone...)...)
}

func TestInHostDnf(t *testing.T) {
	if os.Getenv(inHost) != "dnf" {
		t.Skip("runs inside a host with dnf")
	}
	h := newHost(t)
	h.step("zt: {pkgrepo.managed: {uris: ['file:///repo']}}", "zt: changed intended")
	h.wants(h.run("zt-a: {pkg.installed: {}}", true), "zt-a: unknown") // dnf has no lists yet
	h.wants(h.run("zt-a: {pkg.installed: {version: '1.0'}}", false), "zt-a: changed intended")
	h.step("zt-a: {pkg.installed: {}}", "zt-a: unchanged")
	r := h.step("zt-a: {pkg.latest: {}}", "zt-a: changed intended")
	if c := r.States[0].Changes; len(c) != 1 || c[0].Do != "upgrade" || c[0].Before != "1.0-1" || c[0].After != "2.0-1" {
		t.Errorf("%+v", c)
	}
	h.step("zt-a: {pkg.installed: {version: '1.0'}}", "zt-a: changed intended") // a downgrade
	h.step("zt-b: {pkg.installed: {}}\nzt-e: {pkg.installed: {}}\nzt-virtual: {pkg.installed: {}}", "zt-b: changed intended", "zt-e: changed intended", "zt-virtual: unchanged")
	r = h.run("zt-a: {pkg.removed: {}}", false) // b needs it
	h.wants(r, "zt-a: failed")
	if !strings.Contains(r.States[0].Comment, "zt-b would be removed") {
		t.Error(r.States[0].Comment)
	}
	h.wants(h.run("zt-c: {pkg.installed: {}}", false), "zt-c: failed")
	h.step("x: {pkg.removed: {names: [zt-a, zt-b]}}", "x: changed intended")
	h.wants(h.run("no-such: {pkg.installed: {}}", false), "no-such: failed")
	h.testsDnfFiles()
	h.step("zt: {pkgrepo.managed: {absent: true}}", "zt: changed intended")
}
