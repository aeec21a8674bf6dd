package gitrepo

import (
	"context"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// packObjects is how many objects go into one pack, which bounds the memory
// that writing it takes.
const packObjects = 8192

// copying brings commits and all that they reach from one store into another,
// in an order in which every object comes after those that it needs. So
// whatever a copy got done is complete in itself, and the walk can stop at each
// object that is already there.
type copying struct {
	from, into *store
	subject    string // of errors
	seen       map[Hash]bool
	pending    []plumbing.Hash
}

func copyHistory(ctx context.Context, from, into *store, want Hash, subject string) error {
	c := &copying{from: from, into: into, subject: subject, seen: map[Hash]bool{}}
	err := c.commits(ctx, want)
	if err == nil {
		err = c.flush(ctx)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	return from.failure(subject, err)
}

// skip reports whether an object is done with, and otherwise marks it.
func (c *copying) skip(ctx context.Context, h Hash) (bool, error) {
	if c.seen[h] {
		return true, nil
	}
	if err := ctx.Err(); err != nil {
		return true, err
	}
	c.seen[h] = true
	present, err := c.into.has(h)
	if err != nil {
		return true, c.into.failure(c.into.dir, err)
	}
	return present, nil
}

// commits visits the history, parents first. The stack is explicit because a
// history may be longer than a goroutine's stack should be deep.
func (c *copying) commits(ctx context.Context, want Hash) error {
	type visit struct {
		hash, tree Hash
		parents    []Hash // that are left to visit
	}
	var stack []visit
	enter := func(h Hash) error {
		if done, err := c.skip(ctx, h); done {
			return err
		}
		commit, err := c.from.commit(h)
		if err != nil {
			return err
		}
		stack = append(stack, visit{h, commit.tree, commit.Parents})
		return nil
	}
	if err := enter(want); err != nil {
		return err
	}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if len(top.parents) > 0 {
			next := top.parents[0]
			top.parents = top.parents[1:]
			if err := enter(next); err != nil {
				return err
			}
			continue
		}
		done := *top
		stack = stack[:len(stack)-1]
		if err := c.tree(ctx, done.tree, 0); err != nil {
			return err
		}
		if err := c.add(ctx, done.hash); err != nil {
			return err
		}
	}
	return nil
}

func (c *copying) tree(ctx context.Context, h Hash, depth int) error {
	if done, err := c.skip(ctx, h); done {
		return err
	}
	if depth > maxDepth {
		return fmt.Errorf("tree %s is more than %d deep: %w", h, maxDepth, errTooLarge)
	}
	entries, err := c.from.tree(h)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch {
		case e.mode.IsDir():
			err = c.tree(ctx, e.hash, depth+1)
		case isBlob(e.mode):
			err = c.blob(ctx, e.hash)
		}
		if err != nil {
			return err
		}
	}
	return c.add(ctx, h)
}

func (c *copying) blob(ctx context.Context, h Hash) error {
	if done, err := c.skip(ctx, h); done {
		return err
	}
	return c.add(ctx, h)
}

func (c *copying) add(ctx context.Context, h Hash) error {
	c.pending = append(c.pending, plumbing.Hash(h))
	if len(c.pending) < packObjects {
		return nil
	}
	return c.flush(ctx)
}

// flush writes the pending objects as one pack. The names in its index are
// computed from the contents, so a damaged source shows as a missing object.
func (c *copying) flush(ctx context.Context) error {
	if len(c.pending) == 0 {
		return nil
	}
	r, w := io.Pipe()
	encoded := make(chan struct{})
	go func() {
		defer close(encoded)
		w.CloseWithError(c.from.guarded("objects", func(st *filesystem.Storage) error {
			_, err := packfile.NewEncoder(w, st, false).Encode(c.pending, 0)
			return missing(err)
		}))
	}()
	err := c.into.addPack(ctx, r)
	_ = r.Close() // ends an encoder that is still at it
	<-encoded
	if err != nil {
		return err
	}
	for _, h := range c.pending {
		if present, err := c.into.has(Hash(h)); err != nil {
			return c.into.failure(c.into.dir, err)
		} else if !present {
			return fmt.Errorf("cannot copy %s: its content has another hash", h)
		}
	}
	c.pending = c.pending[:0]
	return nil
}
