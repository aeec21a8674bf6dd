// Package private makes and checks directories that hold keys. Begin with [Make].
//
// Whoever can rename a directory above a key can put another one in its place, so the whole path counts: each directory of
// it, and each symbolic link, belongs to root or to the user who runs, and nobody else may write to it. Where others may,
// as in /tmp, the directory has the sticky bit, so that they cannot rename what is not theirs.
package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks bounds the symbolic links of a path.
const maxLinks = 40

// Make makes a directory of mode 0700, and those above it that are missing, and checks the path as [Check] does. One that
// is there stays as it is; but an empty one of the user who runs gets mode 0700.
func Make(dir string) error {
	if err := Check(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make a directory for keys: %w", err)
	}
	if err := Check(dir); err != nil { // what others have made meanwhile
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

// Check refuses a path that others than root and the user who runs can change. What is not there yet is left out.
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
