package gitrepo

import (
	"fmt"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/seed-c01c3da5/zester/reconciler/access"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/signature"
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

// Verify checks that a commit of the store is signed by a trusted key, and
// returns the signer. Earlier commits are not checked: the signer of the head
// vouches for them. An invalid signature has the Reason Untrusted.
func (r *Repo) Verify(h Hash, now time.Time) (signature.Signer, error) {
	keys, err := r.trust.keys()
	if err != nil {
		return signature.Signer{}, errorf(KeysUnreadable, revision(h), "%v", err)
	}
	c, err := r.CommitInfo(h)
	if err == nil && c.size > maxCommit {
		err = errorf(TooLarge, revision(h), "a commit of %d bytes, the limit is %d", c.size, maxCommit)
	}
	if err != nil {
		return signature.Signer{}, err
	}
	st, err := r.open()
	if err != nil {
		return signature.Signer{}, err
	}
	raw, _, err := st.Read(plumbing.CommitObject, h, maxCommit)
	if err != nil {
		return signature.Signer{}, st.Failure(revision(h), err)
	}
	signer, err := keys.Verify(raw, now)
	if err != nil {
		return signature.Signer{}, errorf(Untrusted, revision(h), "%v", err)
	}
	return signer, nil
}

func (t Trust) keys() (*signature.Keys, error) {
	keys := &signature.Keys{}
	for _, from := range []struct {
		file string
		add  func([]byte) error
	}{{t.SSH, keys.AddSSH}, {t.OpenPGP, keys.AddOpenPGP}} {
		if from.file == "" {
			continue
		}
		data, err := access.ReadLimited(from.file, access.MaxKeys)
		if err == nil {
			err = from.add(data)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot use the keys in %s: %w", from.file, err)
		}
	}
	return keys, nil
}
