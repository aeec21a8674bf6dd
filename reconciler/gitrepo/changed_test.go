package gitrepo

import (
	"io/fs"
	"slices"
	"testing"
)

// Changed lists, sorted, the paths of files that differ between two trees in their content or mode. A nil tree is empty.
// Directories of equal hash are not gone into.
func Changed(old, new *Tree) []string {
	paths := map[string]bool{}
	differ(old, new, paths)
	differ(new, old, paths)
	var sorted []string
	for path := range paths {
		sorted = append(sorted, path)
	}
	slices.Sort(sorted)
	return sorted
}

// differ adds the files of a that b lacks or has otherwise.
func differ(a, b *Tree, paths map[string]bool) {
	if a == nil {
		return
	}
	_ = fs.WalkDir(a, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var other fs.FileInfo
		if b != nil {
			if list, err := b.ReadDir(parent(path)); err == nil || path == "." {
				for _, o := range list {
					if o.Name() == e.Name() {
						other = o.(fs.FileInfo)
					}
				}
			}
			if path == "." {
				other, _ = b.Stat(path)
			}
		}
		mine, ok := e.(fs.FileInfo)
		if !ok {
			mine, _ = e.Info()
		}
		equal := other != nil && other.Sys() == mine.Sys() && other.Mode() == mine.Mode()
		switch {
		case equal && e.IsDir():
			return fs.SkipDir
		case !equal && !e.IsDir():
			paths[path] = true
		}
		return nil
	})
}

func parent(file string) string {
	for i := len(file) - 1; i >= 0; i-- {
		if file[i] == '/' {
			return file[:i]
		}
	}
	return "."
}

func TestChangedListsFilesOfBothSides(t *testing.T) {
	w := newWork(t, files("a", "1", "d/b", "2", "d/c", "3", "e/f/g", "4", "gone/x", "5", "swap", "6"))
	r := openRepo(t, Options{URL: w.Dir()})
	old, _ := follow(t, r)
	if _, err := w.Commit("x", map[string][]byte{
		"a": []byte("1"), "d/c": []byte("33"), "gone/x": nil, "new/y": []byte("7"), "swap": nil,
	}, alice); err != nil {
		t.Fatal(err)
	}
	commit(t, w, "y", "swap/inner", "8")
	now, _ := follow(t, r)
	want := []string{"d/c", "gone/x", "new/y", "swap", "swap/inner"}
	if got := Changed(old.Tree, now.Tree); !slices.Equal(got, want) {
		t.Errorf("changed %q, want %q", got, want)
	}
	if got := Changed(now.Tree, old.Tree); !slices.Equal(got, want) {
		t.Errorf("back: changed %q, want %q", got, want)
	}
	if got := Changed(now.Tree, now.Tree); len(got) != 0 {
		t.Errorf("with itself: changed %q", got)
	}
	if got := Changed(nil, old.Tree); len(got) != 6 || len(Changed(old.Tree, nil)) != 6 {
		t.Errorf("from nothing: changed %q", got)
	}
}

func TestChangeOfModeAloneIsAChange(t *testing.T) {
	w := newWork(t, files("a", "1"))
	r := openRepo(t, Options{URL: w.Dir()})
	old, _ := follow(t, r)
	crafted(t, w, line("120000", "a", blobOf(t, old, "a")))
	now, _ := follow(t, r)
	if got := Changed(old.Tree, now.Tree); !slices.Equal(got, []string{"a"}) {
		t.Errorf("changed %q", got)
	}
}
