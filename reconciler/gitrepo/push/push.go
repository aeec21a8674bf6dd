// Package push makes commits on a branch of a Git repository, without a checkout.
//
// Begin with [New]. [Pusher.Head] reads the newest revision of the branch; [Pusher.Commit] makes a commit on it and
// pushes that.
//
// Guarantees:
//   - A commit has the files of its parent with the given changes, and no other difference.
//   - A branch is moved only from the commit that Head returned, so no commit of others is lost.
//   - If the connection breaks during a push, the branch is read again. An error then means that the commit is not on
//     the branch, or that the branch could not be read.
//   - Credentials are those of [gitrepo.Options], and are read for each request.
//
// In a repository on this host the objects and the branch are written directly, under the lock that git takes too, so
// its hooks do not run. A branch that is checked out there is refused, as git does.
//
// Known gaps: a commit can be signed with an SSH key only. A directory is not changed if it has an entry that cannot be
// written again as it is, such as one with a mode that Git no longer writes.
package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"
	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/remote"
)

// ErrMoved: the branch is no longer at the commit that the change was made for. Make the change again for the new head.
var ErrMoved = errors.New("the branch moved meanwhile")

const pushLimit = time.Minute

// A Person is an author or committer.
type Person struct{ Name, Email string }

// Options say where commits go. Repo.Path must be empty: changes name files from the root of the repository.
type Options struct {
	Repo      gitrepo.Options
	Committer Person
	Key       string // file with the SSH key that signs commits; empty: commits are not signed
}

// A Pusher makes commits on one branch. Use it from one goroutine.
type Pusher struct {
	o       Options
	repo    *gitrepo.Repo
	address *remote.Address
	remote  *remote.Remote // nil for a repository on this host
	branch  plumbing.ReferenceName
}

// New checks the options. It touches neither the network nor the disk.
func New(o Options) (*Pusher, error) {
	if o.Repo.Path != "" || o.Repo.Ref != "" {
		return nil, errors.New("cannot push below a path, or to a reference that is no branch")
	}
	repo, err := gitrepo.Open(o.Repo)
	if err != nil {
		return nil, err
	}
	address, err := remote.Parse(o.Repo.URL)
	if err != nil {
		return nil, err
	}
	to, err := remote.New(address, o.Repo.Access)
	if err != nil {
		return nil, err
	}
	branch := o.Repo.Branch
	if branch == "" {
		branch = "main"
	}
	return &Pusher{o: o, repo: repo, address: address, remote: to, branch: plumbing.NewBranchReferenceName(branch)}, nil
}

// Close closes connections and files.
func (p *Pusher) Close() error {
	if p.remote != nil {
		p.remote.Close()
	}
	return p.repo.Close()
}

// URL returns the URL of the repository without credentials.
func (p *Pusher) URL() string { return p.repo.URL() }

