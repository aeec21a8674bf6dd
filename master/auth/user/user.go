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
// Known gap: masters do not know people whose credentials were made beside the keys before a master that has the keys
// has called [Directory.Publish]. A person of a provider can take such a name before; then both are listed, and a
// revocation ends the credentials of both.
package user

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// Errors about users.
var (
	ErrNotFound = errors.New("no such user")
	ErrExists   = errors.New("there is such a user")
	ErrInvalid  = errors.New("the user cannot be made")
)

// A Store has the people of a bus, in the bucket users, and the roles that people have written, in the bucket roles.
// Methods may be called from several goroutines.
type Store struct {
	all   *bucket.CachedRecords[credential.User]
	roles roles
}

// Open opens the buckets, which have to exist.
func Open(ctx context.Context, js jetstream.JetStream) (*Store, error) {
	all, err := bucket.OpenRecords[credential.User](ctx, js, wire.BucketUsers, "", "the user")
	if err != nil {
		return nil, err
	}
	roles, err := bucket.OpenRecords[written](ctx, js, wire.BucketRoles, "", "the roles")
	if err != nil {
		return nil, err
	}
	u := &Store{all: bucket.NewCachedRecords(all)}
	u.roles.all = bucket.NewCachedRecords(roles)
	return u, nil
}

// Forget makes the next request of each user read the stored record of the user, and all roles.
func (u *Store) Forget() {
	u.all.Forget()
	u.roles.all.Forget()
}

