// Package staged reads the files of a working directory as git add -A would put them into the next commit. [Read] lists
// them with the hashes of their blobs, [Files.Content] returns the content of one blob. Call
// [Files.Close] after.
//
// Files that Git ignores and does not track are left out, and so are empty directories. A directory with a repository of
// its own is a submodule. Ends of lines are those of the commit, and a file of Git LFS is its pointer. No program is run
// and nothing is written.
//
// Known gaps: configuration that another file of configuration includes is not read, macros in .gitattributes other than
// binary are not expanded, and names are taken as the file system has them (core.ignoreCase and core.precomposeUnicode do
// nothing). Where text=auto finds CRLF in the index, Git keeps CRLF and this package does not.
package staged

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	git "github.com/go-git/go-git/v5"
)

const (
	maxContent = 2 << 20   // bytes of a file that is converted: one with CRLF may have half of them in the commit
	maxHeld    = 64 << 20  // bytes of content held in memory
	maxFiles   = 1_000_000 // files that are listed
	maxDepth   = 128       // directories within each other; a commit may have fewer
)

// Options name a working directory.
type Options struct {
	Top  string // directory of the working tree
	Path string // directory below Top that is read, with slashes; empty for all of Top
	// Repo is the repository of the working tree, nil if there is none; the directory is then read as for its first
	// commit. GitDir is the directory with its objects.
	Repo   *git.Repository
	GitDir string
}

// An Entry is a file of the next commit.
type Entry struct {
	Path string      // from Top, with slashes
	Mode fs.FileMode // 0o644, 0o755, [fs.ModeSymlink], or [fs.ModeIrregular] for a submodule
	Hash [20]byte    // of the blob; of a submodule that Git does not track it is zero
}

// tracked is a file of the index.
type tracked struct {
	Entry
	skip bool // the working tree need not have it (skip-worktree)
}

// Files are the files of the next commit. Their methods but Close may be called from any goroutine.
type Files struct {
	Entries []Entry // by path

	o      Options
	root   *os.Root
	config configuration
	index  map[string]tracked // by path
	dirs   map[string]bool    // directories that the index has files in
	over   []attributeRule    // of info/attributes, which hold over all others
	blobs  map[[20]byte]*blob
	held   int // bytes of content in blobs
}

