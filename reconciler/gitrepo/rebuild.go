package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
)

// Rebuild says why a store was replaced by a new clone.
type Rebuild string

// Causes of a new clone. A first clone is none of them.
const (
	// Damaged: something in the store could not be read.
	Damaged Rebuild = "Damaged"
	// Shallow: the store lacked a part of the history.
	Shallow Rebuild = "Shallow"
	// Compacted: the store had many packs. Nothing was wrong.
	Compacted Rebuild = "Compacted"

	none     Rebuild = ""
	absent   Rebuild = "absent"
	unusable Rebuild = "unusable"
)

const (
	// maxPacks is when a store is cloned anew: each fetch adds a pack, and
	// every read looks through all of them.
	maxPacks = 64
	// maxKept is how many tips that the branch left behind stay readable.
	maxKept = 16

	keptRefs = "refs/zester/kept/"
)

// replacing says why the store cannot be used as it is.
type replacing struct {
	cause  Rebuild
	detail string
	err    error // set with unusable: the store cannot even be looked at
}

// ready opens the store if it is not open and says why it cannot be used.
func (r *Repo) ready() replacing {
	if r.store != nil {
		if err := r.store.broken(); err != nil {
			return replacing{cause: Damaged, detail: err.Error()}
		}
		return replacing{}
	}
	r.recover()
	if _, err := os.Stat(r.dir); errors.Is(err, fs.ErrNotExist) {
		return replacing{cause: absent}
	} else if err != nil {
		return replacing{cause: unusable, err: storeError(r.dir, err)}
	}
	if _, err := os.Stat(filepath.Join(r.dir, "shallow")); err == nil {
		return replacing{cause: Shallow, detail: "the store has a file named shallow"}
	}
	st := newStore(r.dir, StoreDamaged)
	st.dropPartial()
	st.dropLocks()
	if err := r.check(st); err != nil {
		_ = st.close()
		return replacing{cause: Damaged, detail: err.Error()}
	}
	r.store = st
	return replacing{}
}

// recover finishes or undoes what a crash interrupted: a clone that was not
// renamed in is dropped, a store that was only moved away is moved back.
func (r *Repo) recover() {
	_ = os.RemoveAll(r.aside("new")) // cloneAnew reports what cannot be removed
	if _, err := os.Stat(r.dir); errors.Is(err, fs.ErrNotExist) {
		_ = os.Rename(r.aside("old"), r.dir)
	}
	_ = os.RemoveAll(r.aside("old"))
}

// aside is the name of a directory beside the store.
func (r *Repo) aside(kind string) string {
	return strings.TrimSuffix(r.dir, ".git") + "." + kind
}

// check reads of a store what can be damaged without any pack being so.
func (r *Repo) check(st *store) error {
	if _, err := gitDir(st.dir); err != nil {
		return err
	}
	if err := checkFormat(st); err != nil {
		return err
	}
	head, err := os.ReadFile(filepath.Join(st.dir, "HEAD"))
	if err != nil {
		return err
	}
	if !strings.HasPrefix(string(head), "ref: refs/heads/") {
		return errors.New("HEAD names no branch")
	}
	if err := pairedPacks(st.dir); err != nil {
		return err
	}
	tips, err := r.tips(st)
	if err != nil {
		return err
	}
	if len(tips) == 0 {
		return errors.New("it has no branches")
	}
	for _, tip := range tips {
		c, err := st.commit(tip)
		if err != nil {
			return err
		}
		if _, err := st.tree(c.tree); err != nil {
			return err
		}
	}
	return nil
}

// pairedPacks finds a pack without its index, which go-git would not miss
// until it looks for an object in it, and the reverse.
func pairedPacks(dir string) error {
	for have, want := range map[string]string{".pack": ".idx", ".idx": ".pack"} {
		names, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "pack-*"+have))
		if err != nil {
			return err
		}
		for _, name := range names {
			if _, err := os.Stat(strings.TrimSuffix(name, have) + want); err != nil {
				return fmt.Errorf("%s has no %s beside it", filepath.Base(name), want)
			}
		}
	}
	return nil
}

// tips are the branches of the store and the tips that it keeps.
func (r *Repo) tips(st *store) ([]Hash, error) {
	var tips []Hash
	for _, prefix := range []string{"refs/heads/", keptRefs} {
		refs, err := st.refs(prefix)
		if err != nil {
			return nil, err
		}
		for _, h := range refs {
			if !slices.Contains(tips, h) {
				tips = append(tips, h)
			}
		}
	}
	return tips, nil
}

