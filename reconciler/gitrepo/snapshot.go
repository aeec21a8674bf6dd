package gitrepo

import (
	"errors"
)

// Snapshot is one commit with its tree. It is immutable and may be used from
// any goroutine, as long as the Repo is not closed.
type Snapshot struct {
	Commit Commit
	// Tree holds the files below Options.Path.
	Tree *Tree
}

// Snapshot opens a commit of the store. It reads every directory and refuses
// the revision, with Reason UnsafePath or TooLarge, if an entry is not allowed;
// files are read on demand. Directories that have not changed since the previous
// Snapshot are not read again.
func (r *Repo) Snapshot(h Hash) (*Snapshot, error) {
	c, err := r.CommitInfo(h)
	if err != nil {
		return nil, err
	}
	st, err := r.open()
	if err != nil {
		return nil, err
	}
	t, err := r.check(st, c.tree, revision(h))
	if err != nil {
		return nil, err
	}
	return &Snapshot{Commit: c, Tree: t}, nil
}

// check reads the directories at Options.Path of a root tree. The subject names
// the revision in errors.
func (r *Repo) check(from Objects, root Hash, subject string) (*Tree, error) {
	r.mu.Lock()
	before := r.newest
	r.mu.Unlock()
	t, err := ReadTree(from, root, r.root, subject, before)
	if refused, ok := errors.AsType[*TreeRefusal](err); ok {
		return nil, errorf(Reason(refused.Reason), subject, "%s", refused.Msg)
	}
	if errors.Is(err, ErrNoDirectory) {
		return nil, errorf(PathNotFound, subject, "it has no directory %q", r.root)
	}
	if err != nil {
		return nil, from.Failure(subject, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest = t
	return t, nil
}
