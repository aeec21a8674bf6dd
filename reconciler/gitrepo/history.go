package gitrepo

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
)

// memo caches values by hash. The value of a hash never changes. A full memo is
// emptied. The zero value is ready to use.
type memo[V any] struct {
	mu    sync.Mutex
	known map[Hash]V
}

// get returns the value of a hash, and calls read if it is not cached. It caches
// at most most values.
func (m *memo[V]) get(h Hash, most int, read func() (V, error)) (V, error) {
	m.mu.Lock()
	v, ok := m.known[h]
	m.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := read()
	if err != nil {
		return v, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= most {
		m.known = map[Hash]V{}
	}
	m.known[h] = v
	return v, nil
}

const (
	maxLinks = 200_000
	maxTrees = 10_000
)

// link is the part of a commit that walk needs.
type link struct {
	tree    Hash
	parents []Hash
}

// CommitInfo reads one commit of the store.
func (r *Repo) CommitInfo(h Hash) (Commit, error) {
	st, err := r.open()
	if err != nil {
		return Commit{}, err
	}
	c, err := st.commit(h)
	if errors.Is(err, errMissing) {
		return Commit{}, errorf(RevisionNotFound, revision(h), "the store does not hold this commit")
	}
	if err != nil {
		return Commit{}, st.Failure(revision(h), err)
	}
	return c, nil
}

// revision returns the Subject of an Error about a commit.
func revision(h Hash) string { return "revision " + h.String() }

// Parents returns the parents of a commit, the one that was merged into first.
func (r *Repo) Parents(h Hash) ([]Hash, error) {
	l, err := r.link(h)
	return slices.Clone(l.parents), err
}

func (r *Repo) link(h Hash) (link, error) {
	return r.links.get(h, maxLinks, func() (link, error) {
		c, err := r.CommitInfo(h)
		if c.size > maxCommit {
			r.log.Warn("the text of a commit is cut: it is long", "commit", h, "bytes", c.size, "author", c.Author)
		}
		return link{c.tree, c.Parents}, err
	})
}

// IsAncestor reports whether b descends from a, or is a. It follows parents and
// ignores dates.
func (r *Repo) IsAncestor(a, b Hash) (found bool, err error) {
	err = r.walk(b, func(h Hash) bool {
		found = found || h == a
		return !found
	})
	return found, err
}

// MergeBase returns the newest commit that both a and b descend from: of
// several, one from which no other descends. ok is false if there is none.
func (r *Repo) MergeBase(a, b Hash) (base Hash, ok bool, err error) {
	ofA := map[Hash]bool{}
	if err := r.walk(a, func(h Hash) bool { ofA[h] = true; return true }); err != nil {
		return Hash{}, false, err
	}
	var common []Hash
	if err := r.walk(b, func(h Hash) bool {
		if ofA[h] {
			common = append(common, h)
		}
		return !ofA[h]
	}); err != nil {
		return Hash{}, false, err
	}
	for _, h := range common {
		newer := base.IsZero()
		if !newer {
			if newer, err = r.IsAncestor(base, h); err != nil {
				return Hash{}, false, err
			}
		}
		if newer {
			base = h
		}
	}
	return base, !base.IsZero(), nil
}

// walk visits a commit and its ancestors, the nearest first. It does not go on to
// the parents of a commit for which visit returns false.
func (r *Repo) walk(from Hash, visit func(Hash) bool) error {
	seen := map[Hash]bool{from: true}
	for queue := []Hash{from}; len(queue) > 0; queue = queue[1:] {
		if !visit(queue[0]) {
			continue
		}
		l, err := r.link(queue[0])
		if err != nil {
			return err
		}
		for _, p := range l.parents {
			if !seen[p] {
				seen[p] = true
				queue = append(queue, p)
			}
		}
	}
	return nil
}

// Blob returns the hash of the file at a path of a commit; ok is false if there
// is no regular file. It reads only the directories of that path. A commit
// changed a file if the hash differs from the one in the parent.
func (r *Repo) Blob(commit Hash, path string) (h Hash, ok bool, err error) {
	l, err := r.link(commit)
	if err != nil || !ValidPath(path) || path == "." {
		return Hash{}, false, err
	}
	st, err := r.open()
	if err != nil {
		return Hash{}, false, err
	}
	trees := func(h Hash) ([]TreeEntry, error) {
		return r.trees.get(h, maxTrees, func() ([]TreeEntry, error) { return st.Tree(h) })
	}
	e, err := FindInTree(trees, l.tree, strings.TrimPrefix(r.root+"/"+path, "/"))
	if err != nil {
		return Hash{}, false, st.Failure(revision(commit), err)
	}
	return e.Hash, e.Mode.IsRegular(), nil
}

// ReadFile returns the content of a file of a commit. A file over 16 MiB is
// refused with Reason TooLarge, a path that is no regular file with PathNotFound.
func (r *Repo) ReadFile(commit Hash, path string) ([]byte, error) {
	h, ok, err := r.Blob(commit, path)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errorf(PathNotFound, revision(commit), "%.200q is no regular file", path)
	}
	st, err := r.open()
	if err != nil {
		return nil, err
	}
	data, _, err := st.Read(plumbing.BlobObject, h, maxBlob)
	if err != nil {
		return nil, st.Failure(revision(commit), err)
	}
	return data, nil
}
