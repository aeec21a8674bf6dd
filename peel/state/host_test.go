//go:build linux

package state

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// registry returns a registry with the functions of a peel that has no document.
func registry(t *testing.T, document func() Document) *module.Registry {
	t.Helper()
	r := module.New()
	dir := t.TempDir()
	functions := NewFunctions(FunctionsOptions{
		Dir: filepath.Join(dir, "states"), Lock: filepath.Join(dir, "lock"), Registry: r, Document: document,
	})
	for name, f := range functions.All() {
		r.Add(name, f)
	}
	return r
}

func call(t *testing.T, function, id string, args map[string]any) wire.Result {
	t.Helper()
	return registry(t, func() Document { return Document{} }).Call(t.Context(), function, module.Call{ID: id, Args: args})
}

func TestThePeelHasEveryFunctionOfTheCatalogueForStatesAndHosts(t *testing.T) {
	all := NewFunctions(FunctionsOptions{}).All()
	for _, f := range catalogue.Functions() {
		if f.Name == "cron.tables" || f.Name == "file.read" {
			continue // package peel has them, because they seal their results
		}
		name, _, _ := strings.Cut(f.Name, ".")
		if _, has := all[f.Name]; !has && slices.Contains([]string{"state", "file", "pkg", "pkgrepo", "service", "user", "group", "cron", "ssh_auth", "host", "sysctl", "timezone", "mount", "debconf", "git"}, name) {
			t.Errorf("no code for %s", f.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if _, known := catalogue.Lookup(name); !known {
			t.Errorf("%s is not in the catalogue", name)
		}
	}
}

func TestFilesAreDescribed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/f", []byte("12345"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("f", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]map[string]any{
		"f":        {"kind": "file", "mode": "0640", "size": int64(5)},
		"link":     {"kind": "symbolic link", "target": "f"},
		"":         {"kind": "directory"},
		"no/where": {"kind": "absent"},
	} {
		r := call(t, "file.stat", filepath.Join(dir, name), nil)
		data, _ := r.Data.(map[string]any)
		for key, value := range want {
			if data[key] != value {
				t.Errorf("%q: %+v, want %s %v", name, r, key, value)
			}
		}
		if (data["user"] == nil || data["modified"] == nil) != (want["kind"] == "absent") {
			t.Errorf("%q: %+v", name, data)
		}
	}
	if r := call(t, "file.stat", "relative", nil); r.Success || !strings.Contains(r.Error, "not an absolute path") {
		t.Errorf("%+v", r)
	}
}

func TestVersionsOfPackages(t *testing.T) {
	if _, err := exec.LookPath("dpkg-query"); err != nil {
		t.Skip("this host has no dpkg-query")
	}
	if r := call(t, "pkg.version", "dpkg", nil); !r.Success || r.Data == "" {
		t.Errorf("%+v", r)
	}
	if r := call(t, "pkg.version", "no-such-package", nil); !r.Success || r.Data != "" {
		t.Errorf("%+v", r)
	}
	r := call(t, "pkg.version", "dpkg no-such-package", nil)
	if two, _ := r.Data.(map[string]any); len(two) != 2 || two["dpkg"] == "" || two["no-such-package"] != "" {
		t.Errorf("%+v", r)
	}
	r = call(t, "pkg.list", "", nil)
	list, _ := r.Data.(map[string]any)
	if list["dpkg"] == nil {
		t.Errorf("%+v", r)
	}
	for name := range list {
		if strings.Contains(name, ":") {
			t.Errorf("%s is listed twice", name)
		}
	}
	if r := call(t, "pkg.upgrades", "", nil); !r.Success {
		t.Errorf("%+v", r)
	}
}

func TestAServiceNeedsAName(t *testing.T) {
	for _, function := range []string{"service.status", "service.start", "service.stop", "service.restart", "service.reload"} {
		if r := call(t, function, "", nil); r.Success || !strings.Contains(r.Error, "argument name is missing") {
			t.Errorf("%s: %+v", function, r)
		}
		if r := call(t, function, "zester-no-such-unit", nil); function != "service.status" && r.Success {
			t.Errorf("%s: %+v", function, r)
		}
	}
}
