package gitrepo

import (
	"bytes"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

// Tree is the files of one revision as a read-only file system: [fs.FS],
// [fs.ReadDirFS], [fs.ReadFileFS] and [fs.StatFS].
//
// Sys of a [fs.FileInfo] is the Hash of the content: two files of equal Sys are
// equal, in whatever revision. Its Size is looked up when a file is opened or
// stat-ed and when [fs.DirEntry.Info] is called, and its ModTime is zero.
// Symbolic links have the mode [fs.ModeSymlink], submodules [fs.ModeIrregular];
// opening one is an error. A name that is not UTF-8 is listed but is no valid
// path, so it cannot be opened either. Of a file over 1 MiB only Stat succeeds.
type Tree struct {
	root    *dir
	from    objects
	subject string // of errors
}

var (
	_ fs.ReadDirFS  = (*Tree)(nil)
	_ fs.ReadFileFS = (*Tree)(nil)
	_ fs.StatFS     = (*Tree)(nil)
)

// Hash is the hash of the whole tree: equal hashes mean equal files.
func (t *Tree) Hash() Hash { return t.root.hash }

// Len counts the files and directories of the tree.
func (t *Tree) Len() int { return t.root.count }

// lookup goes down a path, by the names of the tree alone.
func (t *Tree) lookup(op, name string) (dirEntry, error) {
	if !fs.ValidPath(name) {
		return dirEntry{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	at := dirEntry{name: ".", mode: entryMode("40000"), hash: t.root.hash, sub: t.root}
	if name == "." {
		return at, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		next, ok := dirEntry{}, false
		if at.sub != nil {
			next, ok = at.sub.find(part)
		}
		if !ok {
			return dirEntry{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
		}
		at = next
	}
	return at, nil
}

// Open opens a file or directory. The content is read at the first Read.
func (t *Tree) Open(name string) (fs.File, error) {
	e, err := t.lookup("open", name)
	if err != nil {
		return nil, err
	}
	if e.sub != nil {
		return &openDir{tree: t, entry: e, path: name}, nil
	}
	if err := t.readable("open", name, e); err != nil {
		return nil, err
	}
	info, err := t.info("open", name, e)
	if err != nil {
		return nil, err
	}
	return &openFile{tree: t, info: info, path: name}, nil
}

// readable refuses what is listed but never read.
func (t *Tree) readable(op, name string, e dirEntry) error {
	if e.mode.IsRegular() {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: pathError("it " + oddity(e))}
}

// ReadFile returns the content of a file. A file over 1 MiB is refused with
// Reason TooLarge, naming its size; content that does not have its hash with
// Reason StoreDamaged. Both errors are wrapped in a [fs.PathError].
func (t *Tree) ReadFile(name string) ([]byte, error) {
	e, err := t.lookup("read", name)
	if err != nil {
		return nil, err
	}
	if e.sub != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errIsDir}
	}
	if err := t.readable("read", name, e); err != nil {
		return nil, err
	}
	return t.content(name, e.hash)
}

func (t *Tree) content(name string, h Hash) ([]byte, error) {
	data, err := t.from.read(plumbing.BlobObject, h, maxBlob)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: t.from.failure(t.subject, err)}
	}
	return data, nil
}

// ReadDir lists a directory by name, without looking up sizes.
func (t *Tree) ReadDir(name string) ([]fs.DirEntry, error) {
	e, err := t.lookup("readdir", name)
	if err != nil {
		return nil, err
	}
	if e.sub == nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errNotDir}
	}
	out := make([]fs.DirEntry, len(e.sub.entries))
	for i, e := range e.sub.entries {
		out[i] = listed{tree: t, entry: e, path: name}
	}
	return out, nil
}

// Stat describes a file, directory, link or submodule; links are not followed.
func (t *Tree) Stat(name string) (fs.FileInfo, error) {
	e, err := t.lookup("stat", name)
	if err != nil {
		return nil, err
	}
	return t.info("stat", name, e)
}

func (t *Tree) info(op, name string, e dirEntry) (fs.FileInfo, error) {
	info := fileInfo{entry: e}
	if isBlob(e.mode) {
		size, err := t.from.size(e.hash)
		if err != nil {
			return nil, &fs.PathError{Op: op, Path: name, Err: t.from.failure(t.subject, err)}
		}
		info.size = size
	}
	return info, nil
}

