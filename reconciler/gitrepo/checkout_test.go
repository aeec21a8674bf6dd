package gitrepo

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func openCheckout(t *testing.T, dir string) *Checkout {
	t.Helper()
	c, err := OpenCheckout(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *Checkout) read(t *testing.T, revision, path string) string {
	t.Helper()
	h, err := c.Revision(revision)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Snapshot(h)
	if err != nil {
		t.Fatal(err)
	}
	data, err := s.Tree.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestCheckoutReadsRevisionsByName(t *testing.T) {
	w := newWork(t, files("fleet/top.yaml", "one"))
	first, err := w.Head()
	if err != nil {
		t.Fatal(err)
	}
	second := commit(t, w, "second", "fleet/top.yaml", "two")
	for _, dir := range []string{w.Dir(), filepath.Join(w.Dir(), "fleet")} {
		c := openCheckout(t, dir)
		path := "fleet/top.yaml"
		if dir != w.Dir() {
			path = "top.yaml"
		}
		for revision, want := range map[string]string{
			"HEAD": "two", "main": "two", "HEAD~1": "one", first.String(): "one", second.String()[:10]: "two",
		} {
			if got := c.read(t, revision, path); got != want {
				t.Errorf("%s: %s has %q, want %q", dir, revision, got, want)
			}
		}
		if ok, err := c.IsAncestor(first, second); err != nil || !ok {
			t.Errorf("ancestor: %v, %v", ok, err)
		}
		for _, name := range []string{"nosuch", "", "HEAD:fleet", "main:fleet/top.yaml", "HEAD^{tree}"} {
			if h, err := c.Revision(name); err == nil {
				t.Errorf("%q is no commit, and %s was found", name, h)
			}
		}
	}
}

func TestCheckoutMayBeShallowOrLinked(t *testing.T) {
	w := newWork(t, files("top.yaml", "one"))
	commit(t, w, "second", "top.yaml", "two")
	shallow := filepath.Join(t.TempDir(), "shallow")
	gitCLI(t, ".", "clone", "-q", "--depth", "1", "file://"+w.Dir(), shallow)
	if got := openCheckout(t, shallow).read(t, "HEAD", "top.yaml"); got != "two" {
		t.Errorf("the shallow clone has %q", got)
	}
	linked := filepath.Join(t.TempDir(), "linked")
	gitCLI(t, w.Dir(), "worktree", "add", "-q", "--detach", linked, "HEAD~1")
	if got := openCheckout(t, linked).read(t, "HEAD", "top.yaml"); got != "one" {
		t.Errorf("the linked worktree has %q", got)
	}
}

func TestCheckoutMayBeBare(t *testing.T) {
	w := newWork(t, files("top.yaml", "one"))
	bare := filepath.Join(t.TempDir(), "bare.git")
	gitCLI(t, ".", "clone", "-q", "--bare", w.Dir(), bare)
	c := openCheckout(t, bare)
	if got := c.read(t, "HEAD", "top.yaml"); got != "one" || !c.Bare() {
		t.Errorf("the bare repository has %q", got)
	}
	if openCheckout(t, w.Dir()).Bare() {
		t.Error("a working tree is bare")
	}
}

func TestCheckoutWithoutACommit(t *testing.T) {
	dir := t.TempDir()
	gitCLI(t, dir, "init", "-q", "-b", "main")
	if _, err := openCheckout(t, dir).Revision("HEAD"); !errors.Is(err, ErrNoCommit) {
		t.Error(err)
	}
	if _, err := openCheckout(t, dir).Revision("origin/main"); err == nil || errors.Is(err, ErrNoCommit) {
		t.Error(err)
	}
}

func TestCheckoutIsInARepo(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "nothing")} {
		if _, err := OpenCheckout(dir, ""); err == nil {
			t.Errorf("%s: it is in no repository", dir)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCheckout(file, ""); err == nil {
		t.Error("a file is no repository")
	}
}
