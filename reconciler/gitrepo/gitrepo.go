package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/remote"
)

const (
	resolveLimit = 30 * time.Second
	fetchLimit   = 60 * time.Second
	cloneLimit   = 10 * time.Minute // a clone brings the whole history
)

// Options say what to follow. URL and Dir are required.
type Options struct {
	// URL is an https, http, ssh or file URL, host:path for ssh, or a local
	// path. Credentials in it are used and never shown.
	URL string
	// Branch is the name of the branch, without refs/heads/; "" is main.
	Branch string
	// Ref is a whole reference name, such as refs/pull/7/head, to follow instead
	// of a branch. Repos of several references may use one Dir one after the
	// other, and share the objects that they fetch.
	Ref string
	// MaxPack bounds one transfer from a remote, in bytes; 0 is 8 GiB.
	MaxPack int64
	// Path is the directory within the repository that counts as its root; ""
	// is the root itself. All paths of this package are relative to it.
	Path string
	// Dir is the directory for the store of a remote repository; Fetch creates
	// it. Only one Repo at a time may use it for a URL.
	Dir string
	// Access holds credentials, certificates and a proxy for the URL.
	Access outbound.Options
	// Verify names the keys that may sign a head.
	Verify Trust
	// Log receives warnings about stores that are replaced; nil discards them.
	Log *slog.Logger
}

// Repo follows one branch of one repository. See the package comment for which
// methods may run at the same time.
type Repo struct {
	address *remote.Address
	remote  *remote.Remote // nil for a local repository
	branch  plumbing.ReferenceName
	root    string // Options.Path, "" for the root
	dir     string // of the store of a remote
	maxPack int64  // bytes
	trust   Trust
	log     *slog.Logger

	links memo[link]
	trees memo[[]TreeEntry]

	mu        sync.Mutex
	store     *store // nil until it is opened, or while none is usable
	recovered bool   // recoverLocked has run
	newest    *Tree  // of the newest Snapshot
}

// Open checks the options. It touches neither the network nor the disk.
func Open(o Options) (*Repo, error) {
	a, err := remote.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	from, err := remote.New(a, o.Access)
	if err != nil {
		return nil, err
	}
	branch := plumbing.NewBranchReferenceName(cmp.Or(o.Branch, "main"))
	if o.Ref != "" {
		branch = plumbing.ReferenceName(o.Ref)
	}
	if err := branch.Validate(); err != nil || !strings.HasPrefix(branch.String(), "refs/") ||
		o.Ref != "" && o.Branch != "" {
		return nil, fmt.Errorf("cannot follow branch %q: it is not a branch name", cut(o.Branch+o.Ref, maxName))
	}
	root := path.Clean(cmp.Or(o.Path, "."))
	if !ValidPath(root) {
		return nil, fmt.Errorf("cannot use path %q: want a relative path without .. in it", cut(o.Path, maxName))
	}
	if o.Dir == "" {
		return nil, errors.New("cannot open a repository without a directory for its store")
	}
	if _, err := o.Verify.keys(); err != nil {
		return nil, err
	}
	if root == "." {
		root = ""
	}
	return &Repo{
		address: a, remote: from, branch: branch, root: root, dir: filepath.Join(o.Dir, a.Key()+".git"),
		maxPack: cmp.Or(o.MaxPack, maxPack), trust: o.Verify, log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
	}, nil
}

