// File gitdir.go finds the Git directory of a local repository and watches one
// reference in it.
//
// Call [FindGitDir] for the directory and [WatchGitDir] for a signal at each change. A
// signal may be missing: poll as well.

package gitrepo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// FindGitDir returns the directory with the objects and branches of a repository: a
// bare repository itself, the .git of a working tree, or the directory that the
// file .git of a linked worktree or submodule names.
func FindGitDir(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", errors.New("it is not a directory")
	}
	dir := filepath.Join(path, ".git")
	if data, err := os.ReadFile(dir); err == nil {
		to, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "gitdir: ")
		if !ok {
			return "", errors.New("its .git file names no directory")
		}
		dir = resolve(path, to)
	} else if _, err := os.Stat(dir); err != nil {
		dir = path
	}
	if common, err := os.ReadFile(filepath.Join(dir, "commondir")); err == nil {
		dir = resolve(dir, strings.TrimSpace(string(common)))
	}
	for _, part := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Stat(filepath.Join(dir, part)); err != nil {
			if errors.Is(err, fs.ErrPermission) {
				return "", err
			}
			return "", fmt.Errorf("it is not a Git repository: it has no %s", part)
		}
	}
	return dir, nil
}

// resolve returns a path from a file in dir, absolute or relative to dir.
func resolve(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
