// Package auth issues and revokes credentials on a master that has the keys ([Authority]), and has the people of the bus
// ([Users]) and its enrolled peels.
//
// What an [Authority] revokes is first stored in a bucket, then beside the keys, then sent to the servers, which cut the
// connections.
package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
	"github.com/seed-c01c3da5/zester/master/auth/records"
)

// syncEvery is how often a server is brought to what is revoked, in case another's word has overtaken it.
const syncEvery = 30 * time.Second

// AuthorityOptions are what an Authority works with.
type AuthorityOptions struct {
	Keys      *keystore.Keys
	JetStream jetstream.JetStream // on the connection of a master
	// Update gives servers the JWT of an account, signed by the operator that they trust.
	Update func(ctx context.Context, account string) error
	CA     *pki.CA // that signs the certificate by which hosts that join know the master; nil: it is none of ours
	// Rotated is called when servers know other signing keys, to issue anew what is beside the keys; nil: nothing is.
	Rotated func() error
	Log     *slog.Logger
}

// An Authority issues and revokes credentials, on a master that has the keys. Several may work on one bus with copies of
// the same keys. Who was revoked is in the buckets; from there each authority brings it to its keys and to the servers,
// so none takes back by an older word what another has revoked.
type Authority struct {
	o     AuthorityOptions
	users *Users
	peels records.Bucket[Enrolled]
	joins records.Bucket[joinRecord]
	sites records.Bucket[Site] // that were revoked
	fleet *summary             // of peels

	generations records.Bucket[generation]

	strangers *rate.Limiter
	wake      chan struct{} // Run is to sync

	mu   sync.Mutex
	told map[grants.Role]bool // whether servers have heard all that the keys know
	news bool                 // whether that is more than who was revoked
}

// NewAuthority opens the buckets, which have to exist.
func NewAuthority(ctx context.Context, o AuthorityOptions) (*Authority, error) {
	users, err := OpenUsers(ctx, o.JetStream)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &Authority{o: o, fleet: newSummary(o.JetStream), wake: make(chan struct{}, 1), users: users, told: map[grants.Role]bool{}, news: o.Keys.Untold(), strangers: rate.NewLimiter(rate.Every(strangerEvery), strangersAtOnce)}
	if a.peels, err = records.Open[Enrolled](ctx, o.JetStream, enrollBucket, peelPrefix, "the peel"); err != nil {
		return nil, err
	}
	if a.sites, err = records.Open[Site](ctx, o.JetStream, enrollBucket, sitePrefix, "the site"); err != nil {
		return nil, err
	}
	if a.generations, err = records.Open[generation](ctx, o.JetStream, enrollBucket, generationKey, "the rotation of the keys"); err != nil {
		return nil, err
	}
	a.joins, err = records.Open[joinRecord](ctx, o.JetStream, enrollBucket, joinPrefix, "the join token")
	return a, err
}

// Run keeps servers at what is revoked until ctx ends, and then returns nil.
func (a *Authority) Run(ctx context.Context) error {
	again := time.NewTicker(syncEvery)
	defer again.Stop()
	for {
		if err := a.sync(ctx); err != nil && ctx.Err() == nil {
			a.o.Log.Warn("revocations not brought to the bus", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		case <-a.wake:
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(answerFirst):
			}
		}
	}
}

// sync brings to the keys, and from them to the servers, who was revoked.
func (a *Authority) sync(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	rotation := a.o.Keys.Rotation()
	for news := true; news; {
		ends, err := a.ends(ctx)
		if err != nil {
			return err
		}
		// Not between two accounts: to be told of the masters' may cost this master its connection.
		stale := a.current(ctx)
		news = false
		for _, role := range grants.Roles() {
			account, changed, err := a.o.Keys.Revoke(role, ends[role])
			if err != nil {
				return err
			}
			if news = news || changed; !changed && (a.told[role] || len(ends[role]) == 0 && !a.news) {
				continue
			}
			a.told[role] = false
			if stale != nil {
				return fmt.Errorf("cannot tell the bus of keys and revocations: %w", stale)
			}
			if err := a.o.Update(ctx, account); err != nil {
				return fmt.Errorf("cannot tell the bus of keys and revocations: %w", err)
			}
			a.told[role] = true
		}
	}
	if !a.news {
		return nil
	}
	if err := a.o.Keys.Told(rotation); err != nil {
		return fmt.Errorf("cannot note that the bus was told of the keys: %w", err)
	}
	a.news = false
	if a.o.Rotated == nil {
		return nil
	}
	return a.o.Rotated()
}

// ends are the keys that were revoked, by role.
func (a *Authority) ends(ctx context.Context) (map[grants.Role]map[string]keystore.End, error) {
	users, err := a.Users(ctx)
	if err != nil {
		return nil, err
	}
	ends := map[grants.Role]map[string]keystore.End{}
	for _, role := range grants.Roles() {
		ends[role] = map[string]keystore.End{}
	}
	for _, u := range users {
		if !u.Revoked.IsZero() {
			maps.Copy(ends[u.Role], endsOf(u.Keys, u.Revoked))
		}
		maps.Copy(ends[u.Role], u.Ended)
	}
	if ends[grants.RolePeel], _, err = a.fleet.read(ctx); err != nil {
		return nil, err
	}
	sites, err := a.revokedSites(ctx)
	maps.Copy(ends[grants.RoleSite.Account()], sites)
	return ends, err
}

func endsOf(keys []keystore.Key, at time.Time) map[string]keystore.End {
	ends := map[string]keystore.End{}
	for _, k := range keys {
		ends[k.Public] = keystore.End{At: at, Expires: k.Expires}
	}
	return ends
}

