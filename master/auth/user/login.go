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

// Login signs a credential of [credential.LoginLife] for a person whom a provider has logged in, and who has proved to
// have the key. If the provider gives the person another role than before, the credentials in the former role end
// first. The error is [grants.ErrNotAllowed] if the person was revoked, or the name belongs to another person.
//
// As for all credentials, the key is stored before the JWT is signed, in the record that a revocation changes.
func (d *Directory) Login(ctx context.Context, p Known, public, sid string) (token string, err error) {
	if err := d.Store.Bind(ctx, p); err != nil {
		return "", err
	}
	now := time.Now().UTC()
	key := credential.Key{
		Public: public, Issued: now, Expires: now.Add(credential.LoginLife), Until: now.Add(credential.LoginTime),
		SID: sid,
	}
	var ended int
	_, err = d.Store.all.Change(ctx, p.Name, func(r *credential.User) error {
		isKey := func(k credential.Key) bool { return k.Public == public }
		if _, was := r.Ended[public]; was || slices.ContainsFunc(r.Keys, isKey) {
			return fmt.Errorf("%w: the key was used for another login", ErrInvalid)
		}
		ended = endKeys(r, func(*credential.Key) bool { return r.Role != p.Role })
		r.Role, r.Keys = p.Role, append(credential.Current(r.Keys, now), key)
		if len(r.Keys) > maxKeys {
			oldest := r.Keys[slices.IndexFunc(r.Keys, func(k credential.Key) bool { return k.OfLogin() })].Public
			ended += endKeys(r, func(k *credential.Key) bool { return k.Public == oldest })
		}
		return p.check(r)
	})
	if err != nil {
		return "", err
	}

	if ended > 0 {
		if err := d.Push(ctx); err != nil {
			return "", fmt.Errorf("earlier credentials of %s have not ended: %w", p.Name, err)
		}
	}
	_, err = keystore.Register(d.Keys.Dir(), keystore.Entry{
		Role: p.Role, ID: p.Name, Keys: []credential.Key{key},
	}, true)
	if errors.Is(err, keystore.ErrRevoked) || errors.Is(err, keystore.ErrIssued) {
		return "", fmt.Errorf("%w: %w", grants.ErrNotAllowed, err)
	}
	if err != nil {
		return "", err
	}
	return d.Keys.Issue(p.Role, p.Name, public, credential.LoginLife)
}

// Logout ends the credential of a login of a person, and reports whether there was one. The bus cuts its connection
// when the reply has left.
func (d *Directory) Logout(ctx context.Context, name, public string) (ended bool, err error) {
	_, err = d.Store.all.Change(ctx, name, func(u *credential.User) error {
		ended = endKeys(u, func(k *credential.Key) bool { return k.OfLogin() && k.Public == public }) > 0
		return nil
	})
	if errors.Is(err, bucket.ErrAbsent) {
		return false, nil
	}
	if err == nil {
		d.PushSoon()
	}
	return ended, err
}
