package gitrepo

import (
	"io/fs"

	"github.com/go-git/go-git/v5/plumbing"
)

// Working is a directory with working files, in which files tell by Sys what they hold, as those of a [Tree] do: a file
// that was not changed since a revision is known to be equal. Nothing is left out: what Git does not know or ignores is
// there too. A directory and a file over 1 MiB tell nothing.
func Working(files fs.FS) fs.FS { return working{files} }

type working struct{ fs.FS }

var (
	_ fs.ReadDirFS  = working{}
	_ fs.ReadFileFS = working{}
	_ fs.ReadLinkFS = working{}
)

func (w working) ReadFile(name string) ([]byte, error) { return fs.ReadFile(w.FS, name) }

func (w working) ReadLink(name string) (string, error) { return fs.ReadLink(w.FS, name) }

func (w working) Lstat(name string) (fs.FileInfo, error) {
	info, err := fs.Lstat(w.FS, name)
	if err != nil {
		return nil, err
	}
	return w.hashed(name, info)
}

func (w working) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(w.FS, name)
	for i, e := range entries {
		path := e.Name()
		if name != "." {
			path = name + "/" + path
		}
		entries[i] = workingEntry{e, w, path}
	}
	return entries, err
}

func (w working) hashed(name string, info fs.FileInfo) (fs.FileInfo, error) {
	if !info.Mode().IsRegular() || info.Size() > maxBlob {
		return workingInfo{info, nil}, nil
	}
	data, err := fs.ReadFile(w.FS, name)
	if err != nil {
		return nil, err
	}
	return workingInfo{info, Hash(plumbing.ComputeHash(plumbing.BlobObject, data))}, nil
}

type workingEntry struct {
	fs.DirEntry
	files working
	path  string
}

func (e workingEntry) Info() (fs.FileInfo, error) {
	info, err := e.DirEntry.Info()
	if err != nil {
		return nil, err
	}
	return e.files.hashed(e.path, info)
}

type workingInfo struct {
	fs.FileInfo
	sys any
}

func (i workingInfo) Sys() any { return i.sys }
