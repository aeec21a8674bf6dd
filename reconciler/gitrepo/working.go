package gitrepo

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/staged"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/tree"
)

// workingTree is the subject of errors.
const workingTree = "the working tree"

// Working is the commit that git add -A and git commit would make of the
// working tree, see package staged. Its Commit is zero. It is read and
// refused as any other Snapshot, and can be read until the Checkout is closed.
func (c *Checkout) Working() (*Snapshot, error) {
	if c.Bare() {
		return nil, errors.New("cannot read the working tree: a bare repository has none")
	}
	gitDir := ""
	if c.names != nil {
		gitDir = c.repo.store.dir
	}
	files, err := staged.Read(staged.Options{Top: c.top, Path: c.repo.root, Repo: c.names, GitDir: gitDir})
	if err != nil {
		return nil, fmt.Errorf("cannot read the working tree: %w", err)
	}
	c.working = append(c.working, files)
	from := &workingObjects{store: c.repo.store, files: files, trees: map[Hash][]tree.Entry{}}
	t, err := c.repo.check(from, from.add("", files.Entries), workingTree)
	if hasReason(err, PathNotFound) {
		if info, statErr := os.Lstat(filepath.Join(c.top, filepath.FromSlash(c.repo.root))); statErr == nil && info.IsDir() {
			err = errorf(PathNotFound, workingTree, "Git would commit nothing of directory %q: it is empty, or ignored by .gitignore", c.repo.root)
		}
	}
	if err != nil {
		return nil, err
	}
	return &Snapshot{Tree: t}, nil
}

// workingObjects are the trees of a working tree and the blobs of its files. Of
// what only the index has, the store has the content.
type workingObjects struct {
	store *store // nil without a repository
	files *staged.Files
	trees map[Hash][]tree.Entry
}

// add makes the tree of a directory from the files below it, which are sorted
// by path, and returns its hash.
func (w *workingObjects) add(dir string, files []staged.Entry) Hash {
	var entries []tree.Entry
	for len(files) > 0 {
		name, _, below := strings.Cut(files[0].Path[len(dir):], "/")
		if !below {
			entries = append(entries, tree.Entry{Name: name, Mode: files[0].Mode, Hash: Hash(files[0].Hash)})
			files = files[1:]
			continue
		}
		prefix := dir + name + "/"
		n := slices.IndexFunc(files, func(e staged.Entry) bool { return !strings.HasPrefix(e.Path, prefix) })
		if n < 0 {
			n = len(files)
		}
		entries = append(entries, tree.Entry{Name: name, Mode: fs.ModeDir | 0o755, Hash: w.add(prefix, files[:n])})
		files = files[n:]
	}
	h := hashTree(entries)
	w.trees[h] = entries
	return h
}

// hashTree returns the hash of a tree, and sorts its entries as Git does: the
// name of a directory ends in a slash there.
func hashTree(entries []tree.Entry) Hash {
	key := func(e tree.Entry) string {
		if e.Mode.IsDir() {
			return e.Name + "/"
		}
		return e.Name
	}
	slices.SortFunc(entries, func(a, b tree.Entry) int { return strings.Compare(key(a), key(b)) })
	var data bytes.Buffer
	for _, e := range entries {
		mode := "160000"
		switch {
		case e.Mode.IsDir():
			mode = "40000"
		case e.Mode&fs.ModeSymlink != 0:
			mode = "120000"
		case e.Mode == 0o755:
			mode = "100755"
		case e.Mode.IsRegular():
			mode = "100644"
		}
		fmt.Fprintf(&data, "%s %s\x00%s", mode, e.Name, e.Hash[:])
	}
	return Hash(plumbing.ComputeHash(plumbing.TreeObject, data.Bytes()))
}

func (w *workingObjects) Tree(h Hash) ([]tree.Entry, error) {
	entries, ok := w.trees[h]
	if !ok {
		return nil, errMissing
	}
	return entries, nil
}

func (w *workingObjects) Size(h Hash) (int64, error) {
	if size, ok := w.files.Size(h); ok {
		return size, nil
	}
	if w.store == nil {
		return 0, errMissing
	}
	return w.store.Size(h)
}

func (w *workingObjects) Read(t plumbing.ObjectType, h Hash, most int64) ([]byte, int64, error) {
	if size, ok := w.files.Size(h); ok && size > most {
		return nil, size, fmt.Errorf("%w, %d bytes of at most %d", errTooLarge, size, most)
	}
	if data, ok, err := w.files.Content(h); ok || err != nil {
		return data, int64(len(data)), err
	}
	if w.store == nil {
		return nil, 0, errMissing
	}
	return w.store.Read(t, h, most)
}

func (w *workingObjects) Failure(subject string, err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	if errors.Is(err, errTooLarge) {
		return errorf(TooLarge, subject, "%v", err)
	}
	return fmt.Errorf("cannot read %s: %w", subject, err)
}
