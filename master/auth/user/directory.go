package user

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// A Directory issues and revokes the credentials of people, on a master that has the keys.
type Directory struct {
	Store *Store
	Keys  *keystore.Keys
	// Push copies stored revocations to the key store and to the servers.
	Push     func(context.Context) error
	PushSoon func() // has that done when replies in flight have left
}

// Ended returns the keys of people that were revoked, by role.
func (d *Directory) Ended(ctx context.Context) (map[grants.Role]map[string]credential.End, error) {
	users, err := d.Stored(ctx)
	if err != nil {
		return nil, err
	}
	read, ends := d.Store.storedOnce(), map[grants.Role]map[string]credential.End{}
	for i := range users {
		u := &users[i]
		if ends[u.Role] == nil {
			ends[u.Role] = map[string]credential.End{}
		}
		if !u.Revoked.IsZero() {
			maps.Copy(ends[u.Role], credential.Ends(u.Keys, u.Revoked))
		}
		for _, k := range u.Keys {
			at, hasEnded, err := endedWithMaker(ctx, u, &k, read)
			if err != nil {
				return nil, err
			}
			if hasEnded {
				maps.Copy(ends[u.Role], credential.Ends([]credential.Key{k}, at))
			}
		}
		for public, e := range u.Ended {
			role := cmp.Or(e.Role, u.Role)
			if ends[role] == nil {
				ends[role] = map[string]credential.End{}
			}
			ends[role][public] = e
		}
	}
	return ends, nil
}

// endedWithMaker returns when a key of a person ended because whoever made the person, or asked for the key, was
// revoked with all that they made, if it has.
func endedWithMaker(
	ctx context.Context, u *credential.User, k *credential.Key, read reading,
) (at time.Time, hasEnded bool, err error) {
	if !u.Revoked.IsZero() {
		return at, false, nil
	}
	by, err := known(endedBy(ctx, u, read))
	if by == nil && err == nil && k.By != u.Name {
		by, err = known(endedMaker(ctx, k.By, read))
	}
	if by == nil || err != nil {
		return at, false, err
	}
	return notBefore(by.Revoked, k.Issued), true, nil
}

// Add signs a credential for a person, requested by another one, and returns its JWT. The error is [ErrExists] if the
// name has a credential and q.Again is not set, or if the user was revoked: the past actions under the name would seem
// to be of the new user.
func (d *Directory) Add(ctx context.Context, q credential.UserRequest,
	by string,
) (token string, u *credential.User, err error) {
	if err := q.Check(); err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	now := time.Now().UTC()
	key := credential.Key{Public: q.Public, Issued: now, By: by}
	if q.TTL > 0 {
		key.Expires = now.Add(q.TTL)
	}
	// The record is stored first: an unknown credential could not be revoked.
	r := credential.User{
		Name:      q.Name,
		Role:      q.Role,
		Limits:    q.Limits,
		Roles:     q.Roles,
		Groups:    slices.Sorted(slices.Values(q.Groups)),
		Secrets:   q.Secrets,
		Keys:      []credential.Key{key},
		Created:   now,
		CreatedBy: by,
	}
	if q.Again {
		r, err = d.Store.all.Change(ctx, q.Name, func(r *credential.User) error {
			if !r.Revoked.IsZero() {
				return fmt.Errorf("%w: %s was revoked", ErrExists, q.Name)
			}
			r.Keys = append(credential.Current(r.Keys, now), key)
			if len(r.Keys) > maxKeys {
				return fmt.Errorf("%w: %s has %d credentials that have not ended", ErrInvalid, q.Name, len(r.Keys)-1)
			}
			return nil
		})
	} else {
		err = d.create(ctx, r)
	}
	switch {
	case errors.Is(err, bucket.ErrAbsent):
		return "", nil, fmt.Errorf("%w: %s", ErrNotFound, q.Name)
	case errors.Is(err, bucket.ErrPresent), errors.Is(err, keystore.ErrIssued), errors.Is(err, keystore.ErrRevoked):
		return "", nil, fmt.Errorf("%w: %s", ErrExists, q.Name)
	case err != nil:
		return "", nil, err
	}
	if token, err = d.Keys.Issue(r.Role, q.Name, q.Public, q.TTL); err != nil {
		return "", nil, fmt.Errorf("%w; the record of %s is kept: zester auth user add %s --again makes the "+
			"credential once this is mended", err, q.Name, q.Name)
	}
	return token, &r, nil
}

