package propose

import (
	"context"
	"io/fs"
	"path"
	"path/filepath"
	"sync"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/push"
	"github.com/seed-c01c3da5/zester/reconciler/plan/edit"
)

// A source reads the head of the branch. Readers and the writer have one each, so that neither waits for the other.
type source struct {
	path string

	mu     sync.Mutex
	pusher *push.Pusher
	commit gitrepo.Hash // of head and repo
	head   *gitrepo.Snapshot
	repo   *edit.Repo

	earlier     gitrepo.Hash // of earlierRepo
	earlierRepo *edit.Repo
}

func newSource(o Options, name string) (*source, error) {
	w := o.Write
	w.Repo.Dir = filepath.Join(w.Repo.Dir, name)
	p, err := push.New(w)
	if err != nil {
		return nil, err
	}
	return &source{path: path.Clean(path.Join(".", o.Path)), pusher: p}, nil
}

// read returns the head of the branch, and the entries of the fleet in it.
func (s *source) read(ctx context.Context) (*gitrepo.Snapshot, *edit.Repo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	head, err := s.pusher.Head(ctx)
	if err != nil {
		return nil, nil, err
	}
	if s.repo != nil && s.commit == head.Commit.Hash {
		return s.head, s.repo, nil
	}
	files, err := s.fleet(head)
	if err != nil {
		return nil, nil, err
	}
	repo, err := edit.Read(files)
	if err != nil {
		return nil, nil, err
	}
	s.commit, s.head, s.repo = head.Commit.Hash, head, repo
	return head, repo, nil
}

// at returns the entries of the fleet in a revision that the head is or comes after.
func (s *source) at(ctx context.Context, commit gitrepo.Hash) (*edit.Repo, error) {
	head, repo, err := s.read(ctx)
	if err != nil || head.Commit.Hash == commit {
		return repo, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.earlierRepo != nil && s.earlier == commit {
		return s.earlierRepo, nil
	}
	revision, err := s.pusher.Revision(commit)
	if err != nil {
		return nil, err
	}
	files, err := s.fleet(revision)
	if err != nil {
		return nil, err
	}
	if repo, err = edit.Read(files); err == nil {
		s.earlier, s.earlierRepo = commit, repo
	}
	return repo, err
}

// fleet returns the files of the fleet in a revision of the repository.
func (s *source) fleet(head *gitrepo.Snapshot) (fs.FS, error) {
	if s.path == "." {
		return head.Tree, nil
	}
	return fs.Sub(head.Tree, s.path)
}

// inRepo returns files by their paths from the root of the repository.
func (s *source) inRepo(files map[string][]byte) map[string][]byte {
	out := make(map[string][]byte, len(files))
	for name, content := range files {
		out[path.Join(s.path, name)] = content
	}
	return out
}
