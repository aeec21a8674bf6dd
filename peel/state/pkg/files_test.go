//go:build linux

package pkg

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/state/host"
)

func TestTheFilesOfADebianPackage(t *testing.T) {
	if !hasPrograms("apt-get", "dpkg-query") {
		t.Skip("needs a host with dpkg")
	}
	files, err := apt{}.files(t.Context(), effect{name: "base-files", remove: true})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(files.Paths, "/etc/debian_version") || !slices.Contains(files.Kept, "/etc/debian_version") {
		t.Errorf("%d paths, and these stay: %q", len(files.Paths), files.Kept)
	}
	if !slices.Contains(files.Shared, "/usr/bin") || slices.Contains(files.Shared, "/etc/debian_version") {
		t.Errorf("%q are shared", files.Shared)
	}
	if _, err := (apt{}).files(t.Context(), effect{name: "zt-no-such"}); err == nil {
		t.Error("a package without a list has no files")
	}
}

// rpmHost makes a database of rpm with packages that have the given files, and has rpm use it.
func rpmHost(t *testing.T, packages map[string]string) {
	t.Helper()
	if !hasPrograms("rpm", "rpmbuild") {
		t.Skip("needs rpm and rpmbuild")
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	macros := "%_dbpath " + home + "/db\n%_topdir " + home + "/build\n%_rpmdir " + home + "\n"
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	call := func(argv ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", argv, err, out)
		}
	}
	write(".rpmmacros", macros)
	call("rpm", "--initdb")
	for name, files := range packages {
		var spec strings.Builder
		spec.WriteString("Name: " + name + "\nVersion: 1\nRelease: 1\nSummary: x\nLicense: x\nBuildArch: noarch\n%description\nx\n%install\n")
		for line := range strings.Lines(files) {
			f := strings.Fields(line)
			p := "%{buildroot}" + f[len(f)-1]
			if f[0] == "%dir" {
				spec.WriteString("mkdir -p " + p + "\n")
			} else {
				spec.WriteString("mkdir -p $(dirname " + p + "); echo x > " + p + "\n")
			}
		}
		write(name+".spec", spec.String()+"%files\n"+files)
		call("rpmbuild", "-bb", filepath.Join(home, name+".spec"))
		call("rpm", "--install", "--justdb", "--nodeps", filepath.Join(home, "noarch", name+"-1-1.noarch.rpm"))
	}
}

func TestTheFilesOfAnRPMPackage(t *testing.T) {
	rpmHost(t, map[string]string{
		"zt-a": "%config /opt/zt/a.conf\n%dir /opt/zt\n%dir /opt/zt/a\n/opt/zt/a/tool\n",
		"zt-b": "%dir /opt/zt\n/opt/zt/b\n",
	})
	files, err := dnf{}.files(t.Context(), effect{name: "zt-a", remove: true})
	if err != nil {
		t.Fatal(err)
	}
	want := host.PackageFiles{
		Paths:  []string{"/opt/zt", "/opt/zt/a", "/opt/zt/a.conf", "/opt/zt/a/tool"},
		Copies: []string{"/opt/zt/a.conf.rpmsave"},
		Shared: []string{"/opt/zt"},
	}
	if !slices.Equal(files.Paths, want.Paths) || !slices.Equal(files.Copies, want.Copies) || !slices.Equal(files.Shared, want.Shared) || files.Kept != nil {
		t.Errorf("%+v, want %+v", files, want)
	}
	full, err := dnf{}.files(t.Context(), effect{name: "zt-a.noarch", remove: true})
	if err != nil || !slices.Equal(full.Paths, want.Paths) || !slices.Equal(full.Shared, want.Shared) {
		t.Errorf("by the name with architecture: %+v, %v", full, err)
	}
	files, err = dnf{}.files(t.Context(), effect{name: "zt-b"})
	if err != nil || !slices.Equal(files.Paths, []string{"/opt/zt", "/opt/zt/b"}) || files.Shared != nil {
		t.Errorf("%+v, %v", files, err)
	}
	if _, err := (dnf{}).files(t.Context(), effect{name: "zt-no-such"}); err == nil {
		t.Error("a package that rpm does not have has no files")
	}
}

func TestThePackagesOfAnRPMHostAreListedOnce(t *testing.T) {
	rpmHost(t, map[string]string{"zt-a": "/opt/zt-a\n", "zt-b.c": "/opt/zt-b\n"})
	i, err := dnf{}.inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := i.plain(); !maps.Equal(got, map[string]string{"zt-a": "1-1", "zt-b.c": "1-1"}) {
		t.Errorf("%v", got)
	}
	if i.versions["zt-a.noarch"] != "1-1" {
		t.Errorf("a name with its architecture: %v", i.versions)
	}
}

// The database of rpm is damaged after the packages were read.
func TestAPackageWhoseFilesCannotBeReadIsNotPredicted(t *testing.T) {
	rpmHost(t, map[string]string{"zt-a": "/opt/zt-a\n"})
	m := New(host.New(), true)
	m.tool = dnf{}
	if err := m.read(t.Context()); err != nil {
		t.Fatal(err)
	}
	effects := []effect{{name: "zt-new", to: "1-1"}, {name: "zt-a", from: "1-1", remove: true}}
	if err := m.addFiles(t.Context(), effects); err != nil || len(effects[1].files.Paths) != 1 {
		t.Fatalf("%+v, %v", effects, err)
	}
	if err := os.RemoveAll(os.Getenv("HOME") + "/db"); err != nil {
		t.Fatal(err)
	}
	err := m.addFiles(t.Context(), effects)
	if err == nil || !strings.HasPrefix(err.Error(), "cannot read the files of the package zt-a: rpm: ") {
		t.Error(err)
	}
	m.Doubt(t.Context(), []string{"zt-a"})
	if _, err := m.world.Stat("/etc/passwd"); err == nil || !strings.Contains(err.Error(), "the files of the package zt-a cannot be read") {
		t.Errorf("a file that may be the package's: %v", err)
	}
}
