//go:build linux

package pkg

import (
	"strings"
	"testing"
)

func TestAHostWithoutAPackageManager(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, errList := List(t.Context())
	_, errVersions := Versions(t.Context(), []string{"a"})
	_, errUpgrades := Upgrades(t.Context())
	for what, err := range map[string]error{"List": errList, "Versions": errVersions, "Upgrades": errUpgrades} {
		if err == nil || !strings.Contains(err.Error(), "this host has no package manager") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A package has a name with its architecture and one without. Messages have one of the two.
func TestPackagesHaveOneName(t *testing.T) {
	i := &inventory{
		versions:  map[string]string{"a": "1", "a:amd64": "1", "b": "2"},
		qualified: map[string]bool{"a:amd64": true},
	}
	if got := i.plain(); len(got) != 2 || got["a"] != "1" || got["b"] != "2" {
		t.Errorf("%v", got)
	}
}
