package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Author signs a commit of a Work.
type Author struct {
	Name  string
	Email string
	When  time.Time // zero is now
}

// Work is a normal repository with working files, for demonstrations and
// tests: a person can look at the files and run git log. It needs no git
// binary and belongs to one goroutine.
type Work struct {
	dir  string
	repo *git.Repository
}

// Init makes a repository in dir, which must be empty or not exist, puts the
// files in and commits them to its branch main.
func Init(dir string, files fs.FS, message string, author Author) (*Work, error) {
	if err := emptyDir(dir); err != nil {
		return nil, err
	}
	if err := os.CopyFS(dir, files); err != nil {
		return nil, fmt.Errorf("cannot fill %s: %w", dir, err)
	}
	repo, err := git.PlainInitWithOptions(dir, &git.PlainInitOptions{
		InitOptions: git.InitOptions{DefaultBranch: plumbing.Main},
	})
	if err != nil {
		return nil, fmt.Errorf("cannot make a repository in %s: %w", dir, err)
	}
	w := &Work{dir: dir, repo: repo}
	tree, err := repo.Worktree()
	if err != nil {
		return nil, fmt.Errorf("cannot make a repository in %s: %w", dir, err)
	}
	if err := tree.AddWithOptions(&git.AddOptions{All: true}); err != nil {
		return nil, fmt.Errorf("cannot add the files of %s: %w", dir, err)
	}
	if _, err := w.commit(tree, message, author); err != nil {
		return nil, err
	}
	return w, nil
}

func emptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cannot make directory %s: %w", dir, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cannot read directory %s: %w", dir, err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("cannot make a repository in %s: the directory is not empty", dir)
	}
	return nil
}

// Clone copies one branch of a repository, with its history, into a new Work.
// Nothing is written to the repository that it comes from.
func Clone(ctx context.Context, from, branch, dir string) (*Work, error) {
	if err := emptyDir(dir); err != nil {
		return nil, err
	}
	r, err := Open(Options{URL: from, Branch: branch, Dir: dir})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	tip, err := r.Resolve(ctx)
	if err != nil {
		return nil, err
	}
	r.dir = filepath.Join(dir, ".git")
	if _, err := r.Fetch(ctx, tip); err != nil {
		return nil, err
	}
	if _, err := r.Snapshot(tip); err != nil {
		return nil, err // a tree that must not reach a disk
	}
	return checkOut(dir, r.branch)
}

// checkOut turns a bare store in dir/.git into a repository with files.
func checkOut(dir string, branch plumbing.ReferenceName) (*Work, error) {
	repo, err := git.PlainOpen(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the clone in %s: %w", dir, err)
	}
	cfg, err := repo.Config()
	if err != nil {
		return nil, fmt.Errorf("cannot open the clone in %s: %w", dir, err)
	}
	cfg.Core.IsBare = false
	if err := repo.SetConfig(cfg); err != nil {
		return nil, fmt.Errorf("cannot set up the clone in %s: %w", dir, err)
	}
	tree, err := repo.Worktree()
	if err != nil {
		return nil, fmt.Errorf("cannot set up the clone in %s: %w", dir, err)
	}
	if err := tree.Checkout(&git.CheckoutOptions{Branch: branch, Force: true}); err != nil {
		return nil, fmt.Errorf("cannot check out %s in %s: %w", branch.Short(), dir, err)
	}
	return &Work{dir: dir, repo: repo}, nil
}

// Dir is the directory with the working files. It is a URL for Options.
func (w *Work) Dir() string { return w.dir }

// Head is the newest commit of the current branch.
func (w *Work) Head() (Hash, error) {
	ref, err := w.repo.Head()
	if err != nil {
		return Hash{}, fmt.Errorf("cannot read the head of %s: %w", w.dir, err)
	}
	return Hash(ref.Hash()), nil
}

// Commit writes the changed files, removes those whose content is nil, and
// commits that to the current branch. Paths have slashes and are relative to
// the root. Without changes the commit is empty.
func (w *Work) Commit(message string, changes map[string][]byte, author Author) (Hash, error) {
	tree, err := w.repo.Worktree()
	if err != nil {
		return Hash{}, fmt.Errorf("cannot commit in %s: %w", w.dir, err)
	}
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return Hash{}, fmt.Errorf("cannot commit in %s: %w", w.dir, err)
	}
	defer root.Close()
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		if !validPath(name) || name == "." {
			return Hash{}, fmt.Errorf("cannot commit %q: it is not a path of a file", name)
		}
		if err := change(root, tree, name, changes[name]); err != nil {
			return Hash{}, fmt.Errorf("cannot commit %q: %w", name, err)
		}
	}
	return w.commit(tree, message, author)
}

func change(root *os.Root, tree *git.Worktree, name string, content []byte) error {
	if content == nil {
		_, err := tree.Remove(name)
		return err
	}
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := root.WriteFile(name, content, 0o644); err != nil {
		return err
	}
	return tree.AddWithOptions(&git.AddOptions{Path: name, SkipStatus: true})
}

func (w *Work) commit(tree *git.Worktree, message string, author Author) (Hash, error) {
	if author.Name == "" || author.Email == "" {
		return Hash{}, errors.New("cannot commit without a name and an e-mail address")
	}
	when := author.When
	if when.IsZero() {
		when = time.Now()
	}
	h, err := tree.Commit(cmp.Or(message, "update"), &git.CommitOptions{
		AllowEmptyCommits: true,
		Author:            &object.Signature{Name: author.Name, Email: author.Email, When: when},
	})
	if err != nil {
		return Hash{}, fmt.Errorf("cannot commit in %s: %w", w.dir, err)
	}
	return Hash(h), nil
}
