// Package worktree creates Git repositories with working files and commits to
// them, without the git binary. Only the demo, the swarm and tests use it.
//
// Call [Init] first, or [Clone] for a copy of a repository. The result is a
// normal repository: the files are on disk and git log works. Use a [Work] from
// one goroutine.
package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/client"
	"github.com/go-git/go-git/v5/plumbing/transport/server"
)

// Author names the author of a commit.
type Author struct {
	Name  string
	Email string
	When  time.Time // zero is now
}

// Work is a repository with working files.
type Work struct {
	dir  string
	repo *git.Repository
}

// Init makes a repository in dir, which must be empty or not exist, copies the
// files into it and commits them to its branch main.
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
// from is a URL or a local path and stays unchanged; branch is main if it is "".
func Clone(ctx context.Context, from, branch, dir string) (*Work, error) {
	if err := emptyDir(dir); err != nil {
		return nil, err
	}
	repo, err := git.PlainCloneContext(ctx, dir, false, &git.CloneOptions{
		URL:           from,
		ReferenceName: plumbing.NewBranchReferenceName(cmp.Or(branch, "main")),
		SingleBranch:  true,
		Tags:          git.NoTags,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot clone %s into %s: %w", redacted(from), dir, err)
	}
	return &Work{dir: dir, repo: repo}, nil
}

// redacted removes the user and password from a URL.
func redacted(from string) string {
	scheme, rest, ok := strings.Cut(from, "://")
	if !ok {
		return from
	}
	host, path, _ := strings.Cut(rest, "/")
	return scheme + "://" + host[strings.LastIndexByte(host, '@')+1:] + "/" + path
}

// go-git reads local repositories by running the git binary, unless they are read
// with its own server as here.
func init() { client.InstallProtocol("file", server.NewClient(local{})) }

type local struct{}

// Load opens the repository at the path of the endpoint.
func (local) Load(ep *transport.Endpoint) (storer.Storer, error) {
	repo, err := git.PlainOpenWithOptions(ep.Path, &git.PlainOpenOptions{EnableDotGitCommonDir: true})
	if err != nil {
		return nil, err
	}
	return repo.Storer, nil
}

// Dir returns the directory with the working files.
func (w *Work) Dir() string { return w.dir }

// Head returns the newest commit of the current branch.
func (w *Work) Head() (plumbing.Hash, error) {
	ref, err := w.repo.Head()
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("cannot read the head of %s: %w", w.dir, err)
	}
	return ref.Hash(), nil
}

// Commit writes the changed files, removes those whose content is nil, and
// commits that to the current branch. Paths have slashes and are relative to
// the root. Without changes the commit is empty.
func (w *Work) Commit(message string, changes map[string][]byte, author Author) (plumbing.Hash, error) {
	tree, err := w.repo.Worktree()
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("cannot commit in %s: %w", w.dir, err)
	}
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("cannot commit in %s: %w", w.dir, err)
	}
	defer root.Close()
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		if name == "." || !fs.ValidPath(name) || strings.EqualFold(strings.Split(name, "/")[0], ".git") {
			return plumbing.ZeroHash, fmt.Errorf("cannot commit %q: it is not a path of a file", name)
		}
		if err := change(root, tree, name, changes[name]); err != nil {
			return plumbing.ZeroHash, fmt.Errorf("cannot commit %q: %w", name, err)
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

func (w *Work) commit(tree *git.Worktree, message string, author Author) (plumbing.Hash, error) {
	if author.Name == "" || author.Email == "" {
		return plumbing.ZeroHash, errors.New("cannot commit without a name and an e-mail address")
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
		return plumbing.ZeroHash, fmt.Errorf("cannot commit in %s: %w", w.dir, err)
	}
	return h, nil
}
