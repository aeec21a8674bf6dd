// File build.go reads the files of one revision as a read-only file system.
//
// Call [ReadTree] first. It reads all directories below a root tree, and refuses a
// tree that is too large or has an unsafe name; files are read on demand. A
// [Tree] is immutable and may be read from any goroutine.

package gitrepo

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// Limits of one tree.
const (
	MaxFile  = 16 << 20 // bytes of a file that is read; a content of 8 MiB that sops encrypted fits
	MaxDepth = 64

	maxPath    = 4096 // bytes
	maxEntries = 500_000

	tooLarge   = "TooLarge"
	unsafePath = "UnsafePath"
)

// Objects holds the trees and blobs of a revision.
type Objects interface {
	Tree(Hash) ([]TreeEntry, error)
	// Read returns an object and its size in bytes; it fails if the size is over most.
	Read(t plumbing.ObjectType, h Hash, most int64) (data []byte, size int64, err error)
	Size(Hash) (int64, error)
	// Failure converts an error of the other methods to the error of a Tree's method.
	Failure(subject string, err error) error
}

// A TreeRefusal is the error of a tree that is not allowed. Reason is TooLarge or UnsafePath.
type TreeRefusal struct{ Reason, Msg string }

func (e *TreeRefusal) Error() string { return e.Msg }

// ErrNoDirectory: there is no directory at the path.
var ErrNoDirectory = errors.New("there is no such directory")

// ReadTree reads the directories at a path of a root tree, "" for the root itself.
// Directories that are also in the tree before, which may be nil, are not read
// again. The subject names the revision in errors. The error is a *Refusal,
// ErrNoDirectory, or an error of from.
func ReadTree(from Objects, root Hash, path, subject string, before *Tree) (*Tree, error) {
	at := TreeEntry{Hash: root, Mode: entryMode("40000")}
	if path != "" {
		var err error
		if at, err = FindInTree(from.Tree, root, path); err != nil {
			return nil, err
		}
	}
	if !at.Mode.IsDir() {
		return nil, ErrNoDirectory
	}
	b := builder{from: from, built: map[Hash]*dir{}}
	if before != nil {
		b.before = before.dirs
	}
	d, err := b.build(at.Hash, "", 0)
	if err == nil && d.count > maxEntries {
		err = &TreeRefusal{tooLarge, fmt.Sprintf("it has more than %d files and directories", maxEntries)}
	}
	if err != nil {
		return nil, err
	}
	return &Tree{root: d, dirs: b.built, from: from, subject: subject}, nil
}

// FindInTree returns the entry at a path below a tree, and one of an irregular mode if
// there is none.
func FindInTree(trees func(Hash) ([]TreeEntry, error), tree Hash, path string) (TreeEntry, error) {
	at := TreeEntry{Hash: tree, Mode: entryMode("40000")}
	for name := range strings.SplitSeq(path, "/") {
		if !at.Mode.IsDir() {
			return TreeEntry{Mode: fs.ModeIrregular}, nil
		}
		entries, err := trees(at.Hash)
		if err != nil {
			return TreeEntry{}, err
		}
		i := slices.IndexFunc(entries, func(e TreeEntry) bool { return e.Name == name })
		if i < 0 {
			return TreeEntry{Mode: fs.ModeIrregular}, nil
		}
		at = entries[i]
	}
	return at, nil
}

// dir is a checked directory with everything below it. Revisions share the dirs
// of equal directories.
type dir struct {
	hash    Hash
	entries []TreeEntry // by name
	count   int         // of everything below
	height  int         // of directories below
	longest int         // bytes of the longest path below
}

// find returns the Entry of a name.
func (d *dir) find(name string) (TreeEntry, bool) {
	i, ok := slices.BinarySearchFunc(d.entries,
		name, func(e TreeEntry, name string) int { return strings.Compare(e.Name, name) })
	if !ok {
		return TreeEntry{}, false
	}
	return d.entries[i], true
}

// builder reads the directories of one revision. A directory that occurs many
// times is read and stored once, so that the cost is bounded by the number of
// objects.
type builder struct {
	from   Objects
	before map[Hash]*dir // of the Snapshot before, read-only
	built  map[Hash]*dir
	read   int // entries of the directories that were read
}