// cloneAnew clones beside the store, carries the kept tips over, and renames
// the clone in. Snapshots go on reading, from the new store.
func (r *Repo) cloneAnew(ctx context.Context, want Hash, why replacing) (Result, error) {
	var res Result
	if why.cause == unusable {
		return res, why.err
	}
	if why.cause != absent {
		res.Rebuilt, res.Detail = why.cause, oneLine(why.detail, maxMessage)
	}
	fresh, err := r.emptyStore()
	if err != nil {
		return Result{}, err
	}
	if err := r.fill(ctx, fresh, want, why.cause); err != nil {
		_ = fresh.close()
		_ = os.RemoveAll(fresh.dir) // tried again at the next clone
		return Result{}, err
	}
	_ = fresh.close()
	if err := r.renameIn(fresh.dir, why.cause); err != nil {
		return Result{}, err
	}
	r.cache.reset()
	if res.Rebuilt != none {
		r.log.Info("store replaced", "url", r.address.display, "reason", string(res.Rebuilt), "detail", res.Detail)
	}
	return res, nil
}

// fill fetches into a new store and carries the kept tips over. Only what a
// damaged store can no longer give is let go.
func (r *Repo) fill(ctx context.Context, fresh *store, want Hash, cause Rebuild) error {
	if err := r.fetchInto(ctx, fresh, want, cloneLimit); err != nil {
		return err
	}
	err := r.carryOver(ctx, fresh)
	if err == nil || cause == Compacted || ctx.Err() != nil {
		return err
	}
	r.log.Warn("old revisions cannot be read any more", "url", r.address.display, "err", err)
	return nil
}

func (r *Repo) emptyStore() (*store, error) {
	dir := r.aside("new")
	if err := os.RemoveAll(dir); err != nil {
		return nil, storeError(dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, storeError(dir, err)
	}
	st := newStore(dir, StoreDamaged)
	_, err := git.InitWithOptions(st.objects, nil, git.InitOptions{DefaultBranch: r.branch})
	if err != nil {
		_ = st.close()
		return nil, storeError(dir, err)
	}
	return st, nil
}

// carryOver copies the tips of the old store into the new one: the last good
// revision may be one that the branch has left.
func (r *Repo) carryOver(ctx context.Context, fresh *store) error {
	old := r.store
	if old == nil {
		if _, err := os.Stat(r.dir); err != nil {
			return nil // the first clone
		}
		old = newStore(r.dir, StoreDamaged)
		defer old.close()
	}
	refs, err := old.refs("refs/")
	if err != nil {
		return err
	}
	var lost error
	for name, h := range refs {
		if err := copyHistory(ctx, old, fresh, h, old.dir); err != nil {
			lost = errors.Join(lost, err)
			continue
		}
		if err := fresh.setRef(plumbing.ReferenceName("refs/"+name), h); err != nil {
			return err
		}
	}
	return lost
}

// renameIn puts a new store in the place of the old one. A damaged one stays
// beside it, for whoever wants to know what happened; one such is kept.
func (r *Repo) renameIn(fresh string, cause Rebuild) error {
	old := r.aside("old")
	if cause == Damaged {
		old = r.aside("damaged")
	}
	if err := os.RemoveAll(old); err != nil {
		return storeError(old, err)
	}
	swap := func() error {
		if err := os.Rename(r.dir, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return storeError(r.dir, err)
		}
		if err := os.Rename(fresh, r.dir); err != nil {
			return storeError(r.dir, err)
		}
		return nil
	}
	if r.store == nil {
		r.store = newStore(r.dir, StoreDamaged)
	}
	if err := r.store.replace(swap); err != nil {
		return err
	}
	if cause != Damaged {
		_ = os.RemoveAll(old) // tried again at the next start
	}
	return nil
}

// advance moves the branch of the store. A tip that is not an ancestor of the
// new one is kept under a name of its own.
func (r *Repo) advance(want Hash) (rewritten bool, err error) {
	old, ok, err := r.store.ref(r.branch)
	if err != nil || old == want {
		return false, err
	}
	if ok {
		forward, err := r.IsAncestor(old, want)
		if err != nil {
			return false, err
		}
		if !forward {
			rewritten = true
			if err := r.keep(old); err != nil {
				return rewritten, err
			}
		}
	}
	return rewritten, r.store.setRef(r.branch, want)
}

// keep gives a tip a numbered reference and drops the oldest one too many.
func (r *Repo) keep(h Hash) error {
	refs, err := r.store.refs(keptRefs)
	if err != nil {
		return err
	}
	var names []string
	for name, kept := range refs {
		names = append(names, name)
		if kept == h {
			return nil
		}
	}
	slices.Sort(names)
	last := 0
	if len(names) > 0 {
		if _, err := fmt.Sscanf(names[len(names)-1], "%d", &last); err != nil {
			return fmt.Errorf("cannot read reference %s%s: %w", keptRefs, names[len(names)-1], err)
		}
	}
	for len(names) >= maxKept {
		if err := r.store.removeRef(plumbing.ReferenceName(keptRefs + names[0])); err != nil {
			return err
		}
		names = names[1:]
	}
	return r.store.setRef(plumbing.ReferenceName(fmt.Sprintf("%s%09d", keptRefs, last+1)), h)
}
