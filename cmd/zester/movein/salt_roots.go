package movein

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// errLeadsOut says that a path leads out of the directory that Salt serves, or through links in a circle.
var errLeadsOut = errors.New("it leads out of the directory by a symbolic link")

// A rootDir is a directory without the files that links outside of it lead to.
type rootDir struct {
	dir  string
	root *os.Root
}

// OpenRoot opens a directory that Salt serves as salt://, or the cache of its master. A link in it may lead to any
// other file of the directory. What a link outside leads to is not read: it could be /etc/shadow.
func OpenRoot(dir string) (fs.FS, error) {
	root, err := os.OpenRoot(dir)
	return rootDir{dir, root}, err
}

// Open opens a file or directory, and nothing that could wait for a writer.
func (r rootDir) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	info, err := r.root.Stat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		if name, err = r.inside(name); err == nil {
			info, err = r.root.Stat(name)
		}
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return r.root.Open(name)
}

// inside returns the path in the directory that links from a name lead to. [os.Root] follows no absolute ones.
func (r rootDir) inside(name string) (string, error) {
	dir, err := filepath.EvalSymlinks(r.dir)
	if err != nil {
		return "", err
	}
	to, err := filepath.EvalSymlinks(filepath.Join(dir, name))
	if err == nil {
		to, err = filepath.Rel(dir, to)
	}
	if err != nil || !filepath.IsLocal(to) {
		return "", &fs.PathError{Op: "open", Path: name, Err: errLeadsOut}
	}
	return to, nil
}
