package gitrepo

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/gitdir"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/tree"
)

// Checkout reads revisions of a repository where it is: the one that somebody
// works in, or that a CI job has fetched. Unlike a [Repo] it follows nothing
// and copies nothing, so the repository may be shallow. It belongs to one
// goroutine.
type Checkout struct {
	names *git.Repository // nil for a directory in no repository
	repo  *Repo
	top   string   // of the working tree, empty without one
	added []*store // temporary, with objects of working trees
}

// ErrNoCommit tells that HEAD is a branch without a commit.
var ErrNoCommit = errors.New("there is no commit yet")

// ErrNoRepository says that a directory is in no Git repository.
var ErrNoRepository = errors.New("it is in no Git repository")

// OpenCheckout finds the repository that a directory is in. Snapshots hold what
// is at a path below the directory, with slashes, as with Options.Path; empty
// is the directory itself.
func OpenCheckout(dir, path string) (*Checkout, error) {
	dir, path, err := checkPlace(dir, path)
	if err != nil {
		return nil, err
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
	at, err := gitdir.Find(top)
	if err != nil {
		return nil, notCheckout(dir, err)
	}
	below, err := filepath.Rel(top, dir)
	if err != nil {
		return nil, notCheckout(dir, err)
	}
	r := &Repo{root: rootOf(below, path), store: newStore(at, true), log: slog.New(slog.DiscardHandler)}
	if err := checkFormat(r.store); err != nil {
		return nil, errors.Join(notCheckout(dir, err), r.store.close())
	}
	if bare {
		top = ""
	}
	return &Checkout{names: names, repo: r, top: top}, nil
}

// OpenDirectory is OpenCheckout for a directory that may be in no repository.
// Of such a directory only [Checkout.Working] can be read: what a commit of all
// its files would hold.
func OpenDirectory(dir, path string) (*Checkout, error) {
	c, err := OpenCheckout(dir, path)
	if !errors.Is(err, ErrNoRepository) {
		return c, err
	}
	if dir, path, err = checkPlace(dir, path); err != nil {
		return nil, err
	}
	r := &Repo{root: rootOf(".", path)}
	return &Checkout{repo: r, top: dir}, nil
}

// checkPlace returns the directory without symbolic links, and the path if it
// may be one of Options.Path.
func checkPlace(dir, at string) (string, string, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", "", fmt.Errorf("cannot open the config repo: %w", err)
	}
	at = path.Clean(at)
	if !tree.ValidPath(at) {
		return "", "", fmt.Errorf("cannot use path %q: want a relative path without .. in it", cut(at, maxName))
	}
	return dir, at, nil
}

// rootOf returns a path below a directory of the working tree as Repo.root has it.
func rootOf(below, at string) string {
	return strings.TrimPrefix(path.Join(filepath.ToSlash(below), at), ".")
}

func notCheckout(dir string, err error) error {
	if errors.Is(err, git.ErrRepositoryNotExists) {
		err = ErrNoRepository
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
	if c.names == nil {
		return Hash{}, fmt.Errorf("cannot find revision %q: %w", name, ErrNoRepository)
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
func (c *Checkout) Bare() bool { return c.top == "" }

// Snapshot opens a commit, as [Repo.Snapshot] does.
func (c *Checkout) Snapshot(h Hash) (*Snapshot, error) { return c.repo.Snapshot(h) }

// IsAncestor is [Repo.IsAncestor], as far as the history is there.
func (c *Checkout) IsAncestor(a, b Hash) (bool, error) { return c.repo.IsAncestor(a, b) }

// Close closes what is open. Snapshots cannot be read after.
func (c *Checkout) Close() (err error) {
	for _, s := range c.added {
		err = errors.Join(err, s.close(), os.RemoveAll(s.dir))
	}
	if c.repo.store != nil {
		err = errors.Join(err, c.repo.store.close())
	}
	return err
}
