package gitrepo

import (
	"bytes"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

// Tree holds the files of one revision as a read-only file system: [fs.FS],
// [fs.ReadDirFS], [fs.ReadFileFS] and [fs.StatFS].
//
// Sys of a [fs.FileInfo] is the Hash of the content: files with the same Sys are
// equal, also in two revisions. The size is looked up by Open, Stat and
// [fs.DirEntry.Info]; ModTime is zero. Symbolic links have the mode
// [fs.ModeSymlink], submodules [fs.ModeIrregular]; opening one is an error. A
// name that is not UTF-8 is listed but is no valid path, so it cannot be opened
// either. A file over 16 MiB has a Stat but cannot be read.
type Tree struct {
	root    *dir
	dirs    map[Hash]*dir // all directories of the tree
	from    Objects
	subject string // of errors
}

var (
	_ fs.ReadDirFS  = (*Tree)(nil)
	_ fs.ReadFileFS = (*Tree)(nil)
	_ fs.StatFS     = (*Tree)(nil)
)

// Hash returns the hash of the whole tree: equal hashes mean equal files.
func (t *Tree) Hash() Hash { return t.root.hash }

// Len counts the files and directories of the tree.
func (t *Tree) Len() int { return t.root.count }

// Open opens a file or directory. The content is read at the first Read.
func (t *Tree) Open(name string) (fs.File, error) {
	n, err := t.lookup("open", name)
	if err == nil && !n.IsDir() {
		err = n.fail("open", unreadable(n.TreeEntry))
	}
	if err == nil {
		err = n.measure()
	}
	if err != nil {
		return nil, err
	}
	return &openFile{node: n}, nil
}

// ReadFile returns the content of a file. A file over 16 MiB is refused with
// Reason TooLarge, and content that does not match its hash with Reason
// StoreDamaged or RemoteDamaged. Both errors are wrapped in a [fs.PathError].
func (t *Tree) ReadFile(name string) ([]byte, error) {
	n, err := t.lookup("read", name)
	if err != nil {
		return nil, err
	}
	return n.content()
}

// ReadDir lists a directory by name, without looking up sizes.
func (t *Tree) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := t.lookup("readdir", name)
	if err != nil {
		return nil, err
	}
	return n.list()
}

// Stat describes a file, directory, link or submodule; links are not followed.
func (t *Tree) Stat(name string) (fs.FileInfo, error) {
	n, err := t.lookup("stat", name)
	if err != nil {
		return nil, err
	}
	return n, n.measure()
}

// lookup returns the node at a path. It follows no link.
func (t *Tree) lookup(op, name string) (*node, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	at := TreeEntry{Name: ".", Mode: entryMode("40000"), Hash: t.root.hash, sub: t.root}
	if name == "." {
		return &node{TreeEntry: at, tree: t, path: name}, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		next, ok := TreeEntry{}, false
		if at.sub != nil {
			next, ok = at.sub.find(part)
		}
		if !ok {
			return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
		}
		at = next
	}
	return &node{TreeEntry: at, tree: t, path: name}, nil
}

// node is an entry of a Tree: an [fs.DirEntry], and after measure also its
// [fs.FileInfo].
type node struct {
	TreeEntry
	tree  *Tree
	path  string
	bytes int64
}

func (n *node) Name() string       { return n.TreeEntry.Name }
func (n *node) Size() int64        { return n.bytes }
func (n *node) Mode() fs.FileMode  { return n.TreeEntry.Mode }
func (n *node) Type() fs.FileMode  { return n.TreeEntry.Mode.Type() }
func (n *node) ModTime() time.Time { return time.Time{} }
func (n *node) IsDir() bool        { return n.TreeEntry.Mode.IsDir() }
func (n *node) Sys() any           { return n.Hash }

// Info returns the node with its size.
func (n *node) Info() (fs.FileInfo, error) {
	measured := *n
	return &measured, measured.measure()
}

// measure looks up the size of a file or link.
func (n *node) measure() (err error) {
	if !n.TreeEntry.Mode.IsRegular() && n.TreeEntry.Mode&fs.ModeSymlink == 0 {
		return nil
	}
	if n.bytes, err = n.tree.from.Size(n.Hash); err != nil {
		return &fs.PathError{Op: "stat", Path: n.path, Err: n.tree.from.Failure(n.tree.subject, err)}
	}
	return nil
}

func (n *node) content() ([]byte, error) {
	why := unreadable(n.TreeEntry)
	if n.IsDir() {
		why = "is a directory"
	}
	if err := n.fail("read", why); err != nil {
		return nil, err
	}
	data, _, err := n.tree.from.Read(plumbing.BlobObject, n.Hash, MaxFile)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: n.path, Err: n.tree.from.Failure(n.tree.subject, err)}
	}
	return data, nil
}

func (n *node) list() ([]fs.DirEntry, error) {
	if n.sub == nil {
		return nil, n.fail("readdir", "is not a directory")
	}
	out := make([]fs.DirEntry, len(n.sub.entries))
	for i, e := range n.sub.entries {
		out[i] = &node{TreeEntry: e, tree: n.tree, path: join(strings.TrimPrefix(n.path, "."), e.Name)}
	}
	return out, nil
}

// fail returns an error about the node, nil if why is empty.
func (n *node) fail(op, why string) error {
	if why == "" {
		return nil
	}
	return &fs.PathError{Op: op, Path: n.path, Err: pathError("it " + why)}
}

type pathError string

func (e pathError) Error() string { return string(e) }

// openFile is an open file or directory.
type openFile struct {
	*node
	data *bytes.Reader // nil until the first read
	next int           // entries that ReadDir returned
}

// Stat describes the file.
func (f *openFile) Stat() (fs.FileInfo, error) { return f.node, nil }

// Close has nothing to close.
func (f *openFile) Close() error { return nil }

func (f *openFile) Read(p []byte) (int, error) {
	if f.data == nil {
		data, err := f.content()
		if err != nil {
			return 0, err
		}
		f.data = bytes.NewReader(data)
	}
	return f.data.Read(p)
}

// ReadDir implements [fs.ReadDirFile].
func (f *openFile) ReadDir(n int) ([]fs.DirEntry, error) {
	all, err := f.list()
	if err != nil {
		return nil, err
	}
	rest := all[f.next:]
	if n > 0 && len(rest) == 0 {
		return nil, io.EOF
	}
	if n > 0 {
		rest = rest[:min(n, len(rest))]
	}
	f.next += len(rest)
	return rest, nil
}
