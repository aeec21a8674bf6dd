package gitrepo

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// until reads signals until the branch is at the wanted commit. The deadline of
// the test binary ends it if that never happens.
func until(t *testing.T, r *Repo, signals <-chan struct{}, want Hash) {
	t.Helper()
	for range signals {
		if h, err := r.Resolve(t.Context()); err == nil && h == want {
			return
		}
	}
	t.Fatal("the watch ended")
}

func TestWatchSignalsACommit(t *testing.T) {
	for _, tc := range []struct{ name, branch, sub string }{
		{"worktree", "main", ""},
		{"bare", "main", ".git"},
		{"branch with slashes", "env/prod/eu", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWork(t, files("a", "1"))
			if tc.branch != "main" {
				gitCLI(t, w.Dir(), "checkout", "-q", "-b", tc.branch)
			}
			r := openRepo(t, Options{URL: filepath.Join(w.Dir(), tc.sub), Branch: tc.branch})
			ctx, cancel := context.WithCancel(t.Context())
			signals := r.Watch(ctx)
			until(t, r, signals, commit(t, w, "two", "a", "2"))
			until(t, r, signals, commit(t, w, "three", "a", "3"))
			cancel()
			for range signals { // closed once nothing of it is left
			}
		})
	}
}

func TestWatchSurvivesPackedReferencesAndRemovedDirectories(t *testing.T) {
	w := newWork(t, files("a", "1"))
	gitCLI(t, w.Dir(), "checkout", "-q", "-b", "env/prod")
	h, err := w.Head()
	if err != nil {
		t.Fatal(err)
	}
	r := openRepo(t, Options{URL: w.Dir(), Branch: "env/prod"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	signals := r.Watch(ctx)
	gitCLI(t, w.Dir(), "pack-refs", "--all", "--prune")
	until(t, r, signals, h)
	gitCLI(t, w.Dir(), "commit", "-q", "--allow-empty", "-m", "two")
	head, err := ParseHash(gitCLI(t, w.Dir(), "rev-parse", "HEAD"))
	if err != nil {
		t.Fatal(err)
	}
	until(t, r, signals, head)
}

func TestWatchFindsARepositoryThatIsMadeAgain(t *testing.T) {
	w := newWork(t, files("a", "1"))
	r := openRepo(t, Options{URL: w.Dir()})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	signals := r.Watch(ctx)
	for i := range 3 {
		if err := os.RemoveAll(w.Dir()); err != nil {
			t.Fatal(err)
		}
		again := initWork(t, w.Dir(), files("a", string(rune('a'+i))))
		h, err := again.Head()
		if err != nil {
			t.Fatal(err)
		}
		until(t, r, signals, h)
		until(t, r, signals, commit(t, again, "two", "a", "x"))
	}
}

func TestWatchOfARemoteIsNil(t *testing.T) {
	if openRepo(t, Options{URL: "https://example.com/x"}).Watch(t.Context()) != nil {
		t.Error("a remote is watched")
	}
}
