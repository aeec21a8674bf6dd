package gitrepo

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
)

// Checkout reads revisions of a repository where it is: the one that somebody
// works in, or that a CI job has fetched. Unlike a [Repo] it follows nothing
// and copies nothing, so the repository may be shallow. It belongs to one
// goroutine.
type Checkout struct {
	names *git.Repository
	repo  *Repo
	bare  bool
}

// ErrNoCommit tells that HEAD is a branch without a commit.
var ErrNoCommit = errors.New("there is no commit yet")

// OpenCheckout finds the repository that a directory is in. If it is not the
// top of the working tree, then paths are relative to it, as with
// Options.Path.
func OpenCheckout(dir string) (*Checkout, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open the config repo: %w", err)
	}
	names, err := git.PlainOpenWithOptions(dir, &git.PlainOpenOptions{DetectDotGit: true, EnableDotGitCommonDir: true})
	if errors.Is(err, git.ErrRepositoryNotExists) {
		names, err = git.PlainOpen(dir) // a bare one
	}
	if err != nil {
		return nil, notCheckout(dir, err)
	}
	top, bare := dir, false
	if tree, err := names.Worktree(); err == nil {
		top = tree.Filesystem.Root()
	} else if bare = errors.Is(err, git.ErrIsBareRepository); !bare {
		return nil, notCheckout(dir, err)
	}
	at, err := gitDir(top)
	if err != nil {
		return nil, notCheckout(dir, err)
	}
	root, err := filepath.Rel(top, dir)
	if err != nil {
		return nil, notCheckout(dir, err)
	}
	r := &Repo{root: strings.TrimPrefix(filepath.ToSlash(root), "."), store: newStore(at, RemoteDamaged)}
	r.cache.reset()
	if err := checkFormat(r.store); err != nil {
		return nil, errors.Join(notCheckout(dir, err), r.store.close())
	}
	return &Checkout{names: names, repo: r, bare: bare}, nil
}

func notCheckout(dir string, err error) error {
	if errors.Is(err, git.ErrRepositoryNotExists) {
		return fmt.Errorf("cannot open the config repo: %s is in no Git repository", dir)
	}
	return fmt.Errorf("cannot open the config repo at %s: %w", dir, err)
}

// noCommit is what git rev-parse takes for a file or a tree, and go-git for the commit that it is in.
var noCommit = regexp.MustCompile(`^[^:]+:|\^\{(tree|blob)\}`)

// Revision finds the commit that a name stands for, as git rev-parse reads it:
// a branch, a tag, origin/main, HEAD~1, or a hash, which may be cut.
func (c *Checkout) Revision(name string) (Hash, error) {
	if noCommit.MatchString(name) {
		return Hash{}, fmt.Errorf("cannot find revision %q: it names a file or a tree, and no commit", name)
	}
	h, err := c.names.ResolveRevision(plumbing.Revision(name))
	if err != nil {
		if _, none := c.names.Head(); name == "HEAD" && errors.Is(none, plumbing.ErrReferenceNotFound) {
			err = ErrNoCommit
		}
		return Hash{}, fmt.Errorf("cannot find revision %q: %w; a CI job may have to fetch it", name, err)
	}
	return Hash(*h), nil
}

// Bare reports whether there is no working tree.
func (c *Checkout) Bare() bool { return c.bare }

// Snapshot opens a commit, as [Repo.Snapshot] does.
func (c *Checkout) Snapshot(h Hash) (*Snapshot, error) { return c.repo.Snapshot(h) }

// IsAncestor is [Repo.IsAncestor], as far as the history is there.
func (c *Checkout) IsAncestor(a, b Hash) (bool, error) { return c.repo.IsAncestor(a, b) }

// Close closes what is open. Snapshots cannot be read after.
func (c *Checkout) Close() error { return c.repo.store.close() }
