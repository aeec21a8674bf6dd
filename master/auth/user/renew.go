package user

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/bucket"
)

// Renew signs a further JWT for the key of a caller's credential, for [credential.UserLife], or [credential.LoginLife]
// if it is one of zester login. The error is [ErrInvalid] if the request does not prove that it comes from the key of a
// credential of the caller that has not ended. It is [grants.ErrNotAllowed] if the person or the key was revoked, if
// the credential was issued for a shorter time, or if the caller has limits that are not known.
//
// The new end of the key is stored before the JWT is signed, in the record that a revocation changes. So a revocation
// either finds the key, or was stored before, and then nothing is signed. It is also stored in the register, for a
// revocation after the restore of an older bucket.
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
	if _, _, err := d.Store.Rules(ctx, from); err != nil {
		return nil, err
	}
	known, err := d.Find(ctx, had.Name)
	if err != nil {
		return nil, err
	}
	if known.Role != from.Role {
		return nil, fmt.Errorf("%w: the name %s belongs to somebody else, in the role %s", grants.ErrNotAllowed,
			known.Name, known.Role)
	}
	until, err := renewedEnd(known, had)
	if err != nil {
		return nil, err
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
	i := slices.IndexFunc(known.Keys, func(k credential.Key) bool { return k.Public == had.Public })
	entry := keystore.Entry{Role: from.Role, ID: had.Name, Keys: known.Keys[i : i+1]}
	_, err = keystore.Register(d.Keys.Dir(), entry, true)
	if errors.Is(err, keystore.ErrRevoked) {
		return nil, fmt.Errorf("%w: %w", grants.ErrNotAllowed, err)
	}
	if err != nil {
		return nil, err
	}
	token, err := d.Keys.Issue(from.Role, had.Name, had.Public, time.Until(until))
	return &credential.Renewed{Token: token}, err
}

// renewedEnd returns when a renewed credential of a person ends.
func renewedEnd(known *credential.User, had keystore.Signed) (until time.Time, err error) {
	now := time.Now().UTC()
	i := slices.IndexFunc(known.Keys, func(k credential.Key) bool { return k.Public == had.Public })
	switch {
	case i >= 0 && known.Keys[i].OfLogin():
		if until = now.Add(credential.LoginLife); until.After(known.Keys[i].Until) {
			until = known.Keys[i].Until
		}
		if !until.After(had.Expires) {
			return until, fmt.Errorf("%w: the login is over %s old, and is renewed no more: zester login logs in again",
				grants.ErrNotAllowed, credential.LoginTime-credential.LoginLife)
		}
		return until, nil
	case !credential.Renewable(had.Issued, had.Expires):
		return until, fmt.Errorf("%w: the credential was issued for %s, and only one for %s or longer can be renewed: "+
			"ask who issued it for another one", grants.ErrNotAllowed, had.Expires.Sub(had.Issued), credential.UserLife)
	}
	if until = now.Add(credential.UserLife); until.Before(had.Expires) {
		return until, fmt.Errorf("%w: the credential ends at %s, and a renewed one would end before", ErrInvalid,
			had.Expires.UTC().Format(time.RFC3339))
	}
	return until, nil
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
