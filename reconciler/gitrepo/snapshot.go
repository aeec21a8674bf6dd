package gitrepo

import (
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing"
)

// Limits of one revision.
const (
	maxDepth   = 64
	maxPath    = 4096 // bytes
	maxEntries = 500_000
)

// Snapshot is one commit with its tree. It is immutable and may be used from
// any goroutine, as long as the Repo is not closed.
type Snapshot struct {
	Commit Commit
	// Tree holds the files below Options.Path.
	Tree *Tree
}

// Snapshot opens a commit of the store. It reads every directory and refuses
// the revision, with Reason UnsafePath or TooLarge, if one holds what it must
// not; files are read when they are asked for. Directories that did not change
// since the Snapshot before are not read again.
func (r *Repo) Snapshot(h Hash) (*Snapshot, error) {
	c, err := r.CommitInfo(h)
	if err != nil {
		return nil, err
	}
	st, err := r.open()
	if err != nil {
		return nil, err
	}
	tree, err := r.check(st, c.tree, revision(h))
	if err != nil {
		return nil, err
	}
	return &Snapshot{Commit: c, Tree: tree}, nil
}

// objects holds the trees and blobs of a revision: a [store], or the files of a
// working tree.
type objects interface {
	tree(Hash) ([]entry, error)
	// read and size fail with errMissing; read fails with errTooLarge for content
	// over most bytes.
	read(t plumbing.ObjectType, h Hash, most int64) (data []byte, size int64, err error)
	size(Hash) (int64, error)
	failure(subject string, err error) error
}