// List returns all users by name, those that were revoked included.
func (u *Store) List(ctx context.Context) ([]credential.User, error) {
	all, err := u.all.List(ctx)
	sorting.Func(all, func(a, b credential.User) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// Unreadable returns the keys of users whose records cannot be decoded. They can do nothing that needs a master.
func (u *Store) Unreadable(ctx context.Context) ([]string, error) { return u.all.Unreadable(ctx) }

// Allow returns [grants.ErrNotAllowed] with the reason if a caller may not dispatch a job. selects evaluates the
// targets of rules. A caller with unknown limits is refused, so the loss of the bucket gives nobody more permissions.
func (u *Store) Allow(ctx context.Context, a grants.Caller, on access.On, selects grants.Selector) error {
	who, rules, err := u.Rules(ctx, a)
	if err != nil {
		return err
	}
	return grants.Evaluate(ctx, rules, who, on, selects)
}

// Rules returns the groups and roles of a caller, and the rules about them. The error is [grants.ErrNotAllowed] if the
// caller was revoked, or has limits that are not known: the bucket has no record of the caller, or one without limits,
// which was made from the register.
func (u *Store) Rules(ctx context.Context, a grants.Caller) (who access.Who, rules []access.Rule, err error) {
	known, err := u.find(ctx, a)
	if err != nil {
		return who, nil, err
	}
	return u.RulesOf(ctx, &known)
}

// CheckKnown returns [grants.ErrNotAllowed] if a caller was revoked, or has limits that are not known.
func (u *Store) CheckKnown(ctx context.Context, a grants.Caller) error {
	known, err := u.find(ctx, a)
	if err != nil {
		return err
	}
	return checkLimits(&known)
}

// checkLimits returns [grants.ErrNotAllowed] if a person has limits that are not known.
func checkLimits(known *credential.User) error {
	if known.Role == grants.RoleLimited && known.Limits.IsZero() {
		return fmt.Errorf("%w: the limits of %s are not known here: have an operator revoke %s and "+
			"issue a credential under another name", grants.ErrNotAllowed, known.Name, known.Name)
	}
	return nil
}

// RulesOf returns the groups and roles of a person, and the rules about them. The error is [grants.ErrNotAllowed] if
// the person has limits that are not known.
func (u *Store) RulesOf(ctx context.Context, known *credential.User) (who access.Who, rules []access.Rule, err error) {
	if err := checkLimits(known); err != nil {
		return who, nil, err
	}
	return u.rulesOf(ctx, known)
}

// RulesBehind returns the rules about who made a token, also if they were revoked since and what they made was left in
// force. If it was not, the error is [grants.ErrNotAllowed]. A person without a record is an operator, whose credential
// was made beside the keys.
func (u *Store) RulesBehind(ctx context.Context, name string) (who access.Who, rules []access.Rule, err error) {
	known, err := u.all.Recent(ctx, name)
	if err == nil {
		err = refusal(endedBy(ctx, &known, u.all.Recent))
	}
	if err != nil && !errors.Is(err, bucket.ErrAbsent) {
		return who, nil, err
	}
	known.Name = name
	known.Role = cmp.Or(known.Role, grants.RoleOperator)
	return u.RulesOf(ctx, &known)
}

// find returns the record of a caller, with the role in which the caller acts now, or [grants.ErrNotAllowed] if the
// caller was revoked.
func (u *Store) find(ctx context.Context, a grants.Caller) (credential.User, error) {
	known, err := u.all.Recent(ctx, a.User)
	switch {
	case errors.Is(err, bucket.ErrAbsent):
		known = credential.User{Role: grants.RoleOperator} // the credential was made beside the keys
	case err != nil:
		return known, err
	case !known.Revoked.IsZero():
		return known, fmt.Errorf("%w: %s was revoked", grants.ErrNotAllowed, a.User)
	}
	if err := refusal(endedBy(ctx, &known, u.all.Recent)); err != nil {
		return known, err
	}
	known.Name = a.User
	if known.Role != grants.RoleLimited {
		known.Role = cmp.Or(a.Role, known.Role)
	}
	return known, nil
}

// rulesOf is [Store.RulesOf] without jobs of a person whose limits are not known.
func (u *Store) rulesOf(ctx context.Context, known *credential.User) (who access.Who, rules []access.Rule, err error) {
	table, err := u.roles.read(ctx)
	if err != nil {
		return who, nil, err
	}
	roles := append([]string{string(known.Role)}, known.Roles...)
	who = access.Who{Name: known.Name, Groups: known.Groups, Roles: roles}
	rules = table.Of(who)
	if !known.Limits.IsZero() {
		rules = append(rules, known.Limits.Rule(known.Name))
	}
	return who, rules, nil
}

// builtin has the rules that every fleet has.
var builtin = access.NewTable(access.Builtin())

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
	return refusal(endedBy(ctx, &user, u.stored))
}

// IsBreakGlass reports whether a caller uses the credential in the data directory of a master although an operator
// without limits has a credential or a login of the own name, which could be used instead. The name made is empty, or
// the new person of a request to add somebody, who does not count. If that cannot be read, the use counts as one.
func (u *Store) IsBreakGlass(ctx context.Context, a grants.Caller, made string) bool {
	if a.User != credential.LocalUser || !a.Role.IsPerson() {
		return false
	}
	all, err := u.all.List(ctx)
	if err == nil {
		err = u.MarkEnded(ctx, all, nil)
	}
	now := time.Now()
	return err != nil || slices.ContainsFunc(all, func(p credential.User) bool {
		isNew := p.Name == made && p.CreatedBy == a.User && len(p.Keys) == 1 && now.Sub(p.Created) < time.Minute
		return (p.Role == grants.RoleOperator || p.Role == grants.RoleDirect) && p.State(now) == "active" && !isNew
	})
}

// A Known is a person as a provider describes them at a login.
type Known struct {
	Name   string // on the bus
	Role   grants.Role
	Groups []string // sorted
	At     credential.Login
}

// Bind reserves the name for a person of a provider at the first login, and stores the person's groups at each. The
// role in the record is the role of the person's credentials: it stays while there is one. The error is
// [grants.ErrNotAllowed] if the person was revoked, or if the name belongs to another person.
func (u *Store) Bind(ctx context.Context, p Known) error {
	if err := grants.CheckName(p.Role, p.Name); err != nil || p.Name == credential.LocalUser {
		return fmt.Errorf("%w: the provider gives the name %.70q, which nobody can have", grants.ErrNotAllowed, p.Name)
	}
	err := u.all.Create(ctx, p.Name, credential.User{
		Name: p.Name, Role: p.Role, Login: &p.At, Groups: p.Groups, Created: time.Now().UTC(), CreatedBy: p.At.Issuer,
	})
	if !errors.Is(err, bucket.ErrPresent) {
		return err
	}
	known, _, err := u.all.Get(ctx, p.Name)
	if err != nil {
		return err
	}
	if err := p.check(&known); err != nil {
		return err
	}
	if slices.Equal(known.Groups, p.Groups) && known.Role == p.Role {
		return nil
	}
	_, err = u.all.Change(ctx, p.Name, func(r *credential.User) error {
		r.Groups = p.Groups
		if len(credential.Current(r.Keys, time.Now())) == 0 {
			r.Role = p.Role
		}
		return p.check(r)
	})
	return err
}

// check returns an error if the record of the name is of somebody else, or revoked.
func (p *Known) check(r *credential.User) error {
	switch {
	case !r.Revoked.IsZero():
		return fmt.Errorf("%w: %s was revoked", grants.ErrNotAllowed, r.Name)
	case r.Login == nil || *r.Login != p.At:
		return fmt.Errorf("%w: the name %s belongs to somebody else", grants.ErrNotAllowed, r.Name)
	}
	return nil
}

// AllowSecrets returns [grants.ErrNotAllowed] if a caller was not given the permission to see secrets. It is given with
// [credential.UserRequest] alone, so a user without a record does not have it.
func (u *Store) AllowSecrets(ctx context.Context, a grants.Caller) error {
	if _, isToken := credential.TokenNameOf(a.User); isToken {
		return fmt.Errorf("%w: secrets are shown to people, with a credential of the bus", grants.ErrNotAllowed)
	}
	user, err := u.all.Recent(ctx, a.User)
	switch {
	case err != nil && !errors.Is(err, bucket.ErrAbsent):
		return err
	case err != nil || !user.Secrets:
		return fmt.Errorf("%w: %s has no permission to see secrets", grants.ErrNotAllowed, a.User)
	}
	return nil
}
