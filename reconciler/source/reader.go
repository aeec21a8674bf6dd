package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan/blame"
	"github.com/seed-c01c3da5/zester/settings"
)

// maxPassed bounds the commits that [Reader.Passed] returns.
const maxPassed = 20

// A Reader reads revisions from the store on disk, and those that the store lacks from the archive on the bus. Use it
// from one goroutine.
type Reader struct {
	repo     *gitrepo.Repo
	archive  *archive.Archive
	archived map[settings.Commit]gitrepo.Commit // revisions from the archive, which have no history
}

// Reader returns a reader that falls back to a.
func (s *Source) Reader(a *archive.Archive) *Reader {
	return &Reader{repo: s.repo, archive: a, archived: map[settings.Commit]gitrepo.Commit{}}
}

// Fetched returns a revision from the store alone. Its error is a *[gitrepo.Error].
func (r *Reader) Fetched(commit settings.Commit) (*archive.Revision, error) {
	h, err := gitrepo.ParseHash(string(commit))
	if err != nil {
		return nil, err
	}
	snapshot, err := r.repo.Snapshot(h)
	if err != nil {
		return nil, err
	}
	return &archive.Revision{Commit: snapshot.Commit, Tree: snapshot.Tree}, nil
}

// Revision returns a revision from the store or else from the archive, nil if neither has it.
func (r *Reader) Revision(ctx context.Context, commit settings.Commit) (*archive.Revision, error) {
	fetched, unread := r.Fetched(commit)
	if unread == nil {
		delete(r.archived, commit)
		return fetched, nil
	}
	stored, err := r.archive.Load(ctx, commit)
	if stored != nil {
		r.archived[commit] = stored.Commit
		return stored, nil
	}
	if isNotFound(unread) {
		unread = nil
	}
	return nil, errors.Join(err, unread)
}

func isNotFound(err error) bool {
	e, ok := errors.AsType[*gitrepo.Error](err)
	return ok && e.Reason == gitrepo.RevisionNotFound
}

// Info returns the header and message of a commit, only its hash if the commit cannot be read.
func (r *Reader) Info(commit settings.Commit) gitrepo.Commit {
	if c, ok := r.archived[commit]; ok {
		return c
	}
	h, err := gitrepo.ParseHash(string(commit))
	if err != nil {
		return gitrepo.Commit{}
	}
	c, err := r.repo.CommitInfo(h)
	if err != nil {
		c = gitrepo.Commit{Hash: h}
	}
	return c
}

// Signed reports whether a head needs a signature.
func (r *Reader) Signed() bool { return r.repo.Signed() }

// Verify returns the signer of a commit. The commits before it since the accepted ones have to be signed too, as in
// [gitrepo.Repo.Verify]. Its error is a *[gitrepo.Error].
func (r *Reader) Verify(commit settings.Commit, accepted []settings.Commit, now time.Time) (gitrepo.Signer, error) {
	h, err := gitrepo.ParseHash(string(commit))
	if err != nil {
		return gitrepo.Signer{}, err
	}
	before, err := gitrepo.ParseHashes(accepted)
	if err != nil {
		return gitrepo.Signer{}, err
	}
	return r.repo.Verify(h, before, now)
}

// Descends reports whether commit descends from the commit from, or is the same. It does not if the store lacks from,
// as the whole history of commit is in the store.
func (r *Reader) Descends(commit, from settings.Commit) (bool, error) {
	before, err := gitrepo.ParseHash(string(from))
	if err != nil {
		return false, err
	}
	h, err := gitrepo.ParseHash(string(commit))
	if err != nil {
		return false, err
	}
	after, err := r.repo.IsAncestor(before, h)
	if isNotFound(err) {
		return false, nil
	}
	return after, err
}

// Passed returns the commits between a commit and the newest one before it that was tried, the oldest first. It returns
// none if the commit does not descend from one that was tried, or only after 20 others.
func (r *Reader) Passed(commit settings.Commit, tried func(settings.Commit) bool) (between []gitrepo.Commit) {
	for at := commit; ; {
		parents, err := r.parents(at)
		if err != nil || len(parents) == 0 || len(between) > maxPassed {
			return nil
		}
		if at = parents[0]; tried(at) {
			slices.Reverse(between)
			return between
		}
		between = append(between, r.Info(at))
	}
}

// maxSince bounds the commits that [Reader.Since] returns.
const maxSince = 200

// Since returns a commit and its first parents back to one that sent is true of, without that. It returns none if no
// first parent was sent, or only one before 200 others.
func (r *Reader) Since(commit settings.Commit, sent func(settings.Commit) bool) (all []settings.Commit) {
	for at := commit; !sent(at); {
		parents, err := r.parents(at)
		if err != nil || len(parents) == 0 || len(all) == maxSince {
			return nil
		}
		all = append(all, at)
		at = parents[0]
	}
	return all
}

// History returns the functions with which a [blame.Blamer] reads the repository. A revision from the archive has no
// history: it counts as the origin of all its settings.
func (r *Reader) History() blame.History {
	return blame.History{Parents: r.parents, Hash: r.hash, Read: r.read, Author: r.author}
}

func (r *Reader) parents(c settings.Commit) ([]settings.Commit, error) {
	if _, archived := r.archived[c]; archived {
		return nil, nil
	}
	h, err := gitrepo.ParseHash(string(c))
	if err != nil {
		return nil, err
	}
	parents, err := r.repo.Parents(h)
	out := make([]settings.Commit, len(parents))
	for i, p := range parents {
		out[i] = settings.Commit(p.String())
	}
	return out, err
}

func (r *Reader) hash(c settings.Commit, path string) (string, error) {
	h, err := gitrepo.ParseHash(string(c))
	if err != nil {
		return "", err
	}
	blob, ok, err := r.repo.Blob(h, path)
	if err != nil || !ok {
		return "", err
	}
	return blob.String(), nil
}

func (r *Reader) read(c settings.Commit, path string) ([]byte, error) {
	h, err := gitrepo.ParseHash(string(c))
	if err != nil {
		return nil, err
	}
	data, err := r.repo.ReadFile(h, path)
	if e, ok := errors.AsType[*gitrepo.Error](err); ok && e.Reason == gitrepo.TooLarge {
		return nil, fmt.Errorf("%w: %w", blame.ErrNoContent, err)
	}
	return data, err
}

func (r *Reader) author(c settings.Commit) (string, time.Time, error) {
	if info, archived := r.archived[c]; archived {
		return Byline(info), info.Time, nil
	}
	h, err := gitrepo.ParseHash(string(c))
	if err != nil {
		return "", time.Time{}, err
	}
	info, err := r.repo.CommitInfo(h)
	return Byline(info), info.Time, err
}

// Byline returns the author of a commit as Git prints it: Name <email>.
func Byline(c gitrepo.Commit) string { return c.Author + " <" + c.Email + ">" }