// check reads the directories at Options.Path of a root tree. The subject names
// the revision in errors.
func (r *Repo) check(from objects, root Hash, subject string) (*Tree, error) {
	at := entry{hash: root, mode: entryMode("40000")}
	if r.root != "" {
		var err error
		if at, err = find(from.tree, root, r.root); err != nil {
			return nil, from.failure(subject, err)
		}
	}
	if !at.mode.IsDir() {
		return nil, errorf(PathNotFound, subject, "it has no directory %q", r.root)
	}
	r.mu.Lock()
	b := builder{from: from, subject: subject, before: r.dirs, built: map[Hash]*dir{}}
	r.mu.Unlock()
	d, err := b.build(at.hash, "", 0)
	if err != nil {
		return nil, from.failure(subject, err)
	}
	if d.count > maxEntries {
		return nil, errorf(TooLarge, subject, "it has more than %d files and directories", maxEntries)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dirs = b.built
	return &Tree{root: d, from: from, subject: subject}, nil
}

// dir is a directory that was checked with everything below it. Equal
// directories of any number of revisions are one dir.
type dir struct {
	hash    Hash
	entries []entry // by name
	count   int     // of everything below
	height  int     // of directories below
	longest int     // bytes of the longest path below
}

// find returns the entry of a name.
func (d *dir) find(name string) (entry, bool) {
	i, ok := slices.BinarySearchFunc(d.entries, name, func(e entry, name string) int { return strings.Compare(e.name, name) })
	if !ok {
		return entry{}, false
	}
	return d.entries[i], true
}

// builder reads the directories of one revision. A directory that occurs many
// times is read and kept once, so that a tree which refers to one subtree over
// and over costs no more than its objects.
type builder struct {
	from    objects
	subject string        // of errors
	before  map[Hash]*dir // of the Snapshot before, read-only
	built   map[Hash]*dir
	read    int // entries of the directories that were read
}

func (b *builder) build(h Hash, path string, depth int) (*dir, error) {
	if d, ok := b.built[h]; ok {
		return d, b.fits(d, path, depth)
	}
	if d, ok := b.before[h]; ok {
		b.reuse(d)
		return d, b.fits(d, path, depth)
	}
	if depth > maxDepth {
		return nil, b.refuse(TooLarge, path, "is nested more than %d deep", maxDepth)
	}
	entries, err := b.from.tree(h)
	if err != nil {
		return nil, err
	}
	if b.read += len(entries); b.read > maxEntries {
		return nil, b.refuse(TooLarge, path, "is one too many: there are more than %d files and directories", maxEntries)
	}
	d := &dir{hash: h, entries: entries, count: len(entries)}
	for i := range entries {
		if err := b.add(d, &entries[i], path, depth); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(entries); i++ {
		if name := entries[i].name; name == entries[i-1].name {
			return nil, b.refuse(UnsafePath, path, "has the name %q twice", name)
		}
	}
	b.built[h] = d
	return d, b.fits(d, path, depth)
}

// add checks an entry of d, and all below it.
func (b *builder) add(d *dir, e *entry, path string, depth int) (err error) {
	if why := unsafeName(e.name); why != "" {
		return b.refuse(UnsafePath, path, "has the name %q, which %s", e.name, why)
	}
	d.longest = max(d.longest, len(e.name))
	if !e.mode.IsDir() {
		return nil
	}
	if e.sub, err = b.build(e.hash, join(path, e.name), depth+1); err != nil {
		return err
	}
	d.count = min(d.count+e.sub.count, math.MaxInt32) // a sum of few of these does not overflow
	d.height = max(d.height, e.sub.height+1)
	d.longest = max(d.longest, len(e.name)+1+e.sub.longest)
	return nil
}

// fits applies the limits that depend on where a directory is.
func (b *builder) fits(d *dir, path string, depth int) error {
	if depth+d.height > maxDepth {
		return b.refuse(TooLarge, path, "is nested, with those in it, more than %d deep", maxDepth)
	}
	if len(path)+1+d.longest > maxPath {
		return b.refuse(TooLarge, path, "has a path in it that is longer than %d bytes", maxPath)
	}
	return nil
}

// reuse takes a directory over from the revision before, with those below.
func (b *builder) reuse(d *dir) {
	if b.built[d.hash] != nil {
		return
	}
	b.built[d.hash] = d
	for _, e := range d.entries {
		if e.sub != nil {
			b.reuse(e.sub)
		}
	}
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// refuse is the error of a directory for which the revision is refused.
func (b *builder) refuse(reason Reason, path, format string, args ...any) *Error {
	dir := "the root directory"
	if path != "" {
		dir = fmt.Sprintf("directory %q", cut(path, maxName))
	}
	return errorf(reason, b.subject, "%s %s", dir, fmt.Sprintf(format, args...))
}

// unsafeName says why a name refuses the revision, or "". Git itself never
// writes such names. Names that a working tree can have are for the reader of
// the tree to judge, so that it judges both alike.
func unsafeName(name string) string {
	switch {
	case name == "":
		return "is empty"
	case name == "." || name == "..":
		return "is not a name"
	case strings.EqualFold(name, ".git"):
		return "belongs to Git"
	case strings.Contains(name, "/"):
		return "has a slash"
	default:
		return ""
	}
}

// validPath is fs.ValidPath, without anything that unsafeName refuses, and
// without backslashes and control characters, which no configured path and no
// settings file has.
func validPath(path string) bool {
	if path == "." {
		return true
	}
	if !fs.ValidPath(path) {
		return false
	}
	for name := range strings.SplitSeq(path, "/") {
		if unsafeName(name) != "" || strings.ContainsFunc(name, func(r rune) bool { return r == '\\' || r < ' ' || r == 0x7f }) {
			return false
		}
	}
	return true
}

// unreadable says why an entry is listed but never read, or "".
func unreadable(e entry) string {
	switch {
	case e.mode&fs.ModeSymlink != 0:
		return "is a symbolic link and is not followed"
	case e.mode&fs.ModeIrregular != 0:
		return "is a submodule, or of an unknown mode, and is not looked into"
	case !utf8.ValidString(e.name):
		return "is not UTF-8 and cannot be referenced"
	default:
		return ""
	}
}
