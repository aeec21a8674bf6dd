package gitrepo

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/remote"
)

// resolveLocal opens the repository for each call. That takes microseconds, and
// leaves no cached state that a garbage collection could make wrong.
func resolveLocal(a *remote.Address, branch plumbing.ReferenceName) (Hash, error) {
	st, err := openLocal(a)
	if err != nil {
		return Hash{}, err
	}
	defer st.close()
	h, ok, err := st.ref(branch)
	if err != nil {
		return Hash{}, st.Failure(a.Shown, err)
	}
	if ok {
		return h, nil
	}
	if _, err := os.Stat(filepath.Join(st.dir, filepath.FromSlash(branch.String()))); err == nil {
		return Hash{}, errorf(RemoteDamaged, a.Shown, "the reference of branch %q is empty", branch.Short())
	}
	heads, err := st.refs("refs/heads/")
	if err != nil { // a lock that was left behind is enough
		return Hash{}, errorf(RefNotFound, a.Shown, "it has no branch %q", branch.Short())
	}
	return Hash{}, remoteError(a, remote.NoBranch(branch, slices.Sorted(maps.Keys(heads))))
}

// openAgain reads a local repository as it is now, and checks that it has a
// commit.
func (r *Repo) openAgain(want Hash) error {
	st, err := openLocal(r.address)
	if err != nil {
		return err
	}
	r.mu.Lock()
	if r.store == nil {
		r.store = st
	} else {
		_ = st.close()
		_ = r.store.reopen(st.dir, func() error { return nil })
	}
	st = r.store
	r.mu.Unlock()
	switch err = st.complete(want); {
	case errors.Is(err, errMissing):
		return errorf(RefMoved, r.address.Shown, "it no longer has commit %s", want)
	case err != nil:
		return st.Failure(r.address.Shown, err)
	}
	return nil
}

// openLocal opens the Git directory, and refuses one that go-git would misread.
func openLocal(a *remote.Address) (*store, error) {
	dir, err := FindGitDir(a.Path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, errorf(Forbidden, a.Shown, "%v", err)
	case errors.Is(err, fs.ErrNotExist):
		return nil, errorf(NotFound, a.Shown, "there is no such directory")
	case err != nil:
		return nil, errorf(NotGit, a.Shown, "%v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "shallow")); err == nil {
		return nil, remoteError(a, remote.Shallow())
	}
	if info, err := os.Stat(filepath.Join(dir, "objects", "info", "alternates")); err == nil && info.Size() > 0 {
		// go-git reads all indexes of the other repository again for each object.
		return nil, errorf(UnsupportedObjectFormat, a.Shown,
			"it borrows objects of another repository (objects/info/alternates), "+
				"which is not supported: run git repack -a -d in it and remove that file")
	}
	st := newStore(dir, true)
	if err := checkFormat(st); err != nil {
		_ = st.close()
		return nil, st.Failure(a.Shown, err)
	}
	return st, nil
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
				return errorf(UnsupportedObjectFormat, st.dir, remote.SHA256Refused)
			case key == "refstorage" && value != "files":
				return errorf(UnsupportedObjectFormat, st.dir,
					"its references are in the format %s, which is not supported", value)
			}
		}
		return nil
	})
}
