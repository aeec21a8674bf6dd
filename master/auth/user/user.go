// Package user has the people of the bus. Call [Open]; [Store.Allow] decides about a dispatch. A master that has the keys
// issues and revokes credentials with a [Directory].
//
// Two places know people: the bucket users, and the register beside the keys, for credentials made while no bus ran.
// [Directory.List] merges them; a revocation is stored in both, so the name is never given again.
//
// Guarantees: a record is stored before the credential is signed; a person with limits that cannot be read is refused; a
// change holds on every master within half a second, and [Store.CheckNotRevoked] sees every revocation that was stored before.
//
// Known gap: a master without the keys does not know people whose credentials were made beside the keys, until they are revoked.
package user

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/records"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// What is wrong with a user.
var (
	ErrNotFound = errors.New("no such user")
	ErrExists   = errors.New("there is such a user")
	ErrInvalid  = errors.New("the user cannot be made")
)

// maxUserTTL bounds how long a credential of a person is valid.
const maxTTL = 10 * 366 * 24 * time.Hour

const usersBucket = "users"

// LocalUser is the operator whose credential a master gives to whoever may read its data directory.
const LocalUser = "local"

// A User is a person with a credential of the bus.
type User struct {
	Name    string         `json:"name"`
	Role    grants.Role    `json:"role"` // RoleOperator, RoleDirect, RoleLimited or RoleAuditor
	Limits  grants.Limits  `json:"limits,omitzero"`
	Secrets bool           `json:"secrets,omitempty"` // may have peels show secrets of their settings
	Keys    []keystore.Key `json:"keys,omitempty"`
	// Ended are keys that were revoked because the person who requested them was. The user is in force.
	Ended     map[string]keystore.End `json:"ended,omitempty"`
	Created   time.Time               `json:"created"`
	CreatedBy string                  `json:"created_by"`
	Revoked   time.Time               `json:"revoked,omitzero"` // zero: it is not
	RevokedBy string                  `json:"revoked_by,omitempty"`
}

// HasKeyBy reports whether a person requested one of the user's credentials.
func (u *User) HasKeyBy(by string) bool {
	return slices.ContainsFunc(u.Keys, func(k keystore.Key) bool { return k.By == by })
}

// Expires is when the last credential of the user ends; zero: never.
func (u *User) Expires() (last time.Time) {
	for _, k := range u.Keys {
		if k.Expires.IsZero() {
			return time.Time{}
		}
		if k.Expires.After(last) {
			last = k.Expires
		}
	}
	return last
}

// State is "active", or why the user's credentials open nothing at that moment: "revoked" or "expired".
func (u *User) State(now time.Time) string {
	switch last := u.Expires(); {
	case !u.Revoked.IsZero():
		return "revoked"
	case !last.IsZero() && !now.Before(last):
		return "expired"
	}
	return "active"
}

// A UserRequest asks for a credential for a person, whose key was made elsewhere.
type Request struct {
	Name   string        `json:"name"`
	Role   grants.Role   `json:"role"`   // RoleOperator, RoleDirect or RoleAuditor; limits make of the first a RoleLimited
	Public string        `json:"public"` // the public half of the key
	TTL    time.Duration `json:"ttl,omitempty"`
	Limits grants.Limits `json:"limits,omitzero"`
	// Secrets is the permission to have peels show secrets of their settings, to the user alone.
	Secrets bool `json:"secrets,omitempty"`
	Again   bool `json:"again,omitempty"` // another credential for one who has one; role, limits and permission are those of then
}

// check also settles the role.
func (q *Request) check() error {
	if err := grants.CheckName(grants.RoleOperator, q.Name); err != nil {
		return err
	}
	switch limited := q.Limits.Target != "" || len(q.Limits.Functions) > 0; {
	case q.Name == LocalUser:
		return fmt.Errorf("the name %s is of whoever may read a master's data directory", LocalUser)
	case !nkeys.IsValidPublicKey(q.Public):
		return errors.New("what was given is not the public key of a user")
	case q.TTL < 0 || q.TTL > maxTTL:
		return fmt.Errorf("the credential would end after %v: %v is the most", q.TTL, maxTTL)
	case q.Role != grants.RoleOperator && q.Role != grants.RoleDirect && q.Role != grants.RoleAuditor:
		return fmt.Errorf("there is no role %.40q: there are operator, direct and auditor", q.Role)
	case q.Secrets && q.Role == grants.RoleAuditor:
		return errors.New("peels show secrets to operators: auditors ask them nothing")
	case limited && q.Role == grants.RoleAuditor:
		return errors.New("limits are for operators: auditors only read")
	case limited && q.Role == grants.RoleDirect:
		return errors.New("limits are for operators: masters, which check them, are not asked by the role direct")
	case limited:
		q.Role = grants.RoleLimited
	}
	return q.Limits.Check()
}

// Users are the people of a bus, in the bucket users. Methods may be called from several goroutines.
type Store struct{ all *records.Cached[User] }

// Open opens the bucket, which has to exist.
func Open(ctx context.Context, js jetstream.JetStream) (*Store, error) {
	all, err := records.Open[User](ctx, js, usersBucket, "", "the user")
	return &Store{records.NewCached(all)}, err
}

// List returns all users by name, those that were revoked included.
func (u *Store) List(ctx context.Context) ([]User, error) {
	all, err := u.all.List(ctx)
	slices.SortFunc(all, func(a, b User) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// Allow returns [grants.ErrNotAllowed] with the reason if a caller may not dispatch a function to targets, which are sorted.
// selects evaluates the target of a limit. A caller with limits that are not known is refused, so a bucket that was lost
// gives nobody more than he had.
func (u *Store) Allow(ctx context.Context, a grants.Caller, function string, targets []target.PeelID, selects grants.Selector) error {
	user, err := u.all.Recent(ctx, a.User)
	switch {
	case errors.Is(err, records.ErrAbsent):
		if a.Role == grants.RoleLimited {
			return fmt.Errorf("%w: the limits of %s are not known here", grants.ErrNotAllowed, a.User)
		}
		return nil
	case err != nil:
		return err
	case !user.Revoked.IsZero():
		return fmt.Errorf("%w: %s was revoked", grants.ErrNotAllowed, a.User)
	}
	return user.Limits.Evaluate(ctx, a.User, function, targets, selects)
}

// CheckNotRevoked returns [grants.ErrNotAllowed] if a person was revoked. It reads the bucket, so it sees every revocation that was
// stored before.
func (u *Store) CheckNotRevoked(ctx context.Context, name string) error {
	user, _, err := u.all.Get(ctx, name)
	switch {
	case errors.Is(err, records.ErrAbsent):
		return nil // the credential was made beside the keys
	case err != nil:
		return err
	case !user.Revoked.IsZero():
		return fmt.Errorf("%w: %s was revoked", grants.ErrNotAllowed, name)
	}
	return nil
}

// AllowSecrets returns [grants.ErrNotAllowed] if a caller was not given the permission to see secrets. It is given with
// [Request] alone, so whoever has no record has not got it.
func (u *Store) AllowSecrets(ctx context.Context, a grants.Caller) error {
	user, err := u.all.Recent(ctx, a.User)
	switch {
	case err != nil && !errors.Is(err, records.ErrAbsent):
		return err
	case err != nil || !user.Secrets:
		return fmt.Errorf("%w: %s has no permission to see secrets", grants.ErrNotAllowed, a.User)
	}
	return nil
}
