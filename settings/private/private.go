// Package private creates and checks directories for keys, and reads files with secrets. Call [Make] first; [Check]
// only checks, [CheckRead] checks a path that is not written, and [Read] reads an opened file.
//
// A user who can rename a directory above a key can replace the key, so the whole path is checked. Each directory and
// symbolic link in it has to belong to root or to the user of the process, and only the owner may write to it. Others
// may write to a directory with the sticky bit, such as /tmp, in which they cannot rename files of other users.
package private

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is the highest number of symbolic links in a path.
const maxLinks = 40

// Make creates a directory and its missing parents with mode 0700, and checks the path with [Check]. An existing
// directory keeps its mode, unless it is empty and belongs to the user of the process: then it gets mode 0700.
func Make(dir string) error {
	if err := Check(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make a directory for keys: %w", err)
	}
	if err := Check(dir); err != nil { // another user may have created a part of the path after the first check
		return err
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm()&0o077 == 0 || owner(info) != os.Geteuid() {
		return err
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) > 0 {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// Check returns an error if a user other than root and the user of the process can change the path. Missing parts of
// the path are no error.
func Check(path string) error {
	return checkPath(path, false)
}

// CheckRead is like [Check], for a path that is only read. For root, the end of the path may belong to one other user,
// as the data directory of a service does: from the first directory of this user on, everything belongs to this user or
// to root, and nothing is a symbolic link. Nobody else may write to the directory in which that directory is.
func CheckRead(path string) error {
	return checkPath(path, os.Geteuid() == 0)
}

func checkPath(path string, foreign bool) error {
	path, err := filepath.Abs(path)
	if err == nil {
		err = (&walk{links: maxLinks, foreign: foreign, other: -1}).check(path)
	}
	if err != nil {
		return fmt.Errorf("cannot keep keys in %s: %w", path, err)
	}
	return nil
}

// A walk is the state of a check of one path.
type walk struct {
	links   int         // number of symbolic links that may still be followed
	foreign bool        // one other user may own the end of the path
	other   int         // ID of that user; -1 until the walk is in a directory of another user
	above   fs.FileInfo // the directory in which the walk is
}

func (w *walk) check(path string) error {
	at := string(filepath.Separator)
	for name := range strings.SplitSeq(path, at) {
		at = filepath.Join(at, name)

		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}

		if err := w.checkOne(at, info); err != nil {
			return err
		}
		w.above = info

		if info.Mode().Type() == fs.ModeSymlink {
			if err := w.follow(at); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *walk) follow(link string) error {
	if w.links--; w.links < 0 {
		return errors.New("too many symbolic links")
	}

	target, err := os.Readlink(link)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(target) {
		dir, err := filepath.EvalSymlinks(filepath.Dir(link))
		if err != nil {
			return err
		}
		target = filepath.Join(dir, target)
	}
	return w.check(target)
}

func (w *walk) checkOne(path string, info fs.FileInfo) error {
	mode := info.Mode()
	uid := owner(info)
	own := uid == 0 || uid == os.Geteuid()

	if !own && w.other == -1 && w.foreign && mode.IsDir() && w.above != nil && w.above.Mode().Perm()&0o022 == 0 {
		w.other = uid
	}
	if !own && uid != w.other {
		return notOwned(path, uid)
	}
	if w.other != -1 && mode.Type() == fs.ModeSymlink {
		return fmt.Errorf("%s is a symbolic link in a directory of user %d: name the directory that it leads to", path,
			w.other)
	}
	if mode.IsDir() && mode.Perm()&0o022 != 0 && mode&fs.ModeSticky == 0 {
		return fmt.Errorf("others may write to %s (mode %04o), and so replace what is below it: run chmod go-w %s",
			path, mode.Perm(), path)
	}
	return nil
}

// notOwned says how to go on. Root is not told to take a directory: it may be the one of a service, which would lose
// it.
func notOwned(path string, uid int) error {
	if os.Geteuid() == 0 {
		return fmt.Errorf(
			"%s belongs to user %d, who could replace what is below it: "+
				"run this as that user (runuser -u USER -- COMMAND), or use a directory of root",
			path, uid,
		)
	}
	return fmt.Errorf("%s belongs to user %d, who could replace what is below it: use a directory of your own", path,
		uid)
}

// owner returns the user ID of a file's owner, -1 where the system has none.
func owner(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}

// Read reads a regular file that only its owner can access. The error names the mode of other files, and the size if it
// is above limit, in bytes. The opened file is checked, not its name, which may since name another file.
func Read(f *os.File, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode(); !mode.IsRegular() || mode.Perm()&0o077 != 0 {
		return nil, fmt.Errorf("its mode is %v: it contains secrets and must be a file of mode 0600", mode)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	return data, err
}
