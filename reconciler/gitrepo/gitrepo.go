package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"path/filepath"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

const (
	resolveLimit = 30 * time.Second
	fetchLimit   = 60 * time.Second
	// A clone brings the whole history and may take longer than a fetch.
	cloneLimit = 10 * time.Minute
)

// Options say what to follow. URL and Dir are required.
type Options struct {
	// URL is an https, http, ssh or file URL, host:path for ssh, or a local
	// path. Credentials in it are used and never shown.
	URL string
	// Branch is the name of the branch, without refs/heads/; "" is main.
	Branch string
	// Path is the directory within the repository that counts as its root; ""
	// is the root itself. All paths of this package are relative to it.
	Path string
	// Dir is the directory for the store. It is made when it is needed. Only
	// one Repo at a time may use it for a URL.
	Dir string
	// Access says what it takes to reach the URL.
	Access Access
	// Verify says by which keys a head has to be signed.
	Verify Trust
	// Log hears of stores that are replaced; nil discards.
	Log *slog.Logger
}

// Repo follows one branch of one repository. Its methods belong to one
// goroutine.
type Repo struct {
	address address
	source  source
	branch  plumbing.ReferenceName
	root    string // Options.Path, "" for the root
	dir     string // of the store
	trust   Trust
	log     *slog.Logger

	store *store // nil until it is needed, or while there is none that can be used
	cache cached
}

// Open checks the options. It touches neither the network nor the disk.
func Open(o Options) (*Repo, error) {
	a, err := parseAddress(o.URL)
	if err != nil {
		return nil, err
	}
	if err := o.Access.check(a); err != nil {
		return nil, err
	}
	if u, _ := o.Access.proxy(a.scheme); u != nil && u.User != nil {
		password, _ := u.User.Password()
		a.secrets = append(a.secrets, password)
	}
	branch := plumbing.NewBranchReferenceName(cmp.Or(o.Branch, "main"))
	if err := branch.Validate(); err != nil {
		return nil, fmt.Errorf("cannot follow branch %q: it is not a branch name", cut(o.Branch, maxName))
	}
	root := path.Clean(cmp.Or(o.Path, "."))
	if !validPath(root) {
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
	r := &Repo{
		address: a,
		source:  newSource(a, o.Access),
		branch:  branch,
		root:    root,
		dir:     filepath.Join(o.Dir, a.key()+".git"),
		trust:   o.Verify,
		log:     cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
	}
	r.cache.reset()
	return r, nil
}

// Close lets go of connections and open files. Snapshots cannot be read after.
func (r *Repo) Close() error {
	r.source.close()
	if r.store == nil {
		return nil
	}
	return r.store.close()
}

// URL is where the repository is, without credentials.
func (r *Repo) URL() string { return r.address.display }

// Resolve asks the repository which commit the branch is at. It is cheap
// enough to be called every few seconds, and ends after 30 s at the latest.
func (r *Repo) Resolve(ctx context.Context) (Hash, error) {
	var tip Hash
	err := bounded(ctx, r.address, resolveLimit, func(ctx context.Context) (err error) {
		tip, err = r.source.resolve(ctx, r.branch)
		return err
	})
	return tip, err
}

// Result is what a Fetch did beside fetching.
type Result struct {
	// Rebuilt says why the store was replaced; "" if it was not.
	Rebuilt Rebuild
	// Detail is what was wrong with a store that was replaced.
	Detail string
	// Rewritten is true if the commit does not descend from the one that was
	// fetched before: the branch was force-pushed, rewound or made again.
	Rewritten bool
}

// Fetch brings a commit that Resolve returned, and its history, into the
// store. A commit that is already there costs no request. It ends after 60 s,
// or 10 min if everything has to be cloned. After an error the store is as it
// was.
func (r *Repo) Fetch(ctx context.Context, want Hash) (Result, error) {
	res, err := r.fetch(ctx, want)
	if err != nil {
		return Result{}, err
	}
	if res.Rewritten, err = r.advance(want); err != nil {
		return res, r.store.failure(r.address.display, err)
	}
	return res, nil
}

func (r *Repo) fetch(ctx context.Context, want Hash) (Result, error) {
	why := r.ready()
	switch {
	case why.cause == none:
		if r.store.packs() < maxPacks {
			return r.fetchMore(ctx, want)
		}
		why.cause = Compacted
		res, err := r.cloneAnew(ctx, want, why)
		if err == nil || ctx.Err() != nil || r.store == nil {
			return res, err
		}
		r.log.Warn("store keeps its many packs", "url", r.address.display, "err", err)
		return r.fetchMore(ctx, want)
	default:
		return r.cloneAnew(ctx, want, why)
	}
}

// fetchMore adds to the store, and replaces it if it turns out to be damaged.
func (r *Repo) fetchMore(ctx context.Context, want Hash) (Result, error) {
	present, err := r.complete(want)
	if err == nil && !present {
		err = r.fetchInto(ctx, r.store, want, fetchLimit)
	}
	if damage := r.store.broken(); damage != nil && ctx.Err() == nil {
		return r.cloneAnew(ctx, want, replacing{cause: Damaged, detail: damage.Error()})
	}
	return Result{}, err
}

// fetchInto fetches into a store and makes sure that the commit is there.
func (r *Repo) fetchInto(ctx context.Context, st *store, want Hash, limit time.Duration) error {
	haves, err := r.haves(st)
	if err != nil {
		return st.failure(r.address.display, err)
	}
	err = bounded(ctx, r.address, limit, func(ctx context.Context) error {
		return r.source.fetch(ctx, fetch{branch: r.branch, want: want, haves: haves, into: st})
	})
	if err != nil {
		return err
	}
	c, err := st.commit(want)
	if errors.Is(err, errMissing) {
		return errorf(RefMoved, r.address.display, "it no longer has commit %s: the branch moved", want)
	}
	if err != nil {
		return st.failure(r.address.display, err)
	}
	if _, err := st.tree(c.tree); err != nil {
		return st.failure(r.address.display, err)
	}
	return nil
}

// complete reports whether the store has the commit and its root tree.
func (r *Repo) complete(h Hash) (bool, error) {
	c, err := r.store.commit(h)
	if errors.Is(err, errMissing) {
		return false, nil
	}
	if err == nil {
		_, err = r.store.tree(c.tree)
	}
	if err != nil {
		return false, r.store.failure(r.address.display, err)
	}
	return true, nil
}

// maxHaves is how many commits are offered to a server as the ones that the
// store has. The newest ones matter.
const maxHaves = 256

// haves lists the newest commits of the store.
func (r *Repo) haves(st *store) ([]Hash, error) {
	tips, err := r.tips(st)
	if err != nil {
		return nil, err
	}
	seen := map[Hash]bool{}
	for queue := tips; len(queue) > 0 && len(seen) < maxHaves; queue = queue[1:] {
		if seen[queue[0]] {
			continue
		}
		c, err := st.commit(queue[0])
		if err != nil {
			return nil, err
		}
		seen[c.Hash] = true
		queue = append(queue, c.Parents...)
	}
	out := make([]Hash, 0, len(seen))
	for h := range seen {
		out = append(out, h)
	}
	return out, nil
}
