package enroll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/bucket"
)

// ErrRevokedMaster: the credential that is to be renewed was revoked.
var ErrRevokedMaster = errors.New("the master was revoked")

// RenewMaster signs a further JWT for the key of a master, which lasts as long as the one in the request. The error is
// [ErrInvalid] if the request does not prove that it comes from the key of a credential that has not ended, and
// [ErrRevokedMaster].
//
// The key is recorded with its new end before the JWT is signed, in the record that a revocation changes. So a
// revocation either finds the key, or was stored before, and then nothing is signed.
func (h *Hosts) RenewMaster(ctx context.Context, q credential.Renewal) (*credential.Renewed, error) {
	had, err := h.checkRenewal(q)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	life, now := had.Expires.Sub(had.Issued), time.Now().UTC()
	key := credential.Key{Public: had.Public, Issued: now, Expires: now.Add(life)}
	if err := h.masters.Create(ctx, had.Name, credential.Site{Name: had.Name}); err != nil &&
		!errors.Is(err, bucket.ErrPresent) {
		return nil, err
	}
	_, err = h.masters.Change(ctx, had.Name, func(s *credential.Site) error {
		same := func(k credential.Key) bool { return k.Public == had.Public }
		if slices.ContainsFunc(s.Keys, same) || !had.Issued.After(s.Revoked) {
			return fmt.Errorf("%w: %s, by %s at %s", ErrRevokedMaster, had.Name, s.RevokedBy,
				s.Revoked.Format(time.RFC3339))
		}
		s.Renewed = append(slices.DeleteFunc(credential.Current(s.Renewed, now), same), key)
		return nil
	})
	if err != nil {
		return nil, err
	}
	token, err := h.o.Keys.Issue(grants.RoleMaster, had.Name, had.Public, life)
	return &credential.Renewed{Token: token}, err
}

// checkRenewal returns the credential that a request proves to come from.
func (h *Hosts) checkRenewal(q credential.Renewal) (had keystore.Signed, err error) {
	if had, err = h.o.Keys.Check(grants.RoleMaster, q.Token); err != nil {
		return had, err
	}
	key, err := nkeys.FromPublicKey(had.Public)
	if err != nil {
		return had, err
	}
	if err := key.Verify(credential.RenewalText(q.Token), q.Proof); err != nil {
		return had, errors.New("the proof was not signed with the key of the credential")
	}
	if had.Expires.IsZero() {
		return had, errors.New("the credential has no end")
	}
	return had, nil
}

// Renewed returns the keys of masters for which a further JWT was signed and which were not revoked, by the name of the
// master.
func (h *Hosts) Renewed(ctx context.Context) (map[string][]credential.Key, error) {
	all, err := h.masters.List(ctx)
	keys := map[string][]credential.Key{}
	for _, s := range all {
		keys[s.Name] = s.Renewed
	}
	return keys, err
}
