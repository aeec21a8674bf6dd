package push

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/go-git/go-billy/v5"
	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/remote"
)

// localTip returns the commit of a branch in a repository on this host, zero if there is no such branch.
func localTip(dir string, ref plumbing.ReferenceName) (gitrepo.Hash, error) {
	repo, err := git.PlainOpenWithOptions(dir, &git.PlainOpenOptions{EnableDotGitCommonDir: true})
	if err != nil {
		return gitrepo.Hash{}, err
	}
	at, err := storer.ResolveReference(repo.Storer, ref)
	switch {
	case errors.Is(err, plumbing.ErrReferenceNotFound):
		return gitrepo.Hash{}, nil
	case err != nil:
		return gitrepo.Hash{}, err
	}
	return gitrepo.Hash(at.Hash()), nil
}

// pushLocally stores the objects in a repository on this host, and then moves the reference if it is still where it
// was. As git does, it holds the file NAME.lock of the reference meanwhile.
func pushLocally(ctx context.Context, dir string, u remote.Update, made *memory.Storage) (err error) {
	repo, err := git.PlainOpenWithOptions(dir, &git.PlainOpenOptions{EnableDotGitCommonDir: true})
	if err != nil {
		return err
	}
	config, err := repo.Config()
	if err != nil {
		return err
	}
	if head, err := repo.Reference(plumbing.HEAD, false); err == nil && !config.Core.IsBare && head.Target() == u.Ref {
		return errors.New(
			"the branch is checked out there, and the files would no longer fit it: use a bare repository",
		)
	}
	for _, o := range made.Objects {
		if _, err := repo.Storer.SetEncodedObject(o); err != nil {
			return err
		}
	}
	files := repo.Storer.(*filesystem.Storage).Filesystem()
	name := u.Ref.String()
	lock, err := lockRef(ctx, files, name+".lock")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, files.Remove(name+".lock"))
		}
	}()
	at, err := localTip(dir, u.Ref)
	if err == nil && at != gitrepo.Hash(u.Old) {
		err = ErrMoved
	}
	if err == nil {
		_, err = io.WriteString(lock, u.New.String()+"\n")
	}
	if file, ok := lock.(interface{ Sync() error }); ok && err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, lock.Close()); err != nil {
		return err
	}
	return files.Rename(name+".lock", name)
}

// lockWait is how long another program may hold the lock of a reference, and lockPause the time between two tries to
// get it.
const (
	lockWait  = time.Second
	lockPause = 10 * time.Millisecond
)

// lockRef creates the lock of a reference.
func lockRef(ctx context.Context, files billy.Filesystem, name string) (billy.File, error) {
	for end := time.Now().Add(lockWait); ; {
		lock, err := files.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return lock, err
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("another program holds %s; if none runs, remove that file", name)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lockPause):
		}
	}
}