// Head returns the newest revision of the branch, with all files of the repository.
func (p *Pusher) Head(ctx context.Context) (*gitrepo.Snapshot, error) {
	h, err := p.repo.Resolve(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.repo.Fetch(ctx, h); err != nil {
		return nil, err
	}
	return p.repo.Snapshot(h)
}

// Verify returns an error if commits need a signature, and the fleet would not accept base, which [Pusher.Head]
// returned, after the accepted ones: see [gitrepo.Repo.Verify].
func (p *Pusher) Verify(base *gitrepo.Snapshot, accepted []gitrepo.Hash) error {
	if !p.repo.Signed() {
		return nil
	}
	_, err := p.repo.Verify(base.Commit.Hash, accepted, time.Now())
	return err
}

// Revision returns a revision that Head returned or that came before it.
func (p *Pusher) Revision(h gitrepo.Hash) (*gitrepo.Snapshot, error) { return p.repo.Snapshot(h) }

// A Change is the content of a commit.
type Change struct {
	Files   map[string][]byte // by path from the root of the repository; nil removes the file
	Author  Person
	Message string
	// Intend is called with the hash of the commit before the commit is pushed; its error ends the push. It may be nil.
	Intend func(ctx context.Context, commit gitrepo.Hash) error
	// Branch is a new branch for the commit, which must not exist; empty: the branch of the options.
	Branch string
}

// Commit makes a commit on base, which [Pusher.Head] returned, and pushes it. The error wraps [ErrMoved] if the branch
// has moved since.
func (p *Pusher) Commit(ctx context.Context, base *gitrepo.Snapshot, c Change) (gitrepo.Hash, error) {
	b := builder{from: base.Tree, made: memory.NewStorage()}
	root, err := b.tree(".", base.Tree.Hash(), split(c.Files))
	if err != nil {
		return gitrepo.Hash{}, fmt.Errorf("cannot make a commit for %s: %w", p.URL(), err)
	}
	commit, err := p.commit(&b, plumbing.Hash(base.Commit.Hash), root, c)
	if err != nil {
		return gitrepo.Hash{}, fmt.Errorf("cannot make a commit for %s: %w", p.URL(), err)
	}
	u := remote.Update{Ref: p.branch, Old: plumbing.Hash(base.Commit.Hash), New: commit}
	if c.Branch != "" {
		u.Ref, u.Old = plumbing.NewBranchReferenceName(c.Branch), plumbing.ZeroHash
		if err := u.Ref.Validate(); err != nil {
			return gitrepo.Hash{}, fmt.Errorf("cannot push to branch %q: it is not a branch name", c.Branch)
		}
	}
	if c.Intend != nil {
		if err := c.Intend(ctx, gitrepo.Hash(commit)); err != nil {
			return gitrepo.Hash{}, err
		}
	}
	if err := p.push(ctx, u, &b); err != nil {
		if e, ok := errors.AsType[*remote.Error](err); ok && e.Reason == remote.RefMoved {
			err = fmt.Errorf("%w: %s", ErrMoved, e.Msg)
		}
		return gitrepo.Hash{}, fmt.Errorf("cannot push to branch %q of %s: %w", u.Ref.Short(), p.URL(), err)
	}
	return gitrepo.Hash(commit), nil
}

// Tip returns the commit that a branch is at, and whether that is part of base, which [Pusher.Head] returned. The hash
// is zero if there is no such branch.
func (p *Pusher) Tip(ctx context.Context, branch string,
	base *gitrepo.Snapshot,
) (tip gitrepo.Hash, merged bool, err error) {
	ref := plumbing.NewBranchReferenceName(branch)
	if p.remote == nil {
		tip, err = localTip(p.address.Path, ref)
	} else {
		var h plumbing.Hash
		h, err = p.remote.Resolve(ctx, pushLimit, ref)
		if e, ok := errors.AsType[*remote.Error](err); ok && e.Reason == remote.RefNotFound {
			return gitrepo.Hash{}, false, nil
		}
		tip = gitrepo.Hash(h)
	}
	if err != nil {
		return gitrepo.Hash{}, false, fmt.Errorf("cannot read branch %q of %s: %w", branch, p.URL(), err)
	}
	if tip.IsZero() {
		return tip, false, nil
	}
	merged, err = p.repo.IsAncestor(tip, base.Commit.Hash)
	return tip, err == nil && merged, nil // a commit that is not in the store is not part of base
}

func (p *Pusher) push(ctx context.Context, u remote.Update, b *builder) error {
	if p.remote == nil {
		if err := pushLocally(ctx, p.address.Path, u, b.made); err != nil {
			return err
		}
		// A program that does not respect the lock of the reference may have replaced it.
		tip, err := localTip(p.address.Path, u.Ref)
		if err == nil && tip != gitrepo.Hash(u.New) && !p.follows(ctx, u, plumbing.Hash(tip)) {
			err = ErrMoved
		}
		return err
	}
	var pack bytes.Buffer
	if _, err := packfile.NewEncoder(&pack, b.made, false).Encode(b.hashes, 0); err != nil {
		return err
	}
	u.Pack = pack.Bytes()
	err := p.remote.Push(ctx, pushLimit, u)
	if err == nil || !remote.IsUncertain(err) {
		return err
	}
	if tip, failed := p.remote.Resolve(ctx, pushLimit, u.Ref); failed == nil &&
		(tip == u.New || p.follows(ctx, u, tip)) {
		return nil
	}
	return err
}

// follows reports whether the pushed commit is on the branch of the options, whose newest commit is tip.
func (p *Pusher) follows(ctx context.Context, u remote.Update, tip plumbing.Hash) bool {
	if u.Ref != p.branch || p.repo.Fetch(ctx, gitrepo.Hash(tip)) != nil {
		return false
	}
	is, err := p.repo.IsAncestor(gitrepo.Hash(u.New), gitrepo.Hash(tip))
	return err == nil && is
}

// commit stores the commit object.
func (p *Pusher) commit(b *builder, parent, root plumbing.Hash, c Change) (plumbing.Hash, error) {
	for _, who := range []Person{c.Author, p.o.Committer} {
		if who.Name == "" || strings.ContainsAny(who.Name+who.Email, "<>\n\x00") {
			return plumbing.ZeroHash, fmt.Errorf("%q <%s> is no name and address for a commit", who.Name, who.Email)
		}
	}
	now := time.Now()
	commit := &object.Commit{
		Author:    object.Signature{Name: c.Author.Name, Email: c.Author.Email, When: now},
		Committer: object.Signature{Name: p.o.Committer.Name, Email: p.o.Committer.Email, When: now},
		Message:   c.Message, TreeHash: root, ParentHashes: []plumbing.Hash{parent},
	}
	if p.o.Key != "" {
		var err error
		if commit.PGPSignature, err = sign(commit, p.o.Key); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	return b.store(commit.Encode)
}

// sign returns the signature of a commit with an SSH key.
func sign(commit *object.Commit, file string) (string, error) {
	key, err := signingKey(file)
	if err != nil {
		return "", err
	}
	o := &plumbing.MemoryObject{}
	if err := commit.EncodeWithoutSignature(o); err != nil {
		return "", err
	}
	text, err := o.Reader()
	if err != nil {
		return "", err
	}
	defer text.Close()
	sig, err := sshsig.Sign(text, key, sshsig.HashSHA512, "git")
	if err != nil {
		return "", fmt.Errorf("cannot sign with the key in %s: %w", file, err)
	}
	return string(sshsig.Armor(sig)), nil
}

func signingKey(file string) (ssh.Signer, error) {
	data, err := outbound.ReadPrivate(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the signing key in %s: %w", file, err)
	}
	key, err := ssh.ParsePrivateKey(data)
	if err != nil {
		return nil, fmt.Errorf("cannot use the signing key in %s: %w", file, err)
	}
	return key, nil
}

// Fingerprint returns the fingerprint of the public key of a file with a private SSH key, as ssh-keygen prints it.
func Fingerprint(file string) (string, error) {
	key, err := signingKey(file)
	if err != nil {
		return "", err
	}
	return ssh.FingerprintSHA256(key.PublicKey()), nil
}

// IsRefused reports whether an error of [Pusher.Commit] is final: the server does not allow the push, or the change
// cannot be made.
func IsRefused(err error) bool {
	e, ok := errors.AsType[*remote.Error](err)
	return ok && (e.Reason == remote.Declined || e.Reason == remote.Forbidden ||
		e.Reason == remote.AuthenticationFailed)
}
