//go:build linux

package pkg

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// dpkgHas writes what dpkg has on its disk, with notes of packages that it works on.
func dpkgHas(t *testing.T, status string, notes ...string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "updates"), 0o700); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"status": status}
	for _, name := range notes {
		files["updates/"+name] = "Package: a\n"
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// The conffiles of a package go on for many lines, and a line of a description may look like a field.
const status = `Package: nano
Status: install ok installed
Architecture: amd64
Version: 7.2-1
Provides: editor, pico (= 7.2)
Conffiles:
 /etc/nanorc 1234
Description: small editor
 Version: 1 is no field
 Package: neither

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1

Package: held
Status: hold ok installed
Architecture: all
Version: 2:1.0

Package: half
Status: install ok half-configured
Architecture: amd64
Version: 3
`

func TestPackagesAreReadFromTheFileOfDpkg(t *testing.T) {
	t.Parallel()
	want := newInventory()
	want.add("nano", "nano:amd64", "7.2-1")
	want.add("held", "held:all", "2:1.0")
	want.provided["editor"], want.provided["pico"], want.provided[""] = true, true, true
	want.leftover["gone"] = true
	if got := inventoryIn(dpkgHas(t, status)); !reflect.DeepEqual(got, want) {
		t.Errorf("the packages are\n%+v, want\n%+v", got, want)
	}
	for name, folder := range map[string]string{
		"dpkg is at work":      dpkgHas(t, status, "0001"),
		"no folder":            filepath.Join(t.TempDir(), "none"),
		"a field that goes on": dpkgHas(t, "Package: a\nProvides: b,\n c\n"),
	} {
		if got := inventoryIn(folder); got != nil {
			t.Errorf("%s: the packages are %+v, and dpkg-query has to be asked", name, got)
		}
	}
}

// TestTheFileOfDpkgSaysWhatDpkgQuerySays reads the packages of this host in both ways.
func TestTheFileOfDpkgSaysWhatDpkgQuerySays(t *testing.T) {
	t.Parallel()
	if !hasPrograms("dpkg-query") {
		t.Skip("this host has no dpkg-query")
	}
	got := inventoryIn(dpkgFolder)
	if got == nil {
		t.Skip("dpkg is at work")
	}
	want, err := askDpkg(t.Context())
	if err != nil || !reflect.DeepEqual(got, want) || len(want.versions) == 0 {
		t.Errorf("the file has %d packages, dpkg-query says %d, %v", len(got.versions), len(want.versions), err)
	}
}
