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
)

// Checkout reads revisions of a local repository in place, such as the checkout
// of a user or of a CI job. Unlike a [Repo] it follows no branch and copies
// nothing, so the repository may be shallow. Use it from one goroutine.
type Checkout struct {
	names *git.Repository // resolves names; nil for a directory in no repository
	repo  *Repo
	top   string   // of the working tree, empty without one
	added []*store // temporary, with objects of working trees
}

// ErrNoCommit: HEAD is a branch without a commit.
var ErrNoCommit = errors.New("there is no commit yet")

// ErrNoRepository: the directory is in no Git repository.
var ErrNoRepository = errors.New("it is in no Git repository")

// OpenCheckout opens the repository that contains a directory. Snapshots hold
// the files at path, which is relative to the directory and has slashes as in
// Options.Path; empty is the directory itself.
func OpenCheckout(dir, path string) (*Checkout, error) {
	dir, path, err := checkPaths(dir, path)
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
	at, err := FindGitDir(top)
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
// Only [Checkout.Working] reads such a directory: it returns the tree that a
// commit of all its files would have.
func OpenDirectory(dir, path string) (*Checkout, error) {
	c, err := OpenCheckout(dir, path)
	if !errors.Is(err, ErrNoRepository) {
		return c, err
	}
	if dir, path, err = checkPaths(dir, path); err != nil {
		return nil, err
	}
	r := &Repo{root: rootOf(".", path)}
	return &Checkout{repo: r, top: dir}, nil
}

// checkPaths returns the directory without symbolic links, and the path if it is
// valid as Options.Path.
func checkPaths(dir, at string) (string, string, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", "", fmt.Errorf("cannot open the config repo: %w", err)
	}
	at = path.Clean(at)
	if !ValidPath(at) {
		return "", "", fmt.Errorf("cannot use path %q: want a relative path without .. in it", cut(at, maxName))
	}
	return dir, at, nil
}

// rootOf returns Repo.root for a path below a directory of the working tree.
func rootOf(below, at string) string {
	return strings.TrimPrefix(path.Join(filepath.ToSlash(below), at), ".")
}

func notCheckout(dir string, err error) error {
	if errors.Is(err, git.ErrRepositoryNotExists) {
		err = ErrNoRepository
	}
	return fmt.Errorf("cannot open the config repo at %s: %w", dir, err)
}

// noCommit matches names that git rev-parse resolves to a file or a tree, and go-git to the commit that contains it.
var noCommit = regexp.MustCompile(`^[^:]+:|\^\{(tree|blob)\}`)

// Revision resolves a name to a commit as git rev-parse does: a branch, a tag,
// origin/main, HEAD~1, or the first digits of a hash.
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

// IsAncestor works as [Repo.IsAncestor], within the history that was fetched.
func (c *Checkout) IsAncestor(a, b Hash) (bool, error) { return c.repo.IsAncestor(a, b) }

// Close closes the repository and removes temporary objects. Snapshots cannot be
// read afterwards.
func (c *Checkout) Close() (err error) {
	for _, s := range c.added {
		err = errors.Join(err, s.close(), os.RemoveAll(s.dir))
	}
	if c.repo.store != nil {
		err = errors.Join(err, c.repo.store.close())
	}
	return err
}