// AddUser signs a credential for a person, for which by answers, and returns its JWT. The error is [ErrUserExists] if the
// name has one and that is not meant, or if the user was revoked: what was done in that name would be taken for his.
func (a *Authority) AddUser(ctx context.Context, q UserRequest, by string) (token string, u *User, err error) {
	if err := q.check(); err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrUserInvalid, err)
	}
	now := time.Now().UTC()
	key := keystore.Key{Public: q.Public, Issued: now, By: by}
	if q.TTL > 0 {
		key.Expires = now.Add(q.TTL)
	}
	// The record comes first: a credential of which nobody knows could not be revoked.
	r := User{Name: q.Name, Role: q.Role, Limits: q.Limits, Secrets: q.Secrets, Keys: []keystore.Key{key}, Created: now, CreatedBy: by}
	if q.Again {
		r, err = a.users.all.Change(ctx, q.Name, func(r *User) error {
			if !r.Revoked.IsZero() {
				return fmt.Errorf("%w: %s was revoked", ErrUserExists, q.Name)
			}
			r.Keys = append(keystore.Current(r.Keys, now), key)
			if len(r.Keys) > maxKeys {
				return fmt.Errorf("%w: %s has %d credentials that have not ended", ErrUserInvalid, q.Name, len(r.Keys)-1)
			}
			return nil
		})
	} else if _, err = keystore.Register(a.o.Keys.Dir(), keystore.Entry{Role: r.Role, ID: q.Name, Keys: r.Keys}, false); err == nil {
		err = a.users.all.Create(ctx, q.Name, r)
	}
	switch {
	case errors.Is(err, records.ErrAbsent):
		return "", nil, fmt.Errorf("%w: %s", ErrNoUser, q.Name)
	case errors.Is(err, records.ErrPresent), errors.Is(err, keystore.ErrIssued), errors.Is(err, keystore.ErrRevoked):
		return "", nil, fmt.Errorf("%w: %s", ErrUserExists, q.Name)
	case err != nil:
		return "", nil, err
	}
	token, err = a.o.Keys.Issue(r.Role, q.Name, q.Public, q.TTL)
	return token, &r, err
}

const maxKeys = 16

// Users returns all people by name: those of the bucket, and those whose credentials were made beside the keys.
func (a *Authority) Users(ctx context.Context) ([]User, error) {
	all, err := a.users.List(ctx)
	if err != nil {
		return nil, err
	}
	return withIssued(a.o.Keys.Dir(), all)
}

// RevokeUser ends all credentials of a person for good: the bus cuts the connections that use them, and the name is never
// given again. Revoking again changes nothing. If the user is revoked but the bus may not know, the user is returned with an
// error.
func (a *Authority) RevokeUser(ctx context.Context, name, by string) (*User, error) {
	if err := grants.CheckName(grants.RoleOperator, name); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoUser, err)
	}
	u, err := a.find(ctx, name)
	if err != nil {
		return nil, err
	}
	if u.Revoked.IsZero() {
		u.Revoked, u.RevokedBy = time.Now().UTC(), by
	}
	err = a.users.all.Create(ctx, name, *u)
	if errors.Is(err, records.ErrPresent) {
		*u, err = a.users.all.Change(ctx, name, func(r *User) error {
			r.Revoked, r.RevokedBy, r.Keys = u.Revoked, u.RevokedBy, keystore.Merge(r.Keys, u.Keys)
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(keystore.Close(a.o.Keys.Dir(), keystore.Entry{Role: u.Role, ID: u.Name, Keys: u.Keys, Revoked: u.Revoked}), a.sync(ctx)); err != nil {
		return u, fmt.Errorf("%s is revoked, and dispatches nothing; its connections may last for some time: %w", name, err)
	}
	return u, nil
}

// RevokeKeys ends the credentials of a person that were requested by another one.
func (a *Authority) RevokeKeys(ctx context.Context, name, by string) error {
	_, err := a.users.all.Change(ctx, name, func(u *User) error {
		now := time.Now().UTC()
		u.Keys = slices.DeleteFunc(u.Keys, func(k keystore.Key) bool {
			if k.By != by {
				return false
			}
			if u.Ended == nil {
				u.Ended = map[string]keystore.End{}
			}
			u.Ended[k.Public] = keystore.End{At: now, Expires: k.Expires}
			return true
		})
		return nil
	})
	if errors.Is(err, records.ErrAbsent) {
		return fmt.Errorf("%w: %s", ErrNoUser, name)
	}
	if err != nil {
		return err
	}
	return a.sync(ctx)
}

func (a *Authority) find(ctx context.Context, name string) (*User, error) {
	all, err := a.Users(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrNoUser, name)
}

// withIssued adds to users those that are in the register alone, and the keys that are there alone.
func withIssued(dir string, users []User) ([]User, error) {
	entries, err := keystore.Entries(dir, grants.RoleOperator)
	for _, known := range entries {
		i := slices.IndexFunc(users, func(u User) bool { return u.Name == known.ID })
		if i < 0 {
			u := User{Name: known.ID, Role: known.Role, Keys: known.Keys}
			if len(known.Keys) > 0 {
				u.Created = known.Keys[0].Issued
			}
			users = append(users, u)
			continue
		}
		users[i].Keys = keystore.Merge(users[i].Keys, known.Keys)
	}
	slices.SortFunc(users, func(a, b User) int { return strings.Compare(a.Name, b.Name) })
	return users, err
}