// build returns the checked directory with a hash, which is at path and depth.
func (b *builder) build(h Hash, path string, depth int) (*dir, error) {
	if d, ok := b.built[h]; ok {
		return d, b.fits(d, path, depth)
	}
	if d, ok := b.before[h]; ok {
		b.reuse(d)
		return d, b.fits(d, path, depth)
	}
	if depth > MaxDepth {
		return nil, b.refuse(tooLarge, path, "is nested more than %d deep", MaxDepth)
	}
	entries, err := b.from.Tree(h)
	if err != nil {
		return nil, err
	}
	if b.read += len(entries); b.read > maxEntries {
		return nil, b.refuse(tooLarge, path, "is one too many: there are more than %d files and directories",
			maxEntries)
	}
	d := &dir{hash: h, entries: entries, count: len(entries)}
	for i := range entries {
		if err := b.add(d, &entries[i], path, depth); err != nil {
			return nil, err
		}
	}
	sorting.Func(entries, func(a, b TreeEntry) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(entries); i++ {
		if name := entries[i].Name; name == entries[i-1].Name {
			return nil, b.refuse(unsafePath, path, "has the name %q twice", name)
		}
	}
	b.built[h] = d
	return d, b.fits(d, path, depth)
}

// add checks an entry of d, and all below it.
func (b *builder) add(d *dir, e *TreeEntry, path string, depth int) (err error) {
	if why := unsafeName(e.Name); why != "" {
		return b.refuse(unsafePath, path, "has the name %q, which %s", e.Name, why)
	}
	d.longest = max(d.longest, len(e.Name))
	if !e.Mode.IsDir() {
		return nil
	}
	if e.sub, err = b.build(e.Hash, join(path, e.Name), depth+1); err != nil {
		return err
	}
	d.count = min(d.count+e.sub.count, math.MaxInt32) // a sum of few of these does not overflow
	d.height = max(d.height, e.sub.height+1)
	d.longest = max(d.longest, len(e.Name)+1+e.sub.longest)
	return nil
}

// fits returns an error if a directory exceeds a limit at its path and depth.
func (b *builder) fits(d *dir, path string, depth int) error {
	if depth+d.height > MaxDepth {
		return b.refuse(tooLarge, path, "is nested, with those in it, more than %d deep", MaxDepth)
	}
	if len(path)+1+d.longest > maxPath {
		return b.refuse(tooLarge, path, "has a path in it that is longer than %d bytes", maxPath)
	}
	return nil
}

// reuse adds a directory of the previous revision, and all directories below it.
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

// refuse returns the Refusal of a tree because of the directory at a path.
func (b *builder) refuse(reason, path, format string, args ...any) error {
	dir := "the root directory"
	if path != "" {
		dir = fmt.Sprintf("directory %.200q", path)
	}
	return &TreeRefusal{Reason: reason, Msg: dir + " " + fmt.Sprintf(format, args...)}
}

// unsafeName returns why a revision with this name is refused, "" if it is not.
// Git itself never writes such names. Names that a working tree can have are
// allowed here: the reader of the tree checks them, in working trees too.
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

// ValidPath reports whether a path is valid for fs.FS, has no unsafe name, and no
// backslash or control character, which no configured path and no settings file
// needs.
func ValidPath(path string) bool {
	if path == "." {
		return true
	}
	if !fs.ValidPath(path) {
		return false
	}
	for name := range strings.SplitSeq(path, "/") {
		if unsafeName(name) != "" || strings.ContainsFunc(name, func(r rune) bool {
			return r == '\\' || r < ' ' || r == 0x7f
		}) {
			return false
		}
	}
	return true
}

// unreadable returns why an entry is listed but cannot be read, "" if it can.
func unreadable(e TreeEntry) string {
	switch {
	case e.Mode&fs.ModeSymlink != 0:
		return "is a symbolic link and is not followed"
	case e.Mode&fs.ModeIrregular != 0:
		return "is a submodule, or of an unknown mode, and is not looked into"
	case !utf8.ValidString(e.Name):
		return "is not UTF-8 and cannot be referenced"
	default:
		return ""
	}
}