// create stores a new person, first in the bucket, because [Directory.Publish] fills it from the register.
func (d *Directory) create(ctx context.Context, r credential.User) error {
	known, err := keystore.Registered(d.Keys.Dir(), r.Role, r.Name)
	if err != nil {
		return err
	}
	if known.ID != "" {
		return keystore.ErrIssued
	}
	if err := d.Store.all.Create(ctx, r.Name, r); err != nil {
		return err
	}
	_, err = keystore.Register(d.Keys.Dir(), keystore.Entry{Role: r.Role, ID: r.Name, Keys: r.Keys}, false)
	return err
}

const maxKeys = 16

// List returns all people by name, in the bucket or in the register of the key store, as [Store.MarkEnded] marks them.
func (d *Directory) List(ctx context.Context) ([]credential.User, error) {
	all, err := d.Stored(ctx)
	if err == nil {
		err = d.Store.MarkEnded(ctx, all, nil)
	}
	return all, err
}

// Stored is [Directory.List] as the records are, without marks.
func (d *Directory) Stored(ctx context.Context) ([]credential.User, error) {
	all, err := d.Store.List(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := keystore.Entries(d.Keys.Dir(), grants.RoleOperator)
	return withIssued(entries, all), err
}

// Revoke ends all credentials of a person for good: the bus cuts the connections that use them, and the name is never
// given again. Revoking again changes nothing. If the revocation is stored but was not pushed to the bus, it returns
// the user and an error.
func (d *Directory) Revoke(ctx context.Context, name, by string) (*credential.User, error) {
	return d.revoke(ctx, name, by, false)
}

// RevokeAll revokes a person as [Directory.Revoke] does, and has masters refuse what the person made, also what no list
// has yet. The caller ends the records of what the person made.
func (d *Directory) RevokeAll(ctx context.Context, name, by string) (*credential.User, error) {
	return d.revoke(ctx, name, by, true)
}

func (d *Directory) revoke(ctx context.Context, name, by string, all bool) (*credential.User, error) {
	u, err := d.StoreRevoked(ctx, name, by, all)
	if u == nil {
		return nil, err
	}
	if err = errors.Join(err, d.Push(ctx)); err != nil {
		return u, fmt.Errorf("%s is revoked, and dispatches nothing; its connections may last for some time: %w", name,
			err)
	}
	return u, nil
}

// StoreRevoked is [Directory.Revoke], or [Directory.RevokeAll] if all is set, without the push, which the caller makes.
func (d *Directory) StoreRevoked(ctx context.Context, name, by string, all bool) (*credential.User, error) {
	if err := grants.CheckName(grants.RoleOperator, name); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	u, err := d.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	if u.Revoked.IsZero() {
		u.Revoked = time.Now().UTC()
	}
	if u.RevokedBy == "" { // also if only the register has the revocation
		u.RevokedBy = by
	}
	u.EndsMade = u.EndsMade || all
	err = d.Store.all.Create(ctx, name, *u)
	if errors.Is(err, bucket.ErrPresent) {
		*u, err = d.Store.all.Change(ctx, name, func(r *credential.User) error {
			r.Revoked, r.RevokedBy, r.Keys = u.Revoked, u.RevokedBy, credential.Merge(r.Keys, u.Keys)
			r.EndsMade = r.EndsMade || all
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	return u, keystore.Close(d.Keys.Dir(), keystore.Entry{
		Role:     u.Role,
		ID:       u.Name,
		Keys:     u.Keys,
		Revoked:  u.Revoked,
		EndsMade: u.EndsMade,
	})
}

// Uphold revokes the people in the bucket whom the register names as revoked, and returns their names, also with an
// error. They are active in the bucket after an older copy of it was restored.
func (d *Directory) Uphold(ctx context.Context, by string) (names []string, failed error) {
	entries, err := keystore.Entries(d.Keys.Dir(), grants.RoleOperator)
	if err != nil {
		return nil, err
	}
	for _, known := range entries {
		if known.Revoked.IsZero() {
			continue
		}

		r, _, err := d.Store.all.Get(ctx, known.ID)
		if err == nil && !r.Revoked.IsZero() && (r.EndsMade || !known.EndsMade) {
			continue
		}

		if err == nil || errors.Is(err, bucket.ErrAbsent) {
			_, err = d.revoke(ctx, known.ID, by, known.EndsMade)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("cannot revoke the user %s again: %w", known.ID, err))
			continue
		}

		names = append(names, known.ID)
	}
	return names, failed
}

// Publish stores the people in the bucket whom only the register has, so that all masters know them, and no person of a
// provider gets their name. Limits are not in the register: who has some does nothing until they are known.
func (d *Directory) Publish(ctx context.Context) error {
	stored, err := d.Store.List(ctx)
	if err != nil {
		return err
	}
	entries, err := keystore.Entries(d.Keys.Dir(), grants.RoleOperator)
	if err != nil {
		return err
	}
	onBus := map[string]bool{}
	for i := range stored {
		onBus[stored[i].Name] = true
	}
	entries = slices.DeleteFunc(entries, func(e keystore.Entry) bool { return onBus[e.ID] })
	for _, u := range withIssued(entries, nil) {
		if err := d.Store.all.Create(ctx, u.Name, u); err != nil && !errors.Is(err, bucket.ErrPresent) {
			return err
		}
	}
	return nil
}

// StoreEnded ends the credentials of a person that another one asked for. The caller pushes that to the bus.
func (d *Directory) StoreEnded(ctx context.Context, name, by string) error {
	_, err := d.Store.all.Change(ctx, name, func(u *credential.User) error {
		endKeys(u, func(k *credential.Key) bool { return k.By == by })
		return nil
	})
	if errors.Is(err, bucket.ErrAbsent) {
		return fmt.Errorf("%w: %s", ErrNotFound, name)
	}
	return err
}

// endKeys ends keys of a user, and returns how many.
func endKeys(u *credential.User, ends func(*credential.Key) bool) int {
	now, had := time.Now().UTC(), len(u.Keys)
	maps.DeleteFunc(u.Ended, func(_ string, e credential.End) bool {
		return !e.Expires.IsZero() && now.After(e.Expires)
	})
	u.Keys = slices.DeleteFunc(u.Keys, func(k credential.Key) bool {
		if !ends(&k) {
			return false
		}
		if u.Ended == nil {
			u.Ended = map[string]credential.End{}
		}
		u.Ended[k.Public] = credential.End{At: now, Expires: k.Expires, Role: u.Role}
		return true
	})
	return had - len(u.Keys)
}

// Find returns a person, also one who was revoked; the error is [ErrNotFound] if there is none of that name.
func (d *Directory) Find(ctx context.Context, name string) (*credential.User, error) {
	var all []credential.User
	known, _, err := d.Store.all.Get(ctx, name) // a list may lag
	switch {
	case err == nil:
		all = append(all, known)
	case !errors.Is(err, bucket.ErrAbsent):
		return nil, err
	}
	entry, err := keystore.Registered(d.Keys.Dir(), grants.RoleOperator, name) // the same for all roles of people
	if err != nil {
		return nil, err
	}
	if entry.ID != "" {
		all = withIssued([]keystore.Entry{entry}, all)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, name)
	}
	return &all[0], nil
}

// withIssued adds users, keys and revocations that only the register has. Keys stay in the role in which the register
// has them: if the bucket has the name in another role, it is listed in both.
func withIssued(entries []keystore.Entry, users []credential.User) []credential.User {
	at := map[string]int{}
	for i := range users {
		at[users[i].Name] = i
	}
	for _, known := range entries {
		i, ok := at[known.ID]
		if !ok || users[i].Role != known.Role {
			if ok && !users[i].Revoked.IsZero() {
				known.Revoked = users[i].Revoked
			}
			u := credential.User{Name: known.ID, Role: known.Role, Keys: known.Keys, Revoked: known.Revoked}
			if len(known.Keys) > 0 {
				u.Created = known.Keys[0].Issued
			}
			users = append(users, u)
			continue
		}
		users[i].Keys = credential.Merge(users[i].Keys, known.Keys)
		if users[i].Revoked.IsZero() {
			users[i].Revoked = known.Revoked
		}
	}
	sorting.Stable(users, func(a, b credential.User) int { return strings.Compare(a.Name, b.Name) })
	return users
}
