// Package auth joins what a master with the keys does about credentials: people, hosts, the rotation of the keys, and
// pushing all of it to the servers. Call [NewAuthority], then [Authority.Run]; people are [Authority.Users], hosts
// [Authority.Hosts].
//
// Each piece of state has one owner below this package: keystore, grants, enroll, token, user and pki.
//
// Guarantees: a revocation is stored in a bucket, then beside the keys, then pushed to the servers, which cut the
// connections; Run repeats a push that failed. What the key store names as revoked stays so on a bus that was restored
// from an older copy. Copies of the keys that are behind a rotation change nothing.
package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/enroll"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/bucket"
)

// pushEvery is how often revocations are read and pushed, in case another master's push replaced a newer account.
const pushEvery = 30 * time.Second

// AuthorityOptions are the options of an Authority.
type AuthorityOptions struct {
	Keys      *keystore.Keys
	JetStream jetstream.JetStream // on the connection of a master
	// Update sends servers the JWT of an account, signed by the operator that they trust.
	Update func(ctx context.Context, account string) error
	CA     *pki.CA // signs the certificates by which hosts that join know the master; nil: another authority signs them
	BusCA  string  // see [enroll.Options]
	// Rotated is called when servers have other signing keys, to replace credentials on this host; nil: there are none.
	Rotated func() error
	Log     *slog.Logger
}

// An Authority issues and revokes credentials, on a master that has the keys. Several may work on one bus with copies
// of the same keys: what is revoked is read from the buckets, so none undoes what another has revoked.
type Authority struct {
	Users *user.Directory
	Hosts *enroll.Hosts

	o           AuthorityOptions
	generations bucket.Records[generation]
	wake        chan struct{} // Run is to push

	mu     sync.Mutex
	pushed map[grants.Role]bool // servers have the account of the role
	dirty  bool                 // servers may lack more than revocations
}

// NewAuthority opens the buckets, which have to exist.
func NewAuthority(ctx context.Context, o AuthorityOptions) (*Authority, error) {
	users, err := user.Open(ctx, o.JetStream)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &Authority{o: o, wake: make(chan struct{}, 1), pushed: map[grants.Role]bool{}, dirty: o.Keys.Dirty()}
	a.Users = &user.Directory{Store: users, Keys: o.Keys, Push: a.push, PushSoon: a.pushSoon}
	if a.Hosts, err = enroll.Open(ctx, o.JetStream, enroll.Options{
		Keys:     o.Keys,
		CA:       o.CA,
		BusCA:    o.BusCA,
		Push:     a.push,
		PushSoon: a.pushSoon,
		Log:      o.Log,

		CheckMaker: users.CheckMaker,
	}); err != nil {
		return nil, err
	}
	a.generations, err = bucket.OpenRecords[generation](ctx, o.JetStream, wire.BucketEnroll, generationKey,
		"the rotation of the keys")
	return a, err
}

// Run pushes revocations and keys to the servers until ctx ends, and then returns nil. It begins with
// [Authority.uphold].
func (a *Authority) Run(ctx context.Context) error {
	again := time.NewTicker(pushEvery)
	defer again.Stop()
	for upheld := false; ; {
		if !upheld {
			upheld = a.uphold(ctx)
		}
		if err := a.Users.Publish(ctx); err != nil && ctx.Err() == nil {
			a.o.Log.Warn("people of the key store not stored on the bus", "err", err)
		}
		if err := a.pushRotation(ctx); err != nil && ctx.Err() == nil {
			a.o.Log.Warn("revocations not pushed to the bus", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		case <-a.wake:
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(pushDelay):
			}
		}
	}
}

// keysOfMaster is who revokes a party that the key store names as revoked and the bus does not.
const keysOfMaster = "the keys of the master"

// uphold revokes again what the key store names as revoked and the bus has as active: an older copy of the bus was
// restored. It reports whether that is complete.
func (a *Authority) uphold(ctx context.Context) bool {
	users, err := a.Users.Uphold(ctx, keysOfMaster)
	hosts, other := a.Hosts.Uphold(ctx, keysOfMaster)
	for i := range users {
		users[i] = "user " + users[i]
	}
	if names := append(users, hosts...); len(names) > 0 {
		a.o.Log.Warn("the bus is older than the keys: revoked again what was revoked since", "revoked", names)
	}
	if err = errors.Join(err, other); err != nil && ctx.Err() == nil {
		a.o.Log.Warn("revocations of the key store not stored on the bus", "err", err)
	}
	return err == nil
}

// push copies stored revocations to the key store, and sends changed accounts to the servers.
func (a *Authority) push(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.send(ctx)
}

// pushRotation pushes. If the keys have changed it then replaces the credentials on this host, and records that servers
// have the keys. Until both succeed, the next call tries them again.
func (a *Authority) pushRotation(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	rotation := a.o.Keys.Rotation()
	if err := a.send(ctx); err != nil || !a.dirty {
		return err
	}
	if a.o.Rotated != nil {
		if err := a.o.Rotated(); err != nil {
			return fmt.Errorf("cannot replace the credentials on this host: %w", err)
		}
	}
	if err := a.o.Keys.Pushed(rotation); err != nil {
		return fmt.Errorf("cannot record that the bus has the keys: %w", err)
	}
	a.dirty = false
	return nil
}

// send is push. The caller holds the lock.
func (a *Authority) send(ctx context.Context) error {
	for changed := true; changed; {
		ends, err := a.ends(ctx)
		if err != nil {
			return err
		}
		// Checked before the first account is sent: the account of the masters may end the connection of this master.
		stale := a.current(ctx)
		changed = false
		for _, role := range grants.Roles() {
			account, more, err := a.o.Keys.Revoke(role, ends[role])
			if err != nil {
				return err
			}
			if changed = changed || more; !more && (a.pushed[role] || len(ends[role]) == 0 && !a.dirty) {
				continue
			}
			a.pushed[role] = false
			if stale != nil {
				return fmt.Errorf("cannot push keys and revocations to the bus: %w", stale)
			}
			if err := a.o.Update(ctx, account); err != nil {
				return fmt.Errorf("cannot push keys and revocations to the bus: %w", err)
			}
			a.pushed[role] = true
		}
	}
	return nil
}

// ends returns the keys that were revoked, by role.
func (a *Authority) ends(ctx context.Context) (map[grants.Role]map[string]credential.End, error) {
	ends, err := a.Users.Ended(ctx)
	if err != nil {
		return nil, err
	}
	if ends[grants.RolePeel], err = a.Hosts.Ended(ctx); err != nil {
		return nil, err
	}
	if ends[grants.RoleMaster], err = a.Hosts.EndedMasters(ctx); err != nil {
		return nil, err
	}
	return ends, nil
}
