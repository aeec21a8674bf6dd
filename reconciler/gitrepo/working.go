package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

const (
	workingTree  = "the working tree" // the subject of errors
	workingLimit = 5 * time.Minute
	maxGitOutput = 4 << 10 // bytes of the output of git that are kept
)

// ErrNoGit: the program git, which [Checkout.Working] needs, is not in $PATH.
var ErrNoGit = errors.New("the program git is not in $PATH")

// Working returns the tree that git add -A and git commit would make of the
// working tree. The Commit of the Snapshot is zero. It is checked as any other
// Snapshot, and can be read until the Checkout is closed.
//
// The program git makes it, because no library implements all rules of ignore
// files, attributes, filters and line ends. It takes 5 min at most.
//
// Nothing is written in the repository: git works on a copy of the index, and
// its objects go to a temporary directory. Git may update the modification time
// of an existing object.
//
// Of the programs that a configuration can name, git runs the clean filters,
// because they decide what a commit holds. A revision cannot name a program; it
// can only say for which files a filter of the user's configuration runs. No hook,
// no fsmonitor and no transfer runs. Git refuses a repository of another owner
// (safe.directory), and the error says what to do.
//
// Known gaps: a new or changed file of any size is copied to the temporary
// directory, unless Git ignores it. The time for more than 50,000 such files
// grows with the square of their number.
func (c *Checkout) Working(ctx context.Context) (*Snapshot, error) {
	if c.Bare() {
		return nil, errors.New("cannot read the working tree: a bare repository has none")
	}
	ctx, cancel := context.WithTimeout(ctx, workingLimit)
	defer cancel()
	dir, err := os.MkdirTemp("", "zester-working-")
	if err != nil {
		return nil, fmt.Errorf("cannot read the working tree: %w", err)
	}
	added := newStore(dir, false)
	added.objects = newStorage(dir, filesystem.Options{ExclusiveAccess: true}) // lists its objects once
	c.added = append(c.added, added)
	root, err := c.add(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read the working tree: %w", err)
	}
	t, err := c.repo.check(&workingObjects{added, c.repo.store}, root, workingTree)
	if hasReason(err, PathNotFound) {
		if info, statErr := os.Lstat(filepath.Join(c.top, filepath.FromSlash(c.repo.root))); statErr == nil &&
			info.IsDir() {
			err = errorf(PathNotFound, workingTree,
				"Git would commit nothing of directory %q: it is empty, or ignored by .gitignore", c.repo.root)
		}
	}
	if err != nil {
		return nil, err
	}
	return &Snapshot{Tree: t}, nil
}

// add adds the files of the working tree to an index in dir, and returns the
// tree that they make.
func (c *Checkout) add(ctx context.Context, dir string) (Hash, error) {
	g, err := c.git(ctx, dir)
	if err != nil {
		return Hash{}, err
	}
	// Files without conversion go to one pack (bigFileThreshold): 50,000 single objects take much longer.
	if _, err := g.run(ctx, "-c", "core.bigFileThreshold=1", "-c", "core.compression=0", "add", "-A"); err != nil {
		return Hash{}, err
	}
	h, err := g.run(ctx, "write-tree", "--missing-ok")
	if err != nil {
		return Hash{}, err
	}
	return ParseHash(h)
}

// git prepares a temporary directory and returns the program for it. It gets a
// copy of the index, or a new repository if the working tree is in none.
func (c *Checkout) git(ctx context.Context, dir string) (*gitProgram, error) {
	g := &gitProgram{top: c.top, env: gitEnvironment()}
	if c.names == nil {
		if _, err := g.run(ctx, "-c", "init.defaultObjectFormat=sha1", "init", "-q", "--bare", "--template=",
			dir); err != nil {
			return nil, err
		}
		g.env = append(g.env, "GIT_DIR="+dir, "GIT_WORK_TREE="+c.top)
		return g, nil
	}
	// Git finds the repository itself: with GIT_DIR it would not check the owner.
	index, err := g.path(ctx, "index")
	if err != nil {
		return nil, err
	}
	objects, err := g.path(ctx, "objects")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "objects"), 0o700),
		copyIndex(index, filepath.Join(dir, "index"))); err != nil {
		return nil, err
	}
	quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(objects) + `"`
	g.env = append(g.env, "GIT_INDEX_FILE="+filepath.Join(dir, "index"),
		"GIT_OBJECT_DIRECTORY="+filepath.Join(dir, "objects"),
		"GIT_ALTERNATE_OBJECT_DIRECTORIES="+quoted)
	return g, nil
}

