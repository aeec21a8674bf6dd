package gitrepo

import (
	"slices"
	"strings"
	"testing"
)

// Changed lists, sorted, the paths of files that differ between two trees: new
// ones, removed ones, and those of another content or mode. Links and
// submodules count as files. A nil tree is empty. Directories of equal hash are
// not gone into, so the cost follows the change.
func Changed(old, new *Tree) []string {
	var a, b *dir
	if old != nil {
		a = old.root
	}
	if new != nil {
		b = new.root
	}
	paths := changed(nil, a, b, "")
	slices.Sort(paths)
	return paths
}

func changed(paths []string, a, b *dir, at string) []string {
	var left, right []entry
	if a != nil {
		left = a.entries
	}
	if b != nil {
		right = b.entries
	}
	if a != nil && b != nil && a.hash == b.hash {
		return paths
	}
	for len(left) > 0 || len(right) > 0 {
		var x, y entry
		order := compareFirst(left, right)
		if order <= 0 {
			x, left = left[0], left[1:]
		}
		if order >= 0 {
			y, right = right[0], right[1:]
		}
		paths = changedEntry(paths, x, y, at)
	}
	return paths
}

// changedEntry compares two entries of one name, either of which may be zero.
func changedEntry(paths []string, x, y entry, at string) []string {
	if x.hash == y.hash && x.mode == y.mode {
		return paths
	}
	path := join(at, x.name)
	if x.name == "" {
		path = join(at, y.name)
	}
	file := func(e entry) bool { return e.name != "" && e.sub == nil }
	if file(x) || file(y) {
		paths = append(paths, path)
	}
	if x.sub != nil || y.sub != nil {
		paths = changed(paths, x.sub, y.sub, path)
	}
	return paths
}

// compareFirst orders the first entries of two lists; an empty list is last.
func compareFirst(a, b []entry) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	default:
		return strings.Compare(a[0].name, b[0].name)
	}
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
