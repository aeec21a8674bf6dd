package gitrepo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWorkIsANormalCleanRepository(t *testing.T) {
	w := newWork(t, files("a", "1", "d/b", "2"))
	if _, err := w.Commit("second", map[string][]byte{"a": []byte("3"), "d/b": nil, "e/f": []byte("4")}, alice); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(w.Dir(), "e", "f"))
	if err != nil || string(data) != "4" {
		t.Errorf("working file holds %q, %v", data, err)
	}
	s, _ := follow(t, openRepo(t, Options{URL: w.Dir()}))
	wantFiles(t, s.Tree, "a", "3", "e/f", "4")
	if got := gitCLI(t, w.Dir(), "status", "--porcelain"); got != "" {
		t.Errorf("git status says %q", got)
	}
	if got := gitCLI(t, w.Dir(), "log", "--format=%an %ae %s"); got != "Alice alice@example.com second\nAlice alice@example.com first" {
		t.Errorf("git log says %q", got)
	}
	gitCLI(t, w.Dir(), "fsck", "--strict")
}

func TestStoreIsARepositoryThatGitAccepts(t *testing.T) {
	w := newWork(t, files("a", "1", "d/b", "2"))
	r := openRepo(t, Options{URL: w.Dir()})
	follow(t, r)
	commit(t, w, "two", "a", "2")
	follow(t, r)
	gitCLI(t, r.dir, "fsck", "--strict", "--full")
	if got := gitCLI(t, r.dir, "log", "--format=%s", "main"); got != "two\nfirst" {
		t.Errorf("git log says %q", got)
	}
}

func TestCloneIsIndependentOfItsOrigin(t *testing.T) {
	origin := newWork(t, files("a", "1"))
	commit(t, origin, "two", "a", "2")
	before, err := origin.Head()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Clone(t.Context(), origin.Dir(), "main", filepath.Join(t.TempDir(), "clone"))
	if err != nil {
		t.Fatal(err)
	}
	h := commit(t, c, "three", "b", "3")
	s, _ := follow(t, openRepo(t, Options{URL: c.Dir()}))
	if s.Commit.Hash != h || len(s.Commit.Parents) != 1 || s.Commit.Parents[0] != before {
		t.Errorf("clone is at %+v", s.Commit)
	}
	wantFiles(t, s.Tree, "a", "2", "b", "3")
	if after, err := origin.Head(); err != nil || after != before {
		t.Errorf("origin moved to %s, %v", after, err)
	}
	if got := gitCLI(t, c.Dir(), "status", "--porcelain"); got != "" {
		t.Errorf("git status of the clone says %q", got)
	}
}

func TestCloneRefusesATreeThatMustNotReachADisk(t *testing.T) {
	w := newWork(t, files("a", "1"))
	s, _ := follow(t, openRepo(t, Options{URL: w.Dir()}))
	crafted(t, w, line("100644", "..", blobOf(t, s, "a")))
	_, err := Clone(t.Context(), w.Dir(), "main", filepath.Join(t.TempDir(), "clone"))
	wantReason(t, err, UnsafePath)
}

func TestWorkRefusesWhatItCannotCommit(t *testing.T) {
	w := newWork(t, files("a", "1"))
	for _, name := range []string{"../x", "/x", ".git/config", ".", ""} {
		if _, err := w.Commit("x", map[string][]byte{name: []byte("1")}, alice); err == nil {
			t.Errorf("a commit of %q succeeds", name)
		}
	}
	if _, err := w.Commit("x", map[string][]byte{"none": nil}, alice); err == nil {
		t.Error("removing nothing succeeds")
	}
	if _, err := w.Commit("x", nil, Author{}); err == nil || !strings.Contains(err.Error(), "name") {
		t.Errorf("a commit by nobody gives %v", err)
	}
	if _, err := Init(w.Dir(), files("a", "1"), "x", alice); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("Init over files gives %v", err)
	}
	if h, err := w.Commit("empty", nil, alice); err != nil || h.IsZero() {
		t.Errorf("an empty commit gives %v", err)
	}
}
