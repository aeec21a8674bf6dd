// Package blame finds the commit that last changed each entry of a schedule. Call [New] with the history of the repo,
// then [Blamer.Blame] for each revision.
package blame

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings"
)

// History is the access of a [Blamer] to a repository. The functions are called from [Blamer.Blame], one at a time.
type History struct {
	// Parents of a commit, the one that was merged into first.
	Parents func(settings.Commit) ([]settings.Commit, error)
	// Hash of the regular file or directory at a path of a commit, "" if there is none. The hash of a directory only
	// saves time and may be "" too.
	Hash func(commit settings.Commit, path string) (string, error)
	// Read the file at a path of a commit. The error wraps [ErrNoContent] if the file is too large for a settings file.
	Read func(commit settings.Commit, path string) ([]byte, error)
	// Author of a commit, as "Name <email>", and when it was written.
	Author func(settings.Commit) (string, time.Time, error)
}

// ErrNoContent: a file of an old revision is too large for a settings file.
var ErrNoContent = errors.New("the file cannot be a settings file")

const (
	maxCommits = 10_000  // commits that one Blame visits
	maxKnown   = 200_000 // cached origins
)

// A Blamer finds the commit that last changed each entry. It caches origins, so that the cost of the next revision
// follows the number of new commits. It is not safe for concurrent use.
//
// A commit changed an entry if its value, in one of the files that set a part of it, differs from the value in every
// parent; comments, order and other entries do not count. From a commit that did not change it the search continues at
// the first parent with an equal value. Versions of a file that cannot be read are skipped, as if the commit that broke
// the file and the one that repaired it were one. Of several files the one that was changed last counts: the one with
// the fewest steps from the revision; of equal ones the last in merge order. Renaming a file changes all its entries.
// After 10,000 commits the search ends, and the oldest visited commit counts as the origin.
type Blamer struct {
	history History
	known   map[place]finding
}

// New returns a blamer with an empty cache.
func New(h History) *Blamer { return &Blamer{history: h, known: map[place]finding{}} }

// place is an entry of one file.
type place struct{ file, entry string }

// finding is the origin of the value of a place at head.
type finding struct {
	head   settings.Commit
	commit settings.Commit
	line   int // of the entry at commit
	steps  int // from head to commit
}

// Blame returns the origins of all entries of effective settings, which a [plan.Compiler] made of the revision head.
// File and line of an origin are those at its commit.
func (b *Blamer) Blame(ctx context.Context, head settings.Commit,
	all ...*plan.Effective,
) (map[*plan.Effective]map[string]settings.Origin, error) {
	w := newWalk(ctx, b)
	for _, e := range all {
		for _, name := range e.OriginNames() {
			source := e.SourceName(name)
			for _, f := range e.Layers(name) {
				w.start(head, place{f.Path, source}, f.Source[source])
			}
		}
	}
	if err := w.run(); err != nil {
		return nil, fmt.Errorf("cannot find origins at %s: %w", head.Short(), err)
	}
	if len(b.known) > maxKnown {
		clear(b.known)
	}
	for p, f := range w.found {
		f.head = head
		b.known[p] = f
	}
	out := make(map[*plan.Effective]map[string]settings.Origin, len(all))
	for _, e := range all {
		names := e.OriginNames()
		origins := make(map[string]settings.Origin, len(names))
		for _, name := range names {
			o, err := w.origin(e, name)
			if err != nil {
				return nil, fmt.Errorf("cannot find the origin of %s: %w", name, err)
			}
			origins[name] = o
		}
		out[e] = origins
	}
	return out, nil
}

// origin returns the newest origin of an entry's files.
func (w *walk) origin(e *plan.Effective, name string) (settings.Origin, error) {
	var newest finding
	var file string
	layers, source := e.Layers(name), e.SourceName(name)
	for _, f := range layers {
		if found := w.found[place{f.Path, source}]; file == "" || found.steps <= newest.steps {
			newest, file = found, f.Path
		}
	}
	o, known := w.authors[newest.commit]
	if !known {
		author, when, err := w.history.Author(newest.commit)
		if err != nil {
			return settings.Origin{}, err
		}
		o = settings.Origin{Commit: newest.commit, Author: author, Time: when}
		w.authors[newest.commit] = o
	}
	o.File, o.Line = file, newest.line
	if strings.HasPrefix(name, settings.StateOrigin) && len(layers) > 1 {
		for _, f := range layers {
			o.Files = append(o.Files, f.Path)
		}
	}
	return o, nil
}
