// Package private creates and checks directories for keys, and reads files with secrets. Call [Make] first; [Check] only
// checks, and [Read] reads an opened file.
//
// A user who can rename a directory above a key can replace the key, so the whole path is checked. Each directory and
// symbolic link in it has to belong to root or to the user of the process, and only the owner may write to it. Others may
// write to a directory with the sticky bit, such as /tmp, in which they cannot rename files of other users.
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

// Make creates a directory and its missing parents with mode 0700, and checks the path with [Check]. An existing directory
// keeps its mode, unless it is empty and belongs to the user of the process: then it gets mode 0700.
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

// Check returns an error if a user other than root and the user of the process can change the path. Missing parts of the
// path are no error.
func Check(path string) error {
	path, err := filepath.Abs(path)
	if err == nil {
		err = check(path, maxLinks)
	}
	if err != nil {
		return fmt.Errorf("cannot keep keys in %s: %w", path, err)
	}
	return nil
}

func check(path string, links int) error {
	if links == 0 {
		return errors.New("too many symbolic links")
	}
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
		if err := checkOne(at, info); err != nil {
			return err
		}
		if info.Mode().Type() == fs.ModeSymlink {
			target, err := os.Readlink(at)
			if err != nil {
				return err
			}
			if !filepath.IsAbs(target) {
				dir, err := filepath.EvalSymlinks(filepath.Dir(at))
				if err != nil {
					return err
				}
				target = filepath.Join(dir, target)
			}
			if err := check(target, links-1); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkOne(path string, info fs.FileInfo) error {
	if uid := owner(info); uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, who could replace what is below it: use a directory of your own, or run chown %d %s", path, uid, os.Geteuid(), path)
	}
	mode := info.Mode()
	if mode.IsDir() && mode.Perm()&0o022 != 0 && mode&fs.ModeSticky == 0 {
		return fmt.Errorf("others may write to %s (mode %04o), and so replace what is below it: run chmod go-w %s", path, mode.Perm(), path)
	}
	return nil
}

// owner returns the user ID of a file's owner, -1 where the system has none.
func owner(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}

// Read reads a regular file that only its owner can access. The error names the mode of other files, and the size if it is
// above limit, in bytes. The opened file is checked, not its name, which may since name another file.
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
