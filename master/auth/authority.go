package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
)

// syncEvery is how often a server is brought to what is revoked, in case another's word has overtaken it.
const syncEvery = 30 * time.Second

// AuthorityOptions are what an Authority works with.
type AuthorityOptions struct {
	Keys      *Keys
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
	peels records[Enrolled]
	joins records[joinRecord]
	sites records[Site] // that were revoked
	fleet *summary      // of peels

	generations records[generation]

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
	if a.peels, err = openRecords[Enrolled](ctx, o.JetStream, enrollBucket, peelPrefix, "the peel"); err != nil {
		return nil, err
	}
	if a.sites, err = openRecords[Site](ctx, o.JetStream, enrollBucket, sitePrefix, "the site"); err != nil {
		return nil, err
	}
	if a.generations, err = openRecords[generation](ctx, o.JetStream, enrollBucket, generationKey, "the rotation of the keys"); err != nil {
		return nil, err
	}
	a.joins, err = openRecords[joinRecord](ctx, o.JetStream, enrollBucket, joinPrefix, "the join token")
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
func (a *Authority) ends(ctx context.Context) (map[grants.Role]map[string]End, error) {
	users, err := a.Users(ctx)
	if err != nil {
		return nil, err
	}
	ends := map[grants.Role]map[string]End{}
	for _, role := range grants.Roles() {
		ends[role] = map[string]End{}
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

func endsOf(keys []UserKey, at time.Time) map[string]End {
	ends := map[string]End{}
	for _, k := range keys {
		ends[k.Public] = End{At: at, Expires: k.Expires}
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
	key := UserKey{Public: q.Public, Issued: now, By: by}
	if q.TTL > 0 {
		key.Expires = now.Add(q.TTL)
	}
	// The record comes first: a credential of which nobody knows could not be revoked.
	r := User{Name: q.Name, Role: q.Role, Limits: q.Limits, Secrets: q.Secrets, Keys: []UserKey{key}, Created: now, CreatedBy: by}
	if q.Again {
		r, err = a.users.all.change(ctx, q.Name, func(r *User) error {
			if !r.Revoked.IsZero() {
				return fmt.Errorf("%w: %s was revoked", ErrUserExists, q.Name)
			}
			r.Keys = append(current(r.Keys, now), key)
			if len(r.Keys) > maxUserKeys {
				return fmt.Errorf("%w: %s has %d credentials that have not ended", ErrUserInvalid, q.Name, len(r.Keys)-1)
			}
			return nil
		})
	} else if _, err = Register(a.o.Keys.dir, Issue{Role: r.Role, ID: q.Name, Keys: r.Keys}, false); err == nil {
		err = a.users.all.create(ctx, q.Name, r)
	}
	switch {
	case errors.Is(err, errAbsent):
		return "", nil, fmt.Errorf("%w: %s", ErrNoUser, q.Name)
	case errors.Is(err, errPresent), errors.Is(err, ErrIssued), errors.Is(err, ErrRevoked):
		return "", nil, fmt.Errorf("%w: %s", ErrUserExists, q.Name)
	case err != nil:
		return "", nil, err
	}
	token, err = a.o.Keys.Issue(r.Role, q.Name, q.Public, q.TTL)
	return token, &r, err
}

const maxUserKeys = 16

// current are the keys whose credentials have not ended.
func current(keys []UserKey, now time.Time) (left []UserKey) {
	for _, k := range keys {
		if k.Expires.IsZero() || k.Expires.After(now) {
			left = append(left, k)
		}
	}
	return left
}

// Users returns all people by name: those of the bucket, and those whose credentials were made beside the keys.
func (a *Authority) Users(ctx context.Context) ([]User, error) {
	all, err := a.users.List(ctx)
	if err != nil {
		return nil, err
	}
	return withIssued(a.o.Keys.dir, all)
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
	err = a.users.all.create(ctx, name, *u)
	if errors.Is(err, errPresent) {
		*u, err = a.users.all.change(ctx, name, func(r *User) error {
			r.Revoked, r.RevokedBy, r.Keys = u.Revoked, u.RevokedBy, united(r.Keys, u.Keys)
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(closeIssue(a.o.Keys.dir, u), a.sync(ctx)); err != nil {
		return u, fmt.Errorf("%s is revoked, and dispatches nothing; its connections may last for some time: %w", name, err)
	}
	return u, nil
}

// RevokeKeys ends the credentials of a person that were requested by another one.
func (a *Authority) RevokeKeys(ctx context.Context, name, by string) error {
	_, err := a.users.all.change(ctx, name, func(u *User) error {
		now := time.Now().UTC()
		u.Keys = slices.DeleteFunc(u.Keys, func(k UserKey) bool {
			if k.By != by {
				return false
			}
			if u.Ended == nil {
				u.Ended = map[string]End{}
			}
			u.Ended[k.Public] = End{At: now, Expires: k.Expires}
			return true
		})
		return nil
	})
	if errors.Is(err, errAbsent) {
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
