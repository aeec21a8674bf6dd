package worktree

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

var alice = Author{Name: "Alice", Email: "alice@example.com", When: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}

func newWork(t *testing.T, pairs ...string) *Work {
	t.Helper()
	files := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		files[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1]), Mode: 0o644}
	}
	w, err := Init(filepath.Join(t.TempDir(), "work"), files, "first", alice)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// gitCLI runs the git binary, which judges what go-git made.
func gitCLI(t *testing.T, dir string, args ...string) string {
	t.Helper()
	bin, err := exec.LookPath("git")
	if err != nil {
		t.Skip("needs the git binary")
	}
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func wantFile(t *testing.T, w *Work, name, want string) {
	t.Helper()
	if data, err := os.ReadFile(filepath.Join(w.Dir(), name)); err != nil || string(data) != want {
		t.Errorf("%s holds %q, %v, want %q", name, data, err, want)
	}
}

func TestWorkIsANormalCleanRepository(t *testing.T) {
	w := newWork(t, "a", "1", "d/b", "2")
	if _, err := w.Commit("second", map[string][]byte{"a": []byte("3"), "d/b": nil, "e/f": []byte("4")}, alice); err != nil {
		t.Fatal(err)
	}
	wantFile(t, w, "e/f", "4")
	if got := gitCLI(t, w.Dir(), "ls-tree", "-r", "--name-only", "HEAD"); got != "a\ne/f" {
		t.Errorf("the commit has %q", got)
	}
	if got := gitCLI(t, w.Dir(), "status", "--porcelain"); got != "" {
		t.Errorf("git status says %q", got)
	}
	if got := gitCLI(t, w.Dir(), "log", "--format=%an %ae %s"); got != "Alice alice@example.com second\nAlice alice@example.com first" {
		t.Errorf("git log says %q", got)
	}
	gitCLI(t, w.Dir(), "fsck", "--strict")
}

func TestCloneIsIndependentOfItsOrigin(t *testing.T) {
	origin := newWork(t, "a", "1")
	before, err := origin.Commit("two", map[string][]byte{"a": []byte("2")}, alice)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Clone(t.Context(), origin.Dir(), "", filepath.Join(t.TempDir(), "clone"))
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, c, "a", "2")
	if _, err := c.Commit("three", map[string][]byte{"b": []byte("3")}, alice); err != nil {
		t.Fatal(err)
	}
	if got := gitCLI(t, c.Dir(), "log", "--format=%s"); got != "three\ntwo\nfirst" {
		t.Errorf("git log says %q", got)
	}
	if after, err := origin.Head(); err != nil || after != before {
		t.Errorf("origin moved to %s, %v", after, err)
	}
	if err := os.RemoveAll(origin.Dir()); err != nil {
		t.Fatal(err)
	}
	gitCLI(t, c.Dir(), "fsck", "--strict", "--full")
	if got := gitCLI(t, c.Dir(), "status", "--porcelain"); got != "" {
		t.Errorf("git status of the clone says %q", got)
	}
}

func TestCloneRefusesATreeThatMustNotReachADisk(t *testing.T) {
	w := newWork(t, "a", "1")
	put := func(kind plumbing.ObjectType, content string) plumbing.Hash {
		o := w.repo.Storer.NewEncodedObject()
		o.SetType(kind)
		out, err := o.Writer()
		if err == nil {
			_, err = out.Write([]byte(content))
		}
		if err != nil {
			t.Fatal(err)
		}
		h, err := w.repo.Storer.SetEncodedObject(o)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	for _, name := range []string{"..", ".git", ".GIT"} {
		blob := put(plumbing.BlobObject, "out")
		sub := put(plumbing.TreeObject, "100644 escaped\x00"+string(blob[:]))
		tree := put(plumbing.TreeObject, "40000 "+name+"\x00"+string(sub[:]))
		who := "Mallory <m@example.com> 1700000000 +0000\n"
		h := put(plumbing.CommitObject, "tree "+tree.String()+"\nauthor "+who+"committer "+who+"\ncrafted\n")
		if err := w.repo.Storer.SetReference(plumbing.NewHashReference(plumbing.Main, h)); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if _, err := Clone(t.Context(), w.Dir(), "main", filepath.Join(dir, "clone")); err == nil {
			t.Errorf("a tree with %q is checked out", name)
		}
		for _, file := range []string{"escaped", "clone/.git/escaped", "clone/.GIT/escaped"} {
			if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
				t.Errorf("%s was written", file)
			}
		}
	}
}

func TestAFailedCloneShowsNoCredentials(t *testing.T) {
	_, err := Clone(t.Context(), "http://user:s3cret@127.0.0.1:1/x", "", filepath.Join(t.TempDir(), "clone"))
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Error(err)
	}
}

func TestWorkRefusesWhatItCannotCommit(t *testing.T) {
	w := newWork(t, "a", "1")
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
	if _, err := Init(w.Dir(), fstest.MapFS{}, "x", alice); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("Init over files gives %v", err)
	}
	if h, err := w.Commit("empty", nil, alice); err != nil || h.IsZero() {
		t.Errorf("an empty commit gives %v", err)
	}
}
