package enroll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
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
	had, err := h.o.Keys.CheckRenewal(grants.RoleMaster, q)
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