// copyIndex copies an index if there is one, with its modification time: Git
// rereads the files that changed after that time.
func copyIndex(from, to string) error {
	info, err := os.Stat(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

// gitProgram runs git in a working tree.
type gitProgram struct {
	top string
	env []string
}

// gitEnvironment returns the environment without the GIT_ variables that name
// another repository, index or program, which Git sets for hooks. GIT_CONFIG_
// variables stay.
func gitEnvironment() (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") || strings.HasPrefix(v, "GIT_CONFIG_") {
			env = append(env, v)
		}
	}
	return append(env, "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0")
}

// run returns the output of a command, without the last end of line.
func (g *gitProgram) run(ctx context.Context, args ...string) (string, error) {
	command := append([]string{
		"-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.DevNull,
		"-c", "core.splitIndex=false", // a split one is written beside the original
		"-c", "protocol.allow=never", "-c", "advice.addEmbeddedRepo=false", "-c", "core.safecrlf=false",
	}, args...)
	cmd := exec.CommandContext(ctx, "git", command...)
	var stdout, stderr firstBytes
	cmd.Dir = g.top
	cmd.Env = g.env
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", ErrNoGit
	case ctx.Err() != nil:
		return "", fmt.Errorf("git took too long or was interrupted: %w", ctx.Err())
	case err != nil:
		return "", fmt.Errorf("git: %w: %s", err, oneLine(string(stderr), maxMessage))
	}
	return strings.TrimSuffix(string(stdout), "\n"), nil
}

// path returns the absolute path of a file of the repository.
func (g *gitProgram) path(ctx context.Context, name string) (string, error) {
	found, err := g.run(ctx, "rev-parse", "--git-path", name)
	if err == nil && !filepath.IsAbs(found) { // Git before 2.31 cannot be told to make it absolute
		found = filepath.Join(g.top, found)
	}
	return found, err
}

// firstBytes keeps the first maxGitOutput bytes that are written to it.
type firstBytes []byte

func (b *firstBytes) Write(p []byte) (int, error) {
	*b = append(*b, p[:min(len(p), maxGitOutput-len(*b))]...)
	return len(p), nil
}

// workingObjects reads the objects that git wrote for a working tree, and the
// other ones from its repository.
type workingObjects struct {
	added *store
	store *store // nil without a repository
}

// read calls from for the new objects, and then for the repository if an object
// is missing.
func (w *workingObjects) read(from func(*store) error) error {
	err := from(w.added)
	if errors.Is(err, errMissing) && w.store != nil {
		err = from(w.store)
	}
	return err
}

func (w *workingObjects) Tree(h Hash) (entries []TreeEntry, err error) {
	err = w.read(func(s *store) error { entries, err = s.Tree(h); return err })
	return entries, err
}

func (w *workingObjects) Size(h Hash) (size int64, err error) {
	err = w.read(func(s *store) error { size, err = s.Size(h); return err })
	return size, err
}

func (w *workingObjects) Read(t plumbing.ObjectType, h Hash, most int64) (data []byte, size int64, err error) {
	err = w.read(func(s *store) error { data, size, err = s.Read(t, h, most); return err })
	return data, size, err
}

func (w *workingObjects) Failure(subject string, err error) error {
	if w.store != nil {
		return w.store.Failure(subject, err)
	}
	return w.added.Failure(subject, err)
}
