package reconciler

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan/blame"
	"github.com/seed-c01c3da5/zester/settings"
)

// history is how the blamer reads the repo.
func (t *term) history() blame.History {
	return blame.History{Parents: t.parents, Hash: t.hash, Read: t.read, Author: t.author}
}

func (t *term) parents(c settings.Commit) ([]settings.Commit, error) {
	if _, archived := t.archived[c]; archived {
		return nil, nil // its history is not at hand: what it holds is ascribed to it
	}
	h, err := gitrepo.ParseHash(string(c))
	if err != nil {
		return nil, err
	}
	parents, err := t.repo.Parents(h)
	out := make([]settings.Commit, len(parents))
	for i, p := range parents {
		out[i] = settings.Commit(p.String())
	}
	return out, err
}

func (t *term) hash(c settings.Commit, path string) (string, error) {
	h, err := gitrepo.ParseHash(string(c))
	if err != nil {
		return "", err
	}
	blob, ok, err := t.repo.Blob(h, path)
	if err != nil || !ok {
		return "", err
	}
	return blob.String(), nil
}

func (t *term) read(c settings.Commit, path string) ([]byte, error) {
	h, err := gitrepo.ParseHash(string(c))
	if err != nil {
		return nil, err
	}
	data, err := t.repo.ReadFile(h, path)
	if e, ok := errors.AsType[*gitrepo.Error](err); ok && e.Reason == gitrepo.TooLarge {
		return nil, fmt.Errorf("%w: %w", blame.ErrNoContent, err)
	}
	return data, err
}

func (t *term) author(c settings.Commit) (string, time.Time, error) {
	if info, archived := t.archived[c]; archived {
		return byline(info), info.Time, nil
	}
	h, err := gitrepo.ParseHash(string(c))
	if err != nil {
		return "", time.Time{}, err
	}
	info, err := t.repo.CommitInfo(h)
	return byline(info), info.Time, err
}

// byline is who wrote a commit, as Git prints it.
func byline(c gitrepo.Commit) string { return c.Author + " <" + c.Email + ">" }
