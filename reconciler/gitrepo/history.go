package gitrepo

import (
	"errors"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// cached is what the owner remembers of objects, which never change.
type cached struct {
	links map[Hash]link
	trees map[Hash][]entry
	dirs  map[Hash]*dir
}

// link is the part of a commit that walks need.
type link struct {
	tree    Hash
	parents []Hash
}

// Bounds of the cache. What goes over one starts anew.
const (
	maxLinks = 200_000
	maxTrees = 10_000
)

func (c *cached) reset() {
	*c = cached{links: map[Hash]link{}, trees: map[Hash][]entry{}, dirs: map[Hash]*dir{}}
}

// CommitInfo reads one commit of the store.
func (r *Repo) CommitInfo(h Hash) (Commit, error) {
	if err := r.open(); err != nil {
		return Commit{}, err
	}
	c, err := r.store.commit(h)
	if errors.Is(err, errMissing) {
		return Commit{}, errorf(RevisionNotFound, revision(h), "the store does not hold this commit")
	}
	if err != nil {
		return Commit{}, r.store.failure(revision(h), err)
	}
	return c, nil
}

// revision names a commit in an error.
func revision(h Hash) string { return "revision " + h.String() }

// Parents returns the parents of a commit, the one that was merged into first.
func (r *Repo) Parents(h Hash) ([]Hash, error) {
	l, err := r.link(h)
	return slices.Clone(l.parents), err
}

func (r *Repo) link(h Hash) (link, error) {
	if l, ok := r.cache.links[h]; ok {
		return l, nil
	}
	c, err := r.CommitInfo(h)
	if err != nil {
		return link{}, err
	}
	if len(r.cache.links) >= maxLinks {
		clear(r.cache.links)
	}
	if c.size > maxCommit {
		r.log.Warn("the text of a commit is cut: it is long", "commit", h, "bytes", c.size, "author", c.Author)
	}
	l := link{c.tree, c.Parents}
	r.cache.links[h] = l
	return l, nil
}

// IsAncestor reports whether b descends from a, or is a. It goes by parents
// alone, never by dates.
func (r *Repo) IsAncestor(a, b Hash) (bool, error) {
	seen := map[Hash]bool{b: true}
	for queue := []Hash{b}; len(queue) > 0; queue = queue[1:] {
		if queue[0] == a {
			return true, nil
		}
		l, err := r.link(queue[0])
		if err != nil {
			return false, err
		}
		for _, p := range l.parents {
			if !seen[p] {
				seen[p] = true
				queue = append(queue, p)
			}
		}
	}
	return false, nil
}

// Blob returns the hash of the file at a path of a commit, by going down that
// path alone; ok is false if there is no regular file. Comparing it with that
// of a parent tells whether a commit changed the file.
func (r *Repo) Blob(commit Hash, path string) (h Hash, ok bool, err error) {
	l, err := r.link(commit)
	if err != nil {
		return Hash{}, false, err
	}
	if !validPath(path) || path == "." {
		return Hash{}, false, nil
	}
	if r.root != "" {
		path = r.root + "/" + path
	}
	at := entry{hash: l.tree, mode: entryMode("40000")}
	for name := range strings.SplitSeq(path, "/") {
		if !at.mode.IsDir() {
			return Hash{}, false, nil
		}
		entries, err := r.tree(at.hash)
		if err != nil {
			return Hash{}, false, r.store.failure(revision(commit), err)
		}
		i := slices.IndexFunc(entries, func(e entry) bool { return e.name == name })
		if i < 0 {
			return Hash{}, false, nil
		}
		at = entries[i]
	}
	return at.hash, at.mode.IsRegular(), nil
}

// ReadFile returns the content of a file of a commit. A file over 1 MiB is
// refused with Reason TooLarge, a path that is no regular file with PathNotFound.
func (r *Repo) ReadFile(commit Hash, path string) ([]byte, error) {
	h, ok, err := r.Blob(commit, path)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errorf(PathNotFound, revision(commit), "%.200q is no regular file", path)
	}
	data, err := r.store.read(plumbing.BlobObject, h, maxBlob)
	if err != nil {
		return nil, r.store.failure(revision(commit), err)
	}
	return data, nil
}

// tree reads one tree through the cache.
func (r *Repo) tree(h Hash) ([]entry, error) {
	if entries, ok := r.cache.trees[h]; ok {
		return entries, nil
	}
	entries, err := r.store.tree(h)
	if err != nil {
		return nil, err
	}
	if len(r.cache.trees) >= maxTrees {
		clear(r.cache.trees)
	}
	r.cache.trees[h] = entries
	return entries, nil
}

// open makes the store readable, without a request.
func (r *Repo) open() error {
	switch why := r.ready(); why.cause {
	case none:
		return nil
	case absent:
		return errorf(RevisionNotFound, r.dir, "nothing was fetched yet")
	case unusable:
		return why.err
	default:
		if r.store != nil {
			return nil // readers get as far as the damage lets them
		}
		return errorf(StoreDamaged, r.dir, "%s", why.detail)
	}
}
