// Package blame finds the commit that each entry of a schedule comes from. Call [New] with the history of the repo, then
// [Blamer.Blame] for each revision.
package blame

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings"
)

// History is what a [Blamer] asks of a repository. The functions are called from [Blamer.Blame], one at a time.
type History struct {
	// Parents of a commit, the one that was merged into first.
	Parents func(settings.Commit) ([]settings.Commit, error)
	// Hash of the regular file or directory at a path of a commit, "" if there is none. That of a directory only
	// saves time and may be "" too.
	Hash func(commit settings.Commit, path string) (string, error)
	// Read the file at a path of a commit. The error wraps [ErrNoContent] if this file is never read.
	Read func(commit settings.Commit, path string) ([]byte, error)
	// Author of a commit, as "Name <email>", and when it was written.
	Author func(settings.Commit) (string, time.Time, error)
}

// ErrNoContent says that a file of an old revision has no content that a settings file could have: it is too large.
var ErrNoContent = errors.New("the file cannot be a settings file")

const (
	maxCommits = 10_000  // looked at by one Blame
	maxKnown   = 200_000 // entries of files whose origin is remembered
)

// A Blamer finds the commit that last changed each entry. It remembers what it found, so that the next revision costs
// as much as there are new commits. It is not safe for concurrent use.
//
// An entry was changed by a commit if its value, in one of the files that say anything about it, is not that of any
// parent: comments, order and everything around it do not count. From a commit that did not change it the search goes
// on at the first parent with an equal value. Versions of a file that cannot be read are stepped over, as if the commit
// that broke it and the one that mended it were one. Of several files the one that was changed last counts: the one
// with the fewest steps from the revision; of equal ones the last in merge order. Renaming a file changes all that is in
// it. What is older than 10,000 commits is ascribed to the oldest commit looked at.
type Blamer struct {
	history History
	known   map[place]finding
}

// New returns a blamer that remembers nothing yet.
func New(h History) *Blamer { return &Blamer{history: h, known: map[place]finding{}} }

// place is an entry of one file.
type place struct{ file, entry string }

// finding is where the value that a place has at head comes from.
type finding struct {
	head   settings.Commit
	commit settings.Commit
	line   int // of the entry at commit
	steps  int // from head to commit
}

// Blame returns the origins of all entries of the effective settings given, which a [plan.Compiler] made of the revision
// head. File and line of an origin are those at its commit.
func (b *Blamer) Blame(ctx context.Context, head settings.Commit, all ...*plan.Effective) (map[*plan.Effective]map[string]settings.Origin, error) {
	w := newWalk(ctx, b)
	for _, e := range all {
		for name := range e.Schedule {
			for _, f := range e.Layers(name) {
				w.start(head, place{f.Path, name}, f.Source[name])
			}
		}
	}
	if err := w.run(); err != nil {
		return nil, fmt.Errorf("cannot find the origin of schedule entries at %s: %w", head.Short(), err)
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
		origins := make(map[string]settings.Origin, len(e.Schedule))
		for name := range e.Schedule {
			o, err := w.origin(e, name)
			if err != nil {
				return nil, fmt.Errorf("cannot find the origin of entry %s: %w", name, err)
			}
			origins[name] = o
		}
		out[e] = origins
	}
	return out, nil
}

// origin picks the newest of an entry's layers.
func (w *walk) origin(e *plan.Effective, name string) (settings.Origin, error) {
	var newest finding
	var file string
	for _, f := range e.Layers(name) {
		if found := w.found[place{f.Path, name}]; file == "" || found.steps <= newest.steps {
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
	return o, nil
}
