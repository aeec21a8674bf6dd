package edit

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// With returns the revision with other contents of files; nil removes a file.
func (r *Repo) With(files map[string][]byte) fs.FS { return Over(r.fs, files) }

// Over returns a file system with other contents of files; nil removes a file.
func Over(base fs.FS, files map[string][]byte) fs.FS { return overlay{base, files} }

// overlay is a file system with other contents of some files.
type overlay struct {
	base  fs.FS
	files map[string][]byte // nil: removed
}

// Open implements [fs.FS].
func (o overlay) Open(name string) (fs.File, error) {
	content, changed := o.files[name]
	switch {
	case !changed:
		return o.base.Open(name)
	case content == nil:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &openFile{bytes.NewReader(content), node{name: path.Base(name), size: int64(len(content))}}, nil
}

// ReadFile implements [fs.ReadFileFS].
func (o overlay) ReadFile(name string) ([]byte, error) {
	content, changed := o.files[name]
	switch {
	case !changed:
		return fs.ReadFile(o.base, name)
	case content == nil:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return bytes.Clone(content), nil
}

// Stat implements [fs.StatFS]. It follows no link.
func (o overlay) Stat(name string) (fs.FileInfo, error) {
	content, changed := o.files[name]
	switch {
	case changed && content == nil:
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	case changed:
		return node{name: path.Base(name), size: int64(len(content))}, nil
	}
	info, err := fs.Lstat(o.base, name)
	if errors.Is(err, fs.ErrNotExist) {
		for file, content := range o.files {
			if content != nil && strings.HasPrefix(file, name+"/") {
				return node{name: path.Base(name), dir: true}, nil
			}
		}
	}
	return info, err
}

// ReadDir implements [fs.ReadDirFS].
func (o overlay) ReadDir(dir string) ([]fs.DirEntry, error) {
	list, err := fs.ReadDir(o.base, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for name, content := range o.files {
		rest := name
		if dir != "." {
			var below bool
			if rest, below = strings.CutPrefix(name, dir+"/"); !below {
				continue
			}
		}
		first, _, deeper := strings.Cut(rest, "/")
		i := slices.IndexFunc(list, func(d fs.DirEntry) bool { return d.Name() == first })
		switch {
		case deeper && (i >= 0 || content == nil):
		case content == nil:
			if i >= 0 {
				list = slices.Delete(list, i, i+1)
			}
		default:
			if i >= 0 {
				list = slices.Delete(list, i, i+1)
			}
			list, err = append(list, node{first, int64(len(content)), deeper}), nil
		}
	}
	sorting.Func(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, err
}

// node describes a file or directory of an overlay.
type node struct {
	name string
	size int64
	dir  bool
}

func (n node) Name() string               { return n.name }
func (n node) Size() int64                { return n.size }
func (n node) IsDir() bool                { return n.dir }
func (n node) ModTime() time.Time         { return time.Time{} }
func (n node) Sys() any                   { return nil }
func (n node) Info() (fs.FileInfo, error) { return n, nil }
func (n node) Type() fs.FileMode          { return n.Mode().Type() }

func (n node) Mode() fs.FileMode {
	if n.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}

type openFile struct {
	*bytes.Reader
	info node
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *openFile) Close() error               { return nil }
