// Package user has the people of the bus. Call [Open]; [Store.Allow] decides about a dispatch. A master that has the
// keys issues and revokes credentials with a [Directory].
//
// Two places know people: the bucket users, and the register beside the keys, for credentials made while no bus ran.
// [Directory.List] merges them; a revocation is stored in both, so the name is never given again.
//
// Guarantees: a record is stored before the credential is signed; a person with limits that cannot be read is refused;
// a change holds on every master within half a second, and [Store.CheckNotRevoked] sees every revocation that was
// stored before.
//
// Known gap: a master without the keys does not know people whose credentials were made beside the keys, until they are
// revoked.
package user

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Errors about users.
var (
	ErrNotFound = errors.New("no such user")
	ErrExists   = errors.New("there is such a user")
	ErrInvalid  = errors.New("the user cannot be made")
)

// A Store has the people of a bus, in the bucket users. Methods may be called from several goroutines.
type Store struct {
	all *bucket.CachedRecords[credential.User]
}

// Open opens the bucket, which has to exist.
func Open(ctx context.Context, js jetstream.JetStream) (*Store, error) {
	all, err := bucket.OpenRecords[credential.User](ctx, js, wire.BucketUsers, "", "the user")
	return &Store{bucket.NewCachedRecords(all)}, err
}

// List returns all users by name, those that were revoked included.
func (u *Store) List(ctx context.Context) ([]credential.User, error) {
	all, err := u.all.List(ctx)
	sorting.Func(all, func(a, b credential.User) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// Unreadable returns the keys of users whose records cannot be decoded. They can do nothing that needs a master.
func (u *Store) Unreadable(ctx context.Context) ([]string, error) { return u.all.Unreadable(ctx) }

// Allow returns [grants.ErrNotAllowed] with the reason if a caller may not dispatch a function to targets, which are
// sorted. selects evaluates the target of a limit. A caller with unknown limits is refused, so the loss of the bucket
// gives nobody more permissions.
func (u *Store) Allow(ctx context.Context, a grants.Caller, function string, targets []target.PeelID,
	selects grants.Selector,
) error {
	limits, err := u.Limits(ctx, a)
	if err != nil {
		return err
	}
	return limits.Evaluate(ctx, a.User, function, targets, selects)
}

// Limits returns the limits of a caller. The error is [grants.ErrNotAllowed] if they are not known, or if the caller
// was revoked.
func (u *Store) Limits(ctx context.Context, a grants.Caller) (grants.Limits, error) {
	user, err := u.all.Recent(ctx, a.User)
	switch {
	case errors.Is(err, bucket.ErrAbsent):
		if a.Role == grants.RoleLimited {
			return grants.Limits{}, fmt.Errorf("%w: the limits of %s are not known here", grants.ErrNotAllowed, a.User)
		}
		return grants.Limits{}, nil
	case err != nil:
		return grants.Limits{}, err
	case !user.Revoked.IsZero():
		return grants.Limits{}, fmt.Errorf("%w: %s was revoked", grants.ErrNotAllowed, a.User)
	}
	return user.Limits, nil
}

// CheckNotRevoked returns [grants.ErrNotAllowed] if a person was revoked. It reads the bucket, so it sees every
// revocation that was stored before.
func (u *Store) CheckNotRevoked(ctx context.Context, name string) error {
	user, _, err := u.all.Get(ctx, name)
	switch {
	case errors.Is(err, bucket.ErrAbsent):
		return nil // the credential was made beside the keys
	case err != nil:
		return err
	case !user.Revoked.IsZero():
		return fmt.Errorf("%w: %s was revoked", grants.ErrNotAllowed, name)
	}
	return nil
}

// Bind stores, at the first login of a person at a provider, who has the name. The error is [grants.ErrNotAllowed] if
// somebody else has it, also a person with a credential whom the provider has not named, or if the person was revoked:
// the provider must not decide whose past actions a name has.
func (u *Store) Bind(ctx context.Context, name string, role grants.Role, at credential.Login) error {
	if err := grants.CheckName(role, name); err != nil || name == credential.LocalUser {
		return fmt.Errorf("%w: the provider gives the name %.70q, which nobody can have", grants.ErrNotAllowed, name)
	}
	known, _, err := u.all.Get(ctx, name)
	if errors.Is(err, bucket.ErrAbsent) {
		made := credential.User{
			Name: name, Role: role, Login: &at, Created: time.Now().UTC(), CreatedBy: at.Issuer,
		}
		if err = u.all.Create(ctx, name, made); err == nil {
			return nil
		}
		if errors.Is(err, bucket.ErrPresent) { // another login was faster
			known, _, err = u.all.Get(ctx, name)
		}
	}
	switch {
	case err != nil:
		return err
	case !known.Revoked.IsZero():
		return fmt.Errorf("%w: %s was revoked", grants.ErrNotAllowed, name)
	case known.Login == nil || *known.Login != at:
		return fmt.Errorf("%w: the name %s belongs to somebody else", grants.ErrNotAllowed, name)
	case known.Role == role || len(credential.Current(known.Keys, time.Now())) > 0:
		return nil
	}
	_, err = u.all.Change(ctx, name, func(r *credential.User) error { r.Role = role; return nil })
	return err
}

// AllowSecrets returns [grants.ErrNotAllowed] if a caller was not given the permission to see secrets. It is given with
// [credential.UserRequest] alone, so a user without a record does not have it.
func (u *Store) AllowSecrets(ctx context.Context, a grants.Caller) error {
	user, err := u.all.Recent(ctx, a.User)
	switch {
	case err != nil && !errors.Is(err, bucket.ErrAbsent):
		return err
	case err != nil || !user.Secrets:
		return fmt.Errorf("%w: %s has no permission to see secrets", grants.ErrNotAllowed, a.User)
	}
	return nil
}
