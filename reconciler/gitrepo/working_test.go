package gitrepo

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

func TestWorkingFilesAreKnownByTheirContent(t *testing.T) {
	w := newWork(t, files("top.yaml", "one", "settings/a.yaml", "a", "settings/b.yaml", "b", "large.yaml", strings.Repeat("x", maxBlob+1)))
	if err := os.WriteFile(filepath.Join(w.Dir(), "settings/b.yaml"), []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := openCheckout(t, w.Dir())
	head, err := c.Revision("HEAD")
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := c.Snapshot(head)
	if err != nil {
		t.Fatal(err)
	}
	working := Working(os.DirFS(w.Dir()))
	for name, equal := range map[string]bool{"top.yaml": true, "settings/a.yaml": true, "settings/b.yaml": false, "settings": false, "large.yaml": false} {
		committed, err := fs.Lstat(snapshot.Tree, name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := fs.Lstat(working, name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Sys() != nil && info.Sys() == committed.Sys(); got != equal {
			t.Errorf("%s: equal is %v", name, got)
		}
		listed := info
		entries, err := fs.ReadDir(working, filepath.Dir(name))
		for _, e := range entries {
			if err == nil && e.Name() == filepath.Base(name) {
				listed, err = e.Info()
			}
		}
		if err != nil || listed.Sys() != info.Sys() {
			t.Errorf("%s: it is listed as %v, %v, not %v", name, listed.Sys(), err, info.Sys())
		}
	}
	small := os.DirFS(filepath.Join(w.Dir(), "settings"))
	if err := fstest.TestFS(Working(small), "a.yaml", "b.yaml"); err != nil {
		t.Error(err)
	}
}
