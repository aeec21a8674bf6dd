package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// localSource reads a repository on this machine. It is opened anew for each
// call: reading one reference costs microseconds, and nothing remembered can
// be made wrong by a garbage collection or by a repository that was removed
// and made again.
type localSource struct{ address address }

func (s *localSource) close() {}

func (s *localSource) resolve(_ context.Context, branch plumbing.ReferenceName) (Hash, error) {
	st, err := s.open()
	if err != nil {
		return Hash{}, err
	}
	defer st.close()
	h, ok, err := st.ref(branch)
	if err != nil {
		return Hash{}, st.failure(s.address.display, err)
	}
	if ok {
		return h, nil
	}
	if _, err := os.Stat(filepath.Join(st.dir, filepath.FromSlash(branch.String()))); err == nil {
		return Hash{}, errorf(RemoteDamaged, s.address.display, "the reference of branch %q is empty", branch.Short())
	}
	heads, err := st.refs("refs/heads/")
	if err != nil { // a lock that was left behind is enough
		return Hash{}, errorf(RefNotFound, s.address.display, "it has no branch %q", branch.Short())
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(heads)) {
		names = append(names, "refs/heads/"+name)
	}
	return Hash{}, noBranch(s.address, branch, names)
}

// fetch copies what is missing. If an object is not found the repository may
// just have been repacked: it is opened once more.
func (s *localSource) fetch(ctx context.Context, f fetch) error {
	err := s.copy(ctx, f)
	if hasReason(err, RemoteDamaged) && ctx.Err() == nil {
		err = s.copy(ctx, f)
	}
	return err
}

func (s *localSource) copy(ctx context.Context, f fetch) error {
	st, err := s.open()
	if err != nil {
		return err
	}
	defer st.close()
	if present, err := st.has(f.want); err != nil {
		return st.failure(s.address.display, err)
	} else if !present {
		return errorf(RefMoved, s.address.display, "it no longer has commit %s", f.want)
	}
	return copyHistory(ctx, st, f.into, f.want, s.address.display)
}

// open finds the Git directory, and refuses what cannot be read right.
func (s *localSource) open() (*store, error) {
	dir, err := gitDir(s.address.path)
	if err != nil {
		return nil, s.refuse(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "shallow")); err == nil {
		return nil, shallowRemote(s.address)
	}
	st := newStore(dir, RemoteDamaged)
	if err := checkFormat(st); err != nil {
		_ = st.close()
		if e, ok := errors.AsType[*Error](err); ok {
			return nil, e
		}
		return nil, st.failure(s.address.display, err)
	}
	return st, nil
}

func (s *localSource) refuse(err error) *Error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return errorf(Forbidden, s.address.display, "%v", err)
	case errors.Is(err, fs.ErrNotExist):
		return errorf(NotFound, s.address.display, "there is no such directory")
	default:
		return errorf(NotGit, s.address.display, "%v", err)
	}
}

// gitDir finds the directory with objects and branches of a repository: that
// of a bare one is the repository itself, that of a worktree is its .git, and
// that of a linked worktree or submodule is named by a file .git.
func gitDir(path string) (string, error) {
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

// checkFormat refuses a Git directory whose objects or references are in a
// format that go-git would misread.
func checkFormat(st *store) error {
	return st.guarded("config", func(objects *filesystem.Storage) error {
		cfg, err := objects.Config()
		if err != nil {
			return err
		}
		for _, o := range cfg.Raw.Section("extensions").Options {
			value := strings.ToLower(o.Value)
			switch key := strings.ToLower(o.Key); {
			case key == "objectformat" && value != "sha1":
				return errorf(UnsupportedObjectFormat, st.dir, sha256Refused)
			case key == "refstorage" && value != "files":
				return errorf(UnsupportedObjectFormat, st.dir, "its references are in the format %s, which is not supported", value)
			}
		}
		return nil
	})
}