// Close closes connections and files. Snapshots cannot be read after it.
func (r *Repo) Close() error {
	if r.remote != nil {
		r.remote.Close()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store == nil {
		return nil
	}
	return r.store.close()
}

// URL returns the URL of the repository without credentials.
func (r *Repo) URL() string { return r.address.Shown }

// Resolve asks the repository which commit the branch is at. It is cheap
// enough to be called every few seconds, and ends after 30 s at the latest.
func (r *Repo) Resolve(ctx context.Context) (Hash, error) {
	if r.remote == nil {
		return resolveLocal(r.address, r.branch)
	}
	tip, err := r.remote.Resolve(ctx, resolveLimit, r.branch)
	return Hash(tip), remoteError(r.address, err)
}

// Fetch makes a commit that Resolve returned, and its history, readable. A
// commit that is already there costs no request. Fetch ends after 60 s, or
// 10 min if everything has to be cloned. After an error the store is as it was.
func (r *Repo) Fetch(ctx context.Context, want Hash) error {
	damage, err := r.fetch(ctx, want)
	if damage != "" && err == nil {
		r.log.Warn("store replaced by a new clone", "url", r.address.Shown, "damage", damage)
	}
	return err
}

// Watch returns a channel with a value whenever the branch of a local repository
// may have moved; call Resolve then. The channel is closed when ctx has ended. It
// is nil for a remote, and if the system cannot watch the directory: poll then.
func (r *Repo) Watch(ctx context.Context) <-chan struct{} {
	if r.remote != nil {
		return nil
	}
	moved, err := WatchGitDir(ctx, r.address.Path, r.branch.String())
	if err != nil {
		r.log.Warn("cannot watch the repository, polling alone", "url", r.address.Shown, "err", err)
	}
	return moved
}

// fetch also returns the damage for which the store was replaced, if it was.
func (r *Repo) fetch(ctx context.Context, want Hash) (damage string, err error) {
	if r.remote == nil {
		return "", r.openAgain(want)
	}
	st, err := r.open()
	switch e, _ := errors.AsType[*Error](err); {
	case err == nil:
		if err = r.fetchMore(ctx, st, want); st.broken() == nil || ctx.Err() != nil {
			return "", err
		}
		damage = oneLine(st.broken().Error(), maxMessage)
	case e.Reason == StoreDamaged:
		damage = e.Msg
	case e.Reason != RevisionNotFound:
		return "", err
	}
	return damage, r.clone(ctx, want, damage != "")
}

// fetchMore fetches into the store unless it is damaged, and joins its packs.
func (r *Repo) fetchMore(ctx context.Context, st *store, want Hash) error {
	if st.broken() != nil {
		return nil
	}
	if err := r.fetchInto(ctx, st, want, fetchLimit); err != nil {
		return err
	}
	if err := st.joinPacks(ctx); err != nil {
		r.log.Warn("packs not joined", "url", r.address.Shown, "err", err)
	}
	return nil
}

// fetchInto fetches into a store, and checks that the commit is there afterwards.
func (r *Repo) fetchInto(ctx context.Context, st *store, want Hash, limit time.Duration) error {
	err := st.complete(want)
	if errors.Is(err, errMissing) {
		if err := r.transfer(ctx, st, want, limit); err != nil {
			return err
		}
		if err = st.complete(want); errors.Is(err, errMissing) {
			return errorf(RefMoved, r.address.Shown, "it no longer has commit %s: the branch moved", want)
		}
	}
	if err == nil {
		err = st.setRef(r.branch, want)
	}
	if err != nil {
		return st.Failure(r.address.Shown, err)
	}
	return nil
}

// transfer fetches the objects that a store lacks for a commit.
func (r *Repo) transfer(ctx context.Context, st *store, want Hash, limit time.Duration) error {
	haves, err := st.newest()
	if err != nil {
		return st.Failure(r.address.Shown, err)
	}
	var stored error
	err = r.remote.Fetch(ctx, limit, remote.Request{
		Ref: r.branch, Want: plumbing.Hash(want), Haves: haves,
		Store: func(pack io.Reader) error { stored = st.addPack(ctx, pack, r.maxPack); return stored },
	})
	if e, ok := errors.AsType[*Error](stored); ok && err != nil {
		return e
	}
	if errors.Is(stored, errTooLarge) {
		return errorf(TooLarge, r.address.Shown, "%v", stored)
	}
	return remoteError(r.address, err)
}
