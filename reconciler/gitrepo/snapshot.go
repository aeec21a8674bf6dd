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
	tree, err := r.read(r.store, c.tree, revision(h))
	if err != nil {
		return nil, err
	}
	return &Snapshot{Commit: c, Tree: tree}, nil
}

// objects holds the trees and blobs of a revision: a [store], or the files of a working tree.
type objects interface {
	tree(Hash) ([]entry, error)
	// read and size fail with errMissing; read fails with errTooLarge for content over limit bytes.
	read(t plumbing.ObjectType, h Hash, limit int64) ([]byte, error)
	size(Hash) (int64, error)
	failure(subject string, err error) error
}

// read checks the tree at Options.Path of a root tree. The subject names the revision in errors.
func (r *Repo) read(from objects, root Hash, subject string) (*Tree, error) {
	at, err := r.rootTree(from, root, subject)
	if err != nil {
		return nil, err
	}
	b := builder{repo: r, from: from, subject: subject, built: map[Hash]*dir{}}
	d, err := b.build(at, "", 0)
	if err != nil {
		return nil, from.failure(subject, err)
	}
	if d.count > maxEntries {
		return nil, errorf(TooLarge, subject, "it has more than %d files and directories", maxEntries)
	}
	r.cache.dirs = b.built
	return &Tree{root: d, from: from, subject: subject}, nil
}

// rootTree finds the tree at Options.Path.
func (r *Repo) rootTree(from objects, at Hash, subject string) (Hash, error) {
	if r.root == "" {
		return at, nil
	}
	for name := range strings.SplitSeq(r.root, "/") {
		entries, err := from.tree(at)
		if err != nil {
			return Hash{}, from.failure(subject, err)
		}
		i := slices.IndexFunc(entries, func(e entry) bool { return e.name == name && e.mode.IsDir() })
		if i < 0 {
			return Hash{}, errorf(PathNotFound, subject, "it has no directory %q", r.root)
		}
		at = entries[i].hash
	}
	return at, nil
}

// dir is a directory that was checked with everything below it. Equal
// directories of any number of revisions are one dir.
type dir struct {
	hash    Hash
	entries []dirEntry // by name
	count   int        // of everything below
	height  int        // of directories below
	longest int        // bytes of the longest path below
}

type dirEntry struct {
	name string
	mode fs.FileMode
	hash Hash
	sub  *dir // of a directory
}

// find returns the entry of a name.
func (d *dir) find(name string) (dirEntry, bool) {
	i, ok := slices.BinarySearchFunc(d.entries, name, func(e dirEntry, name string) int {
		return strings.Compare(e.name, name)
	})
	if !ok {
		return dirEntry{}, false
	}
	return d.entries[i], true
}

// builder reads the directories of one revision. A directory that occurs many
// times is read and kept once, which takes the sting out of trees that refer
// to the same subtree over and over.
type builder struct {
	repo    *Repo
	from    objects
	subject string // of errors
	built   map[Hash]*dir
	read    int // entries of the directories that were read
}

func (b *builder) build(h Hash, path string, depth int) (*dir, error) {
	if d, ok := b.built[h]; ok {
		return b.fits(d, path, depth)
	}
	if d, ok := b.repo.cache.dirs[h]; ok {
		b.reuse(d)
		return b.fits(d, path, depth)
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
	d := &dir{hash: h, entries: make([]dirEntry, 0, len(entries)), count: len(entries)}
	for _, e := range entries {
		if err := b.add(d, e, path, depth); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(d.entries, func(a, b dirEntry) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(d.entries); i++ {
		if name := d.entries[i].name; name == d.entries[i-1].name {
			return nil, b.refuse(UnsafePath, path, "has the name %q twice", name)
		}
	}
	b.built[h] = d
	return b.fits(d, path, depth)
}

// add checks one entry, and all below it, and puts it into d.
func (b *builder) add(d *dir, e entry, path string, depth int) error {
	if why := unsafeName(e.name); why != "" {
		return b.refuse(UnsafePath, path, "has the name %q, which %s", e.name, why)
	}
	out := dirEntry{name: e.name, mode: e.mode, hash: e.hash}
	d.longest = max(d.longest, len(e.name))
	if e.mode.IsDir() {
		sub, err := b.build(e.hash, join(path, e.name), depth+1)
		if err != nil {
			return err
		}
		out.sub = sub
		d.count = add(d.count, sub.count)
		d.height = max(d.height, sub.height+1)
		d.longest = max(d.longest, len(e.name)+1+sub.longest)
	}
	d.entries = append(d.entries, out)
	return nil
}

// fits applies the limits that depend on where a directory is.
func (b *builder) fits(d *dir, path string, depth int) (*dir, error) {
	if depth+d.height > maxDepth {
		return nil, b.refuse(TooLarge, path, "is nested, with those in it, more than %d deep", maxDepth)
	}
	if len(path)+1+d.longest > maxPath {
		return nil, b.refuse(TooLarge, path, "has a path in it that is longer than %d bytes", maxPath)
	}
	return d, nil
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

// add sums counts of entries without overflow.
func add(a, b int) int {
	if a > math.MaxInt/2 || b > math.MaxInt/2 {
		return math.MaxInt / 2
	}
	return a + b
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
// writes such names; who crafted them wants to leave the directory of a reader
// that is less careful. Names that a working tree can have are for the reader
// of the tree to judge, so that it judges both alike.
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

// oddity says why a name is listed but never read, or "".
func oddity(e dirEntry) string {
	switch {
	case isSymlink(e.mode):
		return "is a symbolic link and is not followed"
	case e.mode&fs.ModeIrregular != 0:
		return "is a submodule, or of an unknown mode, and is not looked into"
	case !utf8.ValidString(e.name):
		return "is not UTF-8 and cannot be referenced"
	default:
		return ""
	}
}

func isSymlink(m fs.FileMode) bool { return m&fs.ModeSymlink != 0 }

// isBlob reports whether an entry names content of this repository.
func isBlob(m fs.FileMode) bool { return m.IsRegular() || isSymlink(m) }
