// Package gitdir finds the Git directory of a local repository, [Find], and
// watches a reference in it, [Watch].
package gitdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Find returns the directory with objects and branches of a repository: that
// of a bare one is the repository itself, that of a worktree is its .git, and
// that of a linked worktree or submodule is named by a file .git.
func Find(path string) (string, error) {
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
		dir = beside(path, to)
	} else if _, err := os.Stat(dir); err != nil {
		dir = path
	}
	if common, err := os.ReadFile(filepath.Join(dir, "commondir")); err == nil {
		dir = beside(dir, strings.TrimSpace(string(common)))
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

// beside resolves a path that a file in dir holds.
func beside(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
