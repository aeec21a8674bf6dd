package auth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/enroll"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
	"github.com/seed-c01c3da5/zester/master/bucket"
)

// Why signing keys are not retired, or not used.
var (
	ErrBehind = errors.New("credentials of the former signing keys are in use")
	ErrStale  = errors.New(
		"the keys of this master are older than the last rotation: copy them from the master that rotated them",
	)
)

// generationKey is where the bucket says how often the signing keys were rotated.
const generationKey = "rotation"

type generation struct {
	N int `json:"n"`
}

// RotateKeys makes new signing keys, which Run pushes to the servers. Credentials of the former keys stay valid. Copies
// of the keys on other masters have to be replaced.
func (a *Authority) RotateKeys(ctx context.Context) (*credential.Rotation, error) {
	if err := a.current(ctx); err != nil {
		return nil, err
	}
	err := a.o.Keys.Rotate()
	if errors.Is(err, keystore.ErrFormer) {
		return nil, err
	}
	a.markDirty() // also after an error: some keys may be new
	r := a.o.Keys.Rotation()
	if err := errors.Join(err, a.generations.Put(ctx, generation{r.Generation})); err != nil {
		return nil, err
	}
	return &r, nil
}

// RetireKeys ends all credentials of the former keys. Unless force is set, it returns [ErrBehind], with names, if
// credentials in use were not issued again.
func (a *Authority) RetireKeys(ctx context.Context, force bool) (*credential.Rotation, error) {
	if err := a.current(ctx); err != nil {
		return nil, err
	}
	r := a.o.Keys.Rotation()
	if len(r.Former) == 0 {
		return nil, keystore.ErrNoFormer
	}
	if !force {
		behind, err := a.behind(ctx, r.At)
		if err != nil {
			return nil, err
		}
		if len(behind) > 0 {
			return nil, fmt.Errorf("%w: %d, of %s", ErrBehind, len(behind),
				strings.Join(behind[:min(len(behind), 10)], ", "))
		}
	}
	if err := a.o.Keys.Retire(); err != nil {
		return nil, err
	}
	r = a.o.Keys.Rotation()
	a.markDirty()
	return &r, nil
}

// RotateCA replaces the authority of the masters' certificates, see [pki.CA.Rotate], and returns the new pin.
func (a *Authority) RotateCA() (pin string, err error) { return a.changeCA((*pki.CA).Rotate) }

// RetireCA ends the former authority, see [pki.CA.Retire].
func (a *Authority) RetireCA() (pin string, err error) { return a.changeCA((*pki.CA).Retire) }

func (a *Authority) changeCA(change func(*pki.CA) error) (pin string, err error) {
	if a.o.CA == nil {
		return "", fmt.Errorf("%w: the certificates of this master's REST are none of its own", keystore.ErrNoFormer)
	}
	if err := change(a.o.CA); err != nil {
		return "", err
	}
	return a.o.CA.Pin(), nil
}

// current returns [ErrStale] if another master has rotated the keys since they were copied. If these keys were rotated
// and that was not stored, it stores it.
func (a *Authority) current(ctx context.Context) error {
	g, _, err := a.generations.Get(ctx, "")
	if err != nil && !errors.Is(err, bucket.ErrAbsent) {
		return err
	}
	switch own := a.o.Keys.Rotation().Generation; {
	case g.N > own:
		return ErrStale
	case g.N < own:
		return a.generations.Put(ctx, generation{own})
	}
	return nil
}

// pushDelay leaves time for replies in flight: a server that gets a new account drops their reply subjects.
const pushDelay = 500 * time.Millisecond

// markDirty makes Run send all accounts to the servers.
func (a *Authority) markDirty() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.pushed)
	a.dirty = true
	a.pushSoon()
}

// pushSoon has Run push after pushDelay.
func (a *Authority) pushSoon() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// behind returns the names whose last credential was issued before a time and has not ended.
func (a *Authority) behind(ctx context.Context, at time.Time) (names []string, err error) {
	peels, err := a.Hosts.List(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	now := time.Now()
	for _, e := range peels {
		known[string(e.ID)] = true
		if e.State == credential.Accepted && e.Expires.After(now) && e.Expires.Add(-enroll.PeelLife).Before(at) {
			names = append(names, "peel "+string(e.ID))
		}
	}
	users, err := a.Users.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, u := range users {
		if u.Revoked.IsZero() && old(u.Keys, at) {
			names = append(names, string(u.Role)+" "+u.Name)
		}
	}
	ended, err := a.Hosts.EndedSites(ctx)
	if err != nil {
		return nil, err
	}
	masters, err := a.Hosts.EndedMasters(ctx)
	if err != nil {
		return nil, err
	}
	maps.Copy(ended, masters)
	for _, r := range []grants.Role{grants.RolePeel, grants.RoleMaster, grants.RoleSite} {
		entries, err := keystore.Entries(a.o.Keys.Dir(), r)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			entry.Keys = slices.DeleteFunc(entry.Keys, func(k credential.Key) bool {
				_, revoked := ended[k.Public]
				return revoked
			})
			if old(entry.Keys, at) && (r != grants.RolePeel || !known[entry.ID]) {
				names = append(names, string(r)+" "+entry.ID)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// old reports whether there are keys whose credentials have not ended, all issued before a time.
func old(keys []credential.Key, at time.Time) bool {
	keys = credential.Current(keys, time.Now())
	return len(keys) > 0 && !slices.ContainsFunc(keys, func(k credential.Key) bool { return !k.Issued.Before(at) })
}
