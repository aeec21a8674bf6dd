package gitrepo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"

	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
)

var alice = worktree.Author{Name: "Alice", Email: "alice@example.com", When: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}

// files builds a file system from pairs of path and content.
func files(pairs ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1]), Mode: 0o644}
	}
	return m
}

// Work is a repository with working files, and with objects that tests craft.
type Work struct {
	*worktree.Work
	repo *git.Repository
}

func newWork(t testing.TB, f fs.FS) *Work {
	t.Helper()
	return initWork(t, filepath.Join(t.TempDir(), "work"), f)
}

func initWork(t testing.TB, dir string, f fs.FS) *Work {
	t.Helper()
	w, err := worktree.Init(dir, f, "first", alice)
	if err != nil {
		t.Fatal(err)
	}
	repo, err := git.PlainOpen(dir)
	if err != nil {
		t.Fatal(err)
	}
	return &Work{w, repo}
}

func (w *Work) Head() (Hash, error) {
	h, err := w.Work.Head()
	return Hash(h), err
}

func commit(t testing.TB, w *Work, message string, pairs ...string) Hash {
	t.Helper()
	changes := map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		changes[pairs[i]] = []byte(pairs[i+1])
	}
	h, err := w.Commit(message, changes, alice)
	if err != nil {
		t.Fatal(err)
	}
	return Hash(h)
}

// Access is what a Repo is opened with.
type Access = outbound.Options

const (
	typeAdvertisement = "application/x-git-upload-pack-advertisement"
	typeResult        = "application/x-git-upload-pack-result"
)

var opened sync.Map // URLs by Repo

func urlOf(r *Repo) string {
	url, _ := opened.Load(r)
	return url.(string)
}

func openRepo(t testing.TB, o Options) *Repo {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "stores")
	}
	r, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	opened.Store(r, o.URL)
	t.Cleanup(func() {
		opened.Delete(r)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// reopened is the Repo that a new process would open on the same store.
func reopened(t testing.TB, r *Repo) *Repo {
	t.Helper()
	return openRepo(t, Options{
		URL: urlOf(r), Branch: r.branch.Short(), Path: r.root, Dir: filepath.Dir(r.dir),
	})
}

// follow resolves, fetches and opens the branch. It also returns the damage for
// which the store was replaced, if it was.
func follow(t testing.TB, r *Repo) (*Snapshot, string) {
	t.Helper()
	h, err := r.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	damage, err := r.fetch(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Snapshot(h)
	if err != nil {
		t.Fatal(err)
	}
	return s, damage
}

// contents reads every regular file of a tree.
func contents(tree *Tree) (map[string]string, error) {
	found := map[string]string{}
	err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := tree.ReadFile(path)
		found[path] = string(data)
		return err
	})
	return found, err
}

func wantFiles(t testing.TB, tree *Tree, pairs ...string) {
	t.Helper()
	got, err := contents(tree)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		want[pairs[i]] = pairs[i+1]
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("files are %v, want %v", got, want)
	}
}

func wantReason(t testing.TB, err error, want Reason) *Error {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Reason != want {
		t.Fatalf("error is %v (%T), want reason %s", err, err, want)
	}
	if len(e.Msg) > maxMessage || strings.ContainsAny(e.Msg, "\n\x00") {
		t.Errorf("message %q is not fit for a status", e.Msg)
	}
	return e
}

// gitCLI runs the git binary, with which tests make what go-git cannot.
func gitCLI(t testing.TB, dir string, args ...string) string {
	t.Helper()
	bin, err := exec.LookPath("git")
	if err != nil {
		t.Skip("needs the git binary")
	}
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Alice", "GIT_AUTHOR_EMAIL=alice@example.com",
		"GIT_COMMITTER_NAME=Alice", "GIT_COMMITTER_EMAIL=alice@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// crafted writes a commit whose tree Git would not write and puts it on main.
func crafted(t testing.TB, w *Work, tree string) Hash {
	t.Helper()
	put := func(kind plumbing.ObjectType, content string) plumbing.Hash {
		o := w.repo.Storer.NewEncodedObject()
		o.SetType(kind)
		wr, err := o.Writer()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wr.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
		h, err := w.repo.Storer.SetEncodedObject(o)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	who := "Mallory <m@example.com> 1700000000 +0000\n"
	h := put(plumbing.CommitObject, "tree "+put(plumbing.TreeObject, tree).String()+
		"\nauthor "+who+"committer "+who+"\ncrafted\n")
	setBranch(t, w, Hash(h))
	return Hash(h)
}

func setBranch(t testing.TB, w *Work, h Hash) {
	t.Helper()
	ref := plumbing.NewHashReference(plumbing.Main, plumbing.Hash(h))
	if err := w.repo.Storer.SetReference(ref); err != nil {
		t.Fatal(err)
	}
}

// line is one entry of a crafted tree.
func line(mode, name string, h Hash) string {
	return mode + " " + name + "\x00" + string(h[:])
}

func blobOf(t testing.TB, s *Snapshot, path string) Hash {
	t.Helper()
	info, err := s.Tree.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(Hash)
}