// Read lists the files of the next commit below o.Path. There are none if Path is no directory or Git ignores it. An error
// is one of reading the file system.
func Read(o Options) (*Files, error) {
	root, err := os.OpenRoot(o.Top)
	if err != nil {
		return nil, err
	}
	f := &Files{o: o, root: root, index: map[string]tracked{}, dirs: map[string]bool{}, blobs: map[[20]byte]*blob{}}
	if err := f.read(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	f.addSkipped()
	slices.SortFunc(f.Entries, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	return f, nil
}

// Close closes the directory. Content cannot be read after.
func (f *Files) Close() error { return f.root.Close() }

// rules are the lines of .gitignore and .gitattributes that hold in a directory, by rising priority.
type rules struct {
	ignore     []ignoreRule
	attributes []attributeRule
	ignored    bool // Git ignores the directory: only the files that it tracks count
}

// read goes down to Options.Path and reads all below it.
func (f *Files) read() error {
	in, err := f.readRules()
	if err == nil {
		err = f.readIndex()
	}
	if err != nil {
		return err
	}
	dir := ""
	if f.o.Path == "" {
		return f.dir(in, dir, 0)
	}
	for name := range strings.SplitSeq(f.o.Path, "/") {
		if in, err = f.enter(in, dir); err != nil {
			return err
		}
		dir = join(dir, name)
		info, err := f.root.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
			return nil
		}
		if err != nil {
			return err
		}
		in.ignored = in.ignored || ignores(in.ignore, dir, true)
	}
	return f.dir(in, dir, 0)
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// enter adds the rules of a directory.
func (f *Files) enter(in rules, dir string) (rules, error) {
	ignore, err := f.text(join(dir, ".gitignore"))
	if err != nil {
		return in, err
	}
	attributes, err := f.text(join(dir, ".gitattributes"))
	in.ignore = append(slices.Clip(in.ignore), parseIgnore(ignore, dir)...)
	in.attributes = append(slices.Clip(in.attributes), parseAttributes(attributes, dir)...)
	return in, err
}

// text reads a regular file of rules, empty if there is none.
func (f *Files) text(name string) (string, error) {
	info, err := f.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return "", nil
	}
	if err == nil && info.Size() > maxContent {
		err = fmt.Errorf("cannot read %s: %d bytes, the limit is %d", name, info.Size(), maxContent)
	}
	if err != nil {
		return "", err
	}
	data, err := f.root.ReadFile(name)
	return string(data), err
}

// dir reads a directory and all below it.
func (f *Files) dir(in rules, dir string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("cannot read %.200s: it is nested more than %d deep", dir, maxDepth)
	}
	in, err := f.enter(in, dir)
	if err != nil {
		return err
	}
	entries, err := f.list(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := join(dir, e.Name())
		switch tracked, isTracked := f.index[name]; {
		case e.Name() == ".git":
		case e.IsDir() && isTracked && tracked.Mode == fs.ModeIrregular:
			err = f.add(tracked.Entry)
		case e.IsDir():
			err = f.sub(in, name, depth)
		case isTracked || !in.ignored && !ignores(in.ignore, name, false):
			err = f.file(in, name, e.Type())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// list reads the entries of a directory, whose names may be no UTF-8.
func (f *Files) list(dir string) (entries []fs.DirEntry, err error) {
	if dir == "" {
		dir = "."
	}
	d, err := f.root.Open(dir)
	if err != nil {
		return nil, err
	}
	entries, err = d.ReadDir(-1)
	return entries, errors.Join(err, d.Close())
}

// sub reads a directory unless Git ignores it or it is a repository of its own.
func (f *Files) sub(in rules, dir string, depth int) error {
	in.ignored = in.ignored || ignores(in.ignore, dir, true)
	if f.dirs[dir] {
		return f.dir(in, dir, depth+1)
	}
	if in.ignored {
		return nil
	}
	if _, err := f.root.Lstat(dir + "/.git"); err == nil {
		return f.add(Entry{Path: dir, Mode: fs.ModeIrregular})
	}
	return f.dir(in, dir, depth+1)
}

func (f *Files) add(e Entry) error {
	if len(f.Entries) >= maxFiles {
		return fmt.Errorf("cannot read the working tree: it has more than %d files", maxFiles)
	}
	f.Entries = append(f.Entries, e)
	return nil
}

// addSkipped adds the files that a sparse checkout leaves out.
func (f *Files) addSkipped() {
	present := map[string]bool{}
	for _, e := range f.Entries {
		present[e.Path] = true
	}
	for name, e := range f.index {
		below := f.o.Path == "" || strings.HasPrefix(name, f.o.Path+"/")
		if e.skip && below && !present[name] {
			f.Entries = append(f.Entries, e.Entry)
		}
	}
}

// file adds a regular file or a symbolic link. Git commits nothing else.
func (f *Files) file(in rules, name string, kind fs.FileMode) error {
	if kind != 0 && kind != fs.ModeSymlink {
		return nil
	}
	tracked := f.index[name].Entry
	b := &blob{name: name, link: kind == fs.ModeSymlink, attributes: append(slices.Clip(in.attributes), f.over...)}
	if kind == 0 && tracked.Mode&fs.ModeSymlink != 0 && f.config.value("core.symlinks") == "false" {
		kind, b.raw = fs.ModeSymlink, true
	}
	mode, err := f.load(b, tracked)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was removed meanwhile
	}
	if err != nil {
		return err
	}
	if kind == fs.ModeSymlink {
		mode = fs.ModeSymlink | 0o777
	}
	if f.held += len(b.content); f.held > maxHeld {
		b.content = nil
	}
	f.blobs[b.hash] = b
	return f.add(Entry{Path: name, Mode: mode, Hash: b.hash})
}
