//go:build linux

package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/state/safefs"
)

// A package has two directories, of which another package has one too, a tool and a configuration file.
func TestWhatARemovedPackageLeaves(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	own, shared := dir+"/own", dir+"/shared"
	for _, d := range []string{own, shared} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"tool", "conf"} {
		if err := os.WriteFile(own+"/"+name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files := PackageFiles{
		Paths: []string{own, own + "/tool", own + "/conf", shared}, Kept: []string{own + "/conf"},
		Copies: []string{shared + "/conf.save"}, Shared: []string{shared},
	}
	for _, purge := range []bool{false, true} {
		w := New()
		w.RemovePackage("zt-a", files, purge)
		for p, isThere := range map[string]bool{own: !purge, own + "/tool": false, own + "/conf": !purge, shared: true} {
			if info, err := w.Stat(p); err != nil || (info.Kind != safefs.Absent) != isThere {
				t.Errorf("purged %t: %s is %v, %v", purge, p, info.Kind, err)
			}
		}
		_, err := w.Stat(shared + "/conf.save")
		if _, ok := errors.AsType[*UnknownError](err); !ok || !strings.Contains(err.Error(), "zt-a would be removed") {
			t.Errorf("a copy that the removal may leave: %v", err)
		}
		if u := (Unit{Name: "zt.service", Fragment: own + "/tool"}); w.RemovedWith(u) != "zt-a" {
			t.Errorf("the unit goes with %q", w.RemovedWith(u))
		}
		if w.SetPackage("zt-a", "2"); w.RemovedWith(Unit{Fragment: own + "/tool"}) != "" {
			t.Error("a package that comes back takes its units along")
		}
	}
}
