package push

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// A builder makes the objects of a commit.
type builder struct {
	from   *gitrepo.Tree
	made   *memory.Storage
	hashes []plumbing.Hash // of made
}

func (b *builder) store(encode func(plumbing.EncodedObject) error) (plumbing.Hash, error) {
	o := b.made.NewEncodedObject()
	if err := encode(o); err != nil {
		return plumbing.ZeroHash, err
	}
	h, err := b.made.SetEncodedObject(o)
	if !slices.Contains(b.hashes, h) {
		b.hashes = append(b.hashes, h)
	}
	return h, err
}

// changes are the changes below one directory: files of it, and changes below its directories.
type changes struct {
	files map[string][]byte
	dirs  map[string]*changes
}

func split(files map[string][]byte) *changes {
	top := &changes{map[string][]byte{}, map[string]*changes{}}
	for name, content := range files {
		at := top
		dir, base := path.Split(name)
		for part := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
			if part == "" {
				continue
			}
			if at.dirs[part] == nil {
				at.dirs[part] = &changes{map[string][]byte{}, map[string]*changes{}}
			}
			at = at.dirs[part]
		}
		at.files[base] = content
	}
	return top
}

// tree stores the tree of a directory with its changes, and returns the zero hash for an empty one. was is the present
// hash of the directory, zero if there is none.
func (b *builder) tree(dir string, was gitrepo.Hash, c *changes) (plumbing.Hash, error) {
	entries := map[string]object.TreeEntry{}
	if !was.IsZero() {
		var err error
		if entries, err = b.entries(dir, was); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.dirs)) {
		old, there := entries[name]
		if there && old.Mode != filemode.Dir {
			return plumbing.ZeroHash, fmt.Errorf("%s is not a directory", path.Join(dir, name))
		}
		h, err := b.tree(path.Join(dir, name), gitrepo.Hash(old.Hash), c.dirs[name])
		if err != nil {
			return plumbing.ZeroHash, err
		}
		delete(entries, name)
		if !h.IsZero() {
			entries[name] = object.TreeEntry{Name: name, Mode: filemode.Dir, Hash: h}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		content := c.files[name]
		old, there := entries[name]
		if there && old.Mode != filemode.Regular && old.Mode != filemode.Executable {
			return plumbing.ZeroHash, fmt.Errorf("%s is not a regular file", path.Join(dir, name))
		}
		if delete(entries, name); content == nil {
			continue
		}
		h, err := b.store(func(o plumbing.EncodedObject) error { return blob(o, content) })
		if err != nil {
			return plumbing.ZeroHash, err
		}
		entries[name] = object.TreeEntry{Name: name, Mode: filemode.Regular, Hash: h}
	}
	if len(entries) == 0 {
		return plumbing.ZeroHash, nil
	}
	return b.store(treeOf(entries).Encode)
}

func blob(o plumbing.EncodedObject, content []byte) error {
	o.SetType(plumbing.BlobObject)
	w, err := o.Writer()
	if err == nil {
		_, err = w.Write(content)
	}
	if err != nil {
		return err
	}
	return w.Close()
}

func treeOf(entries map[string]object.TreeEntry) *object.Tree {
	t := &object.Tree{}
	for _, e := range entries {
		t.Entries = append(t.Entries, e)
	}
	sortName := func(e object.TreeEntry) string { // Git sorts a directory as if its name ended in a slash
		if e.Mode == filemode.Dir {
			return e.Name + "/"
		}
		return e.Name
	}
	sorting.Func(t.Entries, func(a, b object.TreeEntry) int { return strings.Compare(sortName(a), sortName(b)) })
	return t
}

// entries lists a directory of the base. It checks that the same tree can be written again.
func (b *builder) entries(dir string, was gitrepo.Hash) (map[string]object.TreeEntry, error) {
	list, err := b.from.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	entries := map[string]object.TreeEntry{}
	for _, d := range list {
		info, err := d.Info()
		if err != nil {
			return nil, err
		}
		h, ok := info.Sys().(gitrepo.Hash)
		if !ok {
			return nil, fmt.Errorf("%s has no hash", path.Join(dir, d.Name()))
		}
		entries[d.Name()] = object.TreeEntry{Name: d.Name(), Mode: modeOf(info.Mode()), Hash: plumbing.Hash(h)}
	}
	o := &plumbing.MemoryObject{}
	if err := treeOf(entries).Encode(o); err != nil {
		return nil, err
	}
	if o.Hash() != plumbing.Hash(was) {
		return nil, fmt.Errorf(
			"the directory %s has entries that cannot be written again as they are, such as one of an outdated mode",
			dir,
		)
	}
	return entries, nil
}

func modeOf(m fs.FileMode) filemode.FileMode {
	switch {
	case m.IsDir():
		return filemode.Dir
	case m&fs.ModeSymlink != 0:
		return filemode.Symlink
	case m&fs.ModeIrregular != 0:
		return filemode.Submodule
	case m&0o111 != 0:
		return filemode.Executable
	default:
		return filemode.Regular
	}
}
