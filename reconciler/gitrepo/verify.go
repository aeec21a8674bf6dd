package gitrepo

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/seed-c01c3da5/zester/master/outbound"
)

// Trust names files with the keys that may sign a head. The zero value requires
// no signature. The files are read for each verification, so that an added or
// removed key counts at once.
type Trust struct {
	SSH     string // allowed signers, in the form of ssh-keygen(1)
	OpenPGP string // public keys, armored, as gpg --export --armor writes them
}

// Signed reports whether a head needs a signature.
func (r *Repo) Signed() bool { return r.trust != Trust{} }

// maxUnaccepted bounds the commits whose signatures one Verify checks.
const maxUnaccepted = 10_000

// Verify checks that a commit of the store is signed by a trusted key, and
// returns its signer. If accepted has commits, the first parent of h and so on
// have to be signed as well, up to one that is accepted or that an accepted
// commit descends from. The other parents of a merge are not checked: the signer
// of the merge vouches for them. An invalid signature has the Reason Untrusted.
func (r *Repo) Verify(h Hash, accepted []Hash, now time.Time) (Signer, error) {
	keys, err := r.trust.keys()
	if err != nil {
		return Signer{}, errorf(KeysUnreadable, revision(h), "%v", err)
	}
	signer, err := r.verify(keys, h, now)
	if err != nil || len(accepted) == 0 {
		return signer, err
	}
	before, err := r.unaccepted(h, accepted)
	if err != nil {
		return Signer{}, err
	}
	for _, c := range before {
		_, err := r.verify(keys, c, now)
		if e, ok := errors.AsType[*Error](err); ok && e.Reason == Untrusted {
			err = errorf(Untrusted, revision(h), "the commit %s before it is not accepted: %s", c, e.Msg)
		}
		if err != nil {
			return Signer{}, err
		}
	}
	return signer, nil
}

// verify checks the signature of one commit.
func (r *Repo) verify(keys *Keys, h Hash, now time.Time) (Signer, error) {
	c, err := r.CommitInfo(h)
	if err == nil && c.size > maxCommit {
		err = errorf(TooLarge, revision(h), "a commit of %d bytes, the limit is %d", c.size, maxCommit)
	}
	if err != nil {
		return Signer{}, err
	}
	st, err := r.open()
	if err != nil {
		return Signer{}, err
	}
	raw, _, err := st.Read(plumbing.CommitObject, h, maxCommit)
	if err != nil {
		return Signer{}, st.Failure(revision(h), err)
	}
	signer, err := keys.Verify(raw, now)
	if err != nil {
		return Signer{}, errorf(Untrusted, revision(h), "%v", err)
	}
	return signer, nil
}

// unaccepted returns the first parents before h up to one that is accepted or
// that an accepted commit descends from, the nearest first. An accepted commit
// that the store lacks accepts nothing, as the store has the history of h.
func (r *Repo) unaccepted(h Hash, accepted []Hash) (before []Hash, err error) {
	for at := h; !slices.Contains(accepted, at); {
		l, err := r.link(at)
		if err != nil {
			return nil, err
		}
		if len(l.parents) == 0 { // an accepted commit came in by a merge, or has another history
			before, err = r.notBefore(accepted, before)
			if err != nil {
				return nil, err
			}
			break
		}
		if at = l.parents[0]; !slices.Contains(accepted, at) {
			before = append(before, at)
		}
	}
	if len(before) > maxUnaccepted {
		return nil, errorf(TooLarge, revision(h),
			"%d commits came before it since the last accepted one, and at most %d are checked", len(before),
			maxUnaccepted)
	}
	return before, nil
}

// notBefore cuts a list of commits, each the parent of the one before it, at
// the first that a commit of accepted descends from.
func (r *Repo) notBefore(accepted, list []Hash) ([]Hash, error) {
	known := map[Hash]bool{}
	for _, a := range accepted {
		err := r.walk(a, func(h Hash) bool { added := !known[h]; known[h] = true; return added })
		if err != nil && !hasReason(err, RevisionNotFound) {
			return nil, err
		}
	}
	if i := slices.IndexFunc(list, func(h Hash) bool { return known[h] }); i >= 0 {
		list = list[:i]
	}
	return list, nil
}

func (t Trust) keys() (*Keys, error) {
	keys := &Keys{}
	for _, from := range []struct {
		file string
		add  func([]byte) error
	}{{t.SSH, keys.AddSSH}, {t.OpenPGP, keys.AddOpenPGP}} {
		if from.file == "" {
			continue
		}
		data, err := outbound.ReadLimited(from.file, outbound.MaxKeys)
		if err == nil {
			err = from.add(data)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot use the keys in %s: %w", from.file, err)
		}
	}
	return keys, nil
}
