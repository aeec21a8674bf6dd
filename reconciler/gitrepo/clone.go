package gitrepo

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	git "github.com/go-git/go-git/v5"
)

// open returns the store, and opens it on the first call, without a request to
// the remote. Its error is an *Error with the reason RevisionNotFound if there is
// no store, StoreDamaged or RemoteDamaged if the store cannot be read.
func (r *Repo) open() (*store, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store != nil {
		return r.store, nil
	}
	var err error
	if r.remote == nil {
		r.store, err = openLocal(r.address)
	} else {
		r.store, err = r.openStoreLocked()
	}
	return r.store, err
}

func (r *Repo) openStoreLocked() (*store, error) {
	r.recoverLocked()
	if _, err := os.Stat(r.dir); errors.Is(err, fs.ErrNotExist) {
		return nil, errorf(RevisionNotFound, r.dir, "nothing was fetched yet")
	} else if err != nil {
		return nil, storeError(r.dir, err)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "shallow")); err == nil {
		return nil, errorf(StoreDamaged, r.dir, "the store has a file named shallow: a part of the history is missing")
	}
	st := newStore(r.dir, false)
	st.dropUnfinished()
	if err := check(st); err != nil {
		_ = st.close()
		return nil, errorf(StoreDamaged, r.dir, "%v", err)
	}
	return st, nil
}

// recoverLocked cleans up once after a crash: it removes an unfinished clone, and
// moves back a store that was moved aside for one.
func (r *Repo) recoverLocked() {
	if r.recovered {
		return // a clone may be under way
	}
	r.recovered = true
	_ = os.RemoveAll(r.aside("new")) // clone reports what cannot be removed
	if _, err := os.Stat(r.dir); errors.Is(err, fs.ErrNotExist) {
		_ = os.Rename(r.aside("old"), r.dir)
	}
	_ = os.RemoveAll(r.aside("old"))
}

// aside returns the path of a directory beside the store.
func (r *Repo) aside(kind string) string {
	return strings.TrimSuffix(r.dir, ".git") + "." + kind
}

// check verifies a store apart from its packs: the format, HEAD, the references
// and the commits that they name.
func check(st *store) error {
	if _, err := FindGitDir(st.dir); err != nil {
		return err
	}
	if err := checkFormat(st); err != nil {
		return err
	}
	head, err := os.ReadFile(filepath.Join(st.dir, "HEAD"))
	if err == nil && !strings.HasPrefix(string(head), "ref: refs/heads/") {
		err = errors.New("HEAD names no branch")
	}
	if err != nil {
		return err
	}
	heads, err := st.refs("refs/")
	if err == nil && len(heads) == 0 {
		err = errors.New("it has no branches")
	}
	for _, tip := range heads {
		if err == nil {
			err = st.complete(tip)
		}
	}
	return err
}

// clone fetches the whole history into a new store, which then replaces the old
// one. Open Snapshots read from the new store afterwards.
func (r *Repo) clone(ctx context.Context, want Hash, damaged bool) error {
	dir := r.aside("new")
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	fresh := newStore(dir, false)
	if err == nil {
		_, err = git.InitWithOptions(fresh.objects, nil, git.InitOptions{DefaultBranch: r.branch})
	}
	if err != nil {
		err = storeError(dir, err)
	} else {
		err = r.fetchInto(ctx, fresh, want, cloneLimit)
	}
	_ = fresh.close()
	if err != nil {
		_ = os.RemoveAll(dir) // tried again by the next clone
		return err
	}
	return r.install(dir, damaged)
}

// install replaces the store by a new one. A damaged store is kept beside it for
// inspection, the newest one only.
func (r *Repo) install(fresh string, damaged bool) error {
	old := r.aside("old")
	if damaged {
		old = r.aside("damaged")
	}
	if err := os.RemoveAll(old); err != nil {
		return storeError(old, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest = nil
	if r.store == nil {
		r.store = newStore(r.dir, false)
	}
	return r.store.reopen(r.dir, func() error {
		if err := os.Rename(r.dir, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return storeError(r.dir, err)
		}
		if err := os.Rename(fresh, r.dir); err != nil {
			return storeError(r.dir, err)
		}
		return nil
	})
}
