package archive

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/content"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

const (
	keyPrefix  = "$KV." + Bucket + "." // of the subjects of the bucket's stream
	chunkBytes = 512 << 10
	maxChunks  = (maxPacked + chunkBytes - 1) / chunkBytes
)

// An Entry is the manifest of a stored revision. Its key is the commit; the keys of the chunks are <commit>.<number>.
type Entry struct {
	Commit  settings.Commit `json:"commit"`
	Author  string          `json:"author"`
	Email   string          `json:"email"`
	Message string          `json:"message"` // its first line
	Time    time.Time       `json:"time"`    // by its author's clock
	Stored  time.Time       `json:"stored"`
	Chunks  int             `json:"chunks"`
	Sum     string          `json:"sum"`              // SHA-256 of the chunks together, in hex
	Source  string          `json:"source,omitempty"` // repo, branch and path; empty: an earlier version stored it
	Safety  *policy.Safety  `json:"safety,omitempty"` // see [Revision]
}

// List returns the stored revisions of the source, the newest first.
func (a *Archive) List(ctx context.Context) ([]Entry, error) {
	all, err := a.listAll(ctx)
	return slices.DeleteFunc(all, func(e Entry) bool { return !a.isOwn(e) }), err
}

// isOwn reports whether a revision comes from the source of the archive.
func (a *Archive) isOwn(e Entry) bool { return e.Source == a.source || e.Source == "" }

// Clear removes all stored revisions. Call it when the fleet has another source.
func (a *Archive) Clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if err := a.stream.Purge(ctx); err != nil {
		return fmt.Errorf("cannot remove the stored revisions: %w", err)
	}
	return nil
}

// listAll returns the stored revisions of all sources, the newest first.
func (a *Archive) listAll(ctx context.Context) ([]Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	keys, err := a.keys(ctx, "*")
	if err != nil {
		return nil, err
	}
	var all []Entry
	for _, key := range keys {
		e, err := a.entry(ctx, settings.Commit(key))
		if err != nil {
			return nil, err
		}
		if e != nil {
			all = append(all, *e)
		}
	}
	sorting.Func(all, func(a, b Entry) int {
		return cmp.Or(b.Stored.Compare(a.Stored), cmp.Compare(a.Commit, b.Commit))
	})
	return all, nil
}