type pathError string

func (e pathError) Error() string { return string(e) }

const (
	errIsDir  = pathError("is a directory")
	errNotDir = pathError("not a directory")
)

type fileInfo struct {
	entry dirEntry
	size  int64
}

func (i fileInfo) Name() string       { return i.entry.name }
func (i fileInfo) Size() int64        { return i.size }
func (i fileInfo) Mode() fs.FileMode  { return i.entry.mode }
func (i fileInfo) ModTime() time.Time { return time.Time{} }
func (i fileInfo) IsDir() bool        { return i.entry.mode.IsDir() }
func (i fileInfo) Sys() any           { return i.entry.hash }

// listed is an entry of a directory listing.
type listed struct {
	tree  *Tree
	entry dirEntry
	path  string // of the directory
}

func (l listed) Name() string      { return l.entry.name }
func (l listed) IsDir() bool       { return l.entry.mode.IsDir() }
func (l listed) Type() fs.FileMode { return l.entry.mode.Type() }

func (l listed) Info() (fs.FileInfo, error) {
	return l.tree.info("stat", l.path+"/"+l.entry.name, l.entry)
}

func (l listed) String() string { return fs.FormatDirEntry(l) }

type openFile struct {
	tree    *Tree
	info    fs.FileInfo
	path    string
	content *bytes.Reader // nil until the first read
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *openFile) Close() error               { return nil }

func (f *openFile) Read(p []byte) (int, error) {
	if f.content == nil {
		data, err := f.tree.content(f.path, f.info.Sys().(Hash))
		if err != nil {
			return 0, err
		}
		f.content = bytes.NewReader(data)
	}
	return f.content.Read(p)
}

type openDir struct {
	tree  *Tree
	entry dirEntry
	path  string
	next  int // entries that ReadDir returned
}

func (d *openDir) Stat() (fs.FileInfo, error) { return fileInfo{entry: d.entry}, nil }
func (d *openDir) Close() error               { return nil }

func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.path, Err: errIsDir}
}

func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	all, err := d.tree.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	rest := all[d.next:]
	if n > 0 && len(rest) == 0 {
		return nil, io.EOF
	}
	if n > 0 {
		rest = rest[:min(n, len(rest))]
	}
	d.next += len(rest)
	return rest, nil
}

// Changed lists, sorted, the paths of files that differ between two trees: new
// ones, removed ones, and those of another content or mode. Links and
// submodules count as files. A nil tree is empty. Directories of equal hash are
// not gone into, so the cost follows the change.
func Changed(old, new *Tree) []string {
	var a, b *dir
	if old != nil {
		a = old.root
	}
	if new != nil {
		b = new.root
	}
	paths := changed(nil, a, b, "")
	slices.Sort(paths)
	return paths
}

func changed(paths []string, a, b *dir, at string) []string {
	var left, right []dirEntry
	if a != nil {
		left = a.entries
	}
	if b != nil {
		right = b.entries
	}
	if a != nil && b != nil && a.hash == b.hash {
		return paths
	}
	for len(left) > 0 || len(right) > 0 {
		var x, y dirEntry
		order := compareFirst(left, right)
		if order <= 0 {
			x, left = left[0], left[1:]
		}
		if order >= 0 {
			y, right = right[0], right[1:]
		}
		paths = changedEntry(paths, x, y, at)
	}
	return paths
}

// changedEntry compares two entries of one name, either of which may be zero.
func changedEntry(paths []string, x, y dirEntry, at string) []string {
	if x.hash == y.hash && x.mode == y.mode {
		return paths
	}
	path := join(at, x.name)
	if x.name == "" {
		path = join(at, y.name)
	}
	file := func(e dirEntry) bool { return e.name != "" && e.sub == nil }
	if file(x) || file(y) {
		paths = append(paths, path)
	}
	if x.sub != nil || y.sub != nil {
		paths = changed(paths, x.sub, y.sub, path)
	}
	return paths
}

// compareFirst orders the first entries of two lists; an empty list is last.
func compareFirst(a, b []dirEntry) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	default:
		return strings.Compare(a[0].name, b[0].name)
	}
}
