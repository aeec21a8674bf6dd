package user

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

// maxRenewed bounds how long a credential is valid that its owner has renewed. Longer ones are made by another person.
const maxRenewed = 90 * 24 * time.Hour

// Renew signs a further JWT for the key of a caller's credential. It lasts as long as the former one, but at most 90
// days. The error is [ErrInvalid] if the request does not prove that it comes from the key of a credential of the
// caller that has not ended, and [grants.ErrNotAllowed] if the person or the key was revoked.
//
// The new end of the key is stored before the JWT is signed, in the record that a revocation changes. So a revocation
// either finds the key, or was stored before, and then nothing is signed.
func (d *Directory) Renew(ctx context.Context, from grants.Caller, q credential.Renewal) (*credential.Renewed, error) {
	if !from.Role.IsPerson() {
		return nil, fmt.Errorf("%w: only people renew their credentials", grants.ErrNotAllowed)
	}
	had, err := d.Keys.CheckRenewal(from.Role, q)
	if err == nil && had.Name != from.User {
		err = fmt.Errorf("it is a credential of %s", had.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the credential cannot be renewed: %w", ErrInvalid, err)
	}
	known, err := d.Find(ctx, had.Name)
	if err != nil {
		return nil, err
	}

	now := time.Now().UTC()
	life := min(had.Expires.Sub(had.Issued), maxRenewed)
	until := now.Add(life)
	if until.Before(had.Expires) {
		return nil, fmt.Errorf("%w: the credential ends at %s, and a renewed one would end before", ErrInvalid,
			had.Expires.UTC().Format(time.RFC3339))
	}
	extend := func(u *credential.User) error { return extendKey(u, had.Public, until) }
	if err := extend(known); err != nil {
		return nil, err
	}
	err = d.Store.all.Create(ctx, had.Name, *known)
	if errors.Is(err, bucket.ErrPresent) {
		_, err = d.Store.all.Change(ctx, had.Name, func(u *credential.User) error {
			u.Keys = credential.Merge(u.Keys, known.Keys)
			return extend(u)
		})
	}
	if err != nil {
		return nil, err
	}
	token, err := d.Keys.Issue(from.Role, had.Name, had.Public, life)
	return &credential.Renewed{Token: token}, err
}

// extendKey sets the end of a key of a user.
func extendKey(u *credential.User, public string, until time.Time) error {
	if !u.Revoked.IsZero() {
		return fmt.Errorf("%w: %s was revoked", grants.ErrNotAllowed, u.Name)
	}
	if _, ended := u.Ended[public]; ended {
		return fmt.Errorf("%w: the credential was revoked", grants.ErrNotAllowed)
	}
	i := slices.IndexFunc(u.Keys, func(k credential.Key) bool { return k.Public == public })
	if i < 0 {
		return fmt.Errorf("%w: no credential of %s has the key %s", ErrInvalid, u.Name, public)
	}
	u.Keys[i].Expires = until
	return nil
}