// Find returns the stored revisions whose commit begins with digits, the newest first. If the revision that was
// requested last is one of them, it waits for the first attempt to store it.
func (a *Archive) Find(ctx context.Context, digits string) (found []settings.Commit, err error) {
	if r := a.newest.Load(); r != nil && strings.HasPrefix(string(r.revision.ID()), digits) {
		select {
		case <-r.tried:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	all, err := a.List(ctx)
	for _, e := range all {
		if strings.HasPrefix(string(e.Commit), digits) {
			found = append(found, e.Commit)
		}
	}
	return found, err
}

// keys returns the keys of the bucket that match a subject with wildcards.
func (a *Archive) keys(ctx context.Context, subject string) (all []string, err error) {
	info, err := a.stream.Info(ctx, jetstream.WithSubjectFilter(keyPrefix+subject))
	if err != nil {
		return nil, fmt.Errorf("cannot list the stored revisions: %w", err)
	}
	for subject := range info.State.Subjects {
		all = append(all, strings.TrimPrefix(subject, keyPrefix))
	}
	return all, nil
}

// entry returns the manifest of a revision, nil if it is not stored.
func (a *Archive) entry(ctx context.Context, commit settings.Commit) (*Entry, error) {
	stored, err := a.kv.Get(ctx, string(commit))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	e := new(Entry)
	if err == nil {
		err = canon.Unmarshal(stored.Value(), e)
	}
	if err == nil && (e.Commit != commit || e.Chunks > maxChunks) {
		err = fmt.Errorf("its manifest names %.40s with %d parts", e.Commit, e.Chunks)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read stored revision %s: %w", commit.Short(), err)
	}
	return e, nil
}

// Header returns a stored revision without its Tree, nil if it is not stored. It reads one small value.
func (a *Archive) Header(ctx context.Context, commit settings.Commit) (*Revision, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	e, err := a.entry(ctx, commit)
	if err != nil || e == nil || !a.isOwn(*e) {
		return nil, err
	}
	return e.header()
}

// Load returns a stored revision, nil if it is not stored. Its Tree is in memory, and reads contents of states from the
// bus.
func (a *Archive) Load(ctx context.Context, commit settings.Commit) (*Revision, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	e, err := a.entry(ctx, commit)
	if err != nil || e == nil || !a.isOwn(*e) {
		return nil, err
	}
	return a.load(ctx, e)
}

// Blobs returns the blobs of the contents to which the stored revisions of all sources refer.
func (a *Archive) Blobs(ctx context.Context) (map[string]bool, error) {
	all, err := a.listAll(ctx)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.named
	a.named = make(map[string][]string, len(all))
	used := map[string]bool{}
	for _, e := range all {
		named, known := before[e.Sum]
		if !known {
			limited, cancel := context.WithTimeout(ctx, callLimit)
			r, err := a.load(limited, &e)
			cancel()
			if err != nil {
				return nil, err
			}
			for _, f := range r.Contents {
				named = append(named, f.Blob)
			}
		}
		a.named[e.Sum] = named
		for _, blob := range named {
			used[blob] = true
		}
	}
	return used, nil
}

// load reads the files of a stored revision.
func (a *Archive) load(ctx context.Context, e *Entry) (*Revision, error) {
	commit := e.Commit
	var packed []byte
	for i := range e.Chunks {
		chunk, err := a.kv.Get(ctx, chunkKey(commit, i))
		if err != nil {
			return nil, fmt.Errorf("cannot read stored revision %s: %w", commit.Short(), err)
		}
		packed = append(packed, chunk.Value()...)
	}
	if sum := sha256.Sum256(packed); hex.EncodeToString(sum[:]) != e.Sum {
		return nil, fmt.Errorf("cannot read stored revision %s: its parts do not fit together", commit.Short())
	}
	return e.unpack(packed, func(f content.File) ([]byte, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
		defer cancel()
		return a.blobs.Read(ctx, f)
	})
}

func chunkKey(commit settings.Commit, i int) string { return fmt.Sprintf("%s.%d", commit, i) }

// put stores a revision unless it is stored, and removes the oldest beyond maxStored except those to keep.
func (a *Archive) put(ctx context.Context, r *Revision, keep []settings.Commit) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	known, err := a.entry(ctx, r.ID())
	if err != nil || known != nil && a.isOwn(*known) {
		return err
	}
	if err := a.write(ctx, r); err != nil {
		return fmt.Errorf("cannot store revision %s: %w", r.ID().Short(), err)
	}
	return a.prune(ctx, keep)
}

// write stores the chunks of a revision and then its manifest.
func (a *Archive) write(ctx context.Context, r *Revision) error {
	packed, err := pack(r.Tree, r.Contents)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(packed)
	e := Entry{
		Commit:  r.ID(),
		Author:  r.Commit.Author,
		Email:   r.Commit.Email,
		Message: r.Commit.Subject(),
		Time:    r.Commit.Time,
		Stored:  time.Now(),
		Sum:     hex.EncodeToString(sum[:]),
		Source:  a.source,
		Safety:  r.Safety,
	}
	for chunk := range slices.Chunk(packed, chunkBytes) {
		if _, err := a.kv.Put(ctx, chunkKey(e.Commit, e.Chunks), chunk); err != nil {
			return err
		}
		e.Chunks++
	}
	data, err := canon.Marshal(e)
	if err == nil {
		_, err = a.kv.Put(ctx, string(e.Commit), data)
	}
	return err
}

// prune removes the oldest revisions beyond maxStored except those to keep, and the chunks without a manifest.
func (a *Archive) prune(ctx context.Context, keep []settings.Commit) error {
	all, err := a.listAll(ctx)
	if err != nil {
		return err
	}
	gone, err := a.incomplete(ctx, all)
	if err != nil {
		return err
	}
	for _, commit := range append(gone, surplus(all, keep)...) {
		key := keyPrefix + string(commit)
		for _, subject := range []string{key, key + ".*"} {
			if err := a.stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
				return fmt.Errorf("cannot remove stored revision %s: %w", commit.Short(), err)
			}
		}
	}
	return nil
}

// surplus returns the revisions of all, which is sorted the newest first, that are beyond maxStored and not in keep.
func surplus(all []Entry, keep []settings.Commit) (gone []settings.Commit) {
	for _, e := range all[min(len(all), maxStored):] {
		if !slices.Contains(keep, e.Commit) {
			gone = append(gone, e.Commit)
		}
	}
	return gone
}

// incomplete returns the revisions with chunks and no manifest that no master is storing: twice the limit for storing
// one has passed, as clocks differ.
func (a *Archive) incomplete(ctx context.Context, whole []Entry) (commits []settings.Commit, err error) {
	keys, err := a.keys(ctx, "*.0")
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		commit := settings.Commit(strings.TrimSuffix(key, ".0"))
		if slices.ContainsFunc(whole, func(e Entry) bool { return e.Commit == commit }) {
			continue
		}
		first, err := a.kv.Get(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("cannot read stored revision %s: %w", commit.Short(), err)
		}
		if time.Since(first.Created()) > 2*callLimit {
			commits = append(commits, commit)
		}
	}
	return commits, nil
}
