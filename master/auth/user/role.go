package user

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// Errors about roles.
var (
	ErrNoRole   = errors.New("no such role")
	ErrTooLarge = errors.New("the roles have too many rules")
)

// written is the record of all roles that people have written. One record, so that all rules change at once.
type written struct {
	Number uint64            `json:"number"` // of the change
	Roles  []credential.Role `json:"roles"`
}

// allRoles is the key of the record.
const allRoles = "all"

// maxRolesText bounds the texts of all roles, which have to fit into one message, twice.
const maxRolesText = 256 << 10 // bytes

// A roles has the roles that people have written, and the table of their rules.
type roles struct {
	all *bucket.CachedRecords[written]

	mu     sync.Mutex
	number uint64        // of the change that table has
	table  *access.Table // nil: none was read yet
}

// read returns the table of all rules as it was at most 400 ms ago.
func (r *roles) read(ctx context.Context) (*access.Table, error) {
	now, err := r.all.Recent(ctx, allRoles)
	if err != nil && !errors.Is(err, bucket.ErrAbsent) {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.table == nil || r.number != now.Number {
		rules := access.Builtin()
		var seconds []access.Second
		for i := range now.Roles {
			rules = append(rules, now.Roles[i].Rules()...)
			seconds = append(seconds, now.Roles[i].Seconds()...)
		}
		r.table, r.number = access.NewTable(rules, seconds...), now.Number
	}
	return r.table, nil
}

// Roles returns the roles that people have written, by name.
func (u *Store) Roles(ctx context.Context) ([]credential.Role, error) {
	now, _, err := u.roles.all.Get(ctx, allRoles)
	if errors.Is(err, bucket.ErrAbsent) {
		err = nil
	}
	return now.Roles, err
}

// SetRole makes or replaces a role.
func (u *Store) SetRole(ctx context.Context, role credential.Role) error {
	return u.changeRoles(ctx, func(all []credential.Role) ([]credential.Role, error) {
		all = slices.DeleteFunc(all, func(r credential.Role) bool { return r.Name == role.Name })
		all = append(all, role)
		rules, size := 0, 0
		for i := range all {
			rules += len(all[i].Allow) + len(all[i].Deny) + len(all[i].TwoPersons)
			size += len(all[i].Text)
		}
		if rules > access.MaxRules || size > maxRolesText {
			return nil, fmt.Errorf("%w: all roles would have %d rules in %d bytes, and %d in %d are possible",
				ErrTooLarge, rules, size, access.MaxRules, maxRolesText)
		}
		return all, nil
	})
}

// RemoveRole removes a role, also one that people have: they lose what it allows, and what it denies. It returns the
// role, or [ErrNoRole].
func (u *Store) RemoveRole(ctx context.Context, name string) (removed credential.Role, err error) {
	err = u.changeRoles(ctx, func(all []credential.Role) ([]credential.Role, error) {
		i := slices.IndexFunc(all, func(r credential.Role) bool { return r.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("%w: %s", ErrNoRole, name)
		}
		removed = all[i]
		return slices.Delete(all, i, i+1), nil
	})
	return removed, err
}

// changeRoles changes the record of all roles.
func (u *Store) changeRoles(ctx context.Context, f func([]credential.Role) ([]credential.Role, error)) error {
	err := u.roles.all.Create(ctx, allRoles, written{})
	if err != nil && !errors.Is(err, bucket.ErrPresent) {
		return err
	}
	_, err = u.roles.all.Change(ctx, allRoles, func(now *written) error {
		all, err := f(now.Roles)
		if err != nil {
			return err
		}
		sorting.Func(all, func(a, b credential.Role) int { return strings.Compare(a.Name, b.Name) })
		now.Roles = all
		now.Number = max(now.Number+1, uint64(time.Now().UnixNano())) // no number of a backup comes again
		return nil
	})
	return err
}

// Seconds returns the rules about two persons that cover a verb.
func (u *Store) Seconds(ctx context.Context, verb access.Verb) ([]access.Second, error) {
	table, err := u.roles.read(ctx)
	if err != nil {
		return nil, err
	}
	return table.Seconds(verb), nil
}

// Makers returns who made a person: who added the person, and who asked for further credentials of the name. It reads
// the record itself. Nobody made a person of a provider, and one whom masters do not know.
func (u *Store) Makers(ctx context.Context, name string) (names []string, err error) {
	known, _, err := u.all.Get(ctx, name)
	if errors.Is(err, bucket.ErrAbsent) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if known.Login == nil {
		names = append(names, known.CreatedBy)
	}
	for _, k := range known.Keys {
		names = append(names, k.By)
	}
	return slices.DeleteFunc(names, func(by string) bool { return by == "" || by == name }), nil
}

// Check returns [grants.ErrNotAllowed] with the reason if a caller may not send masters the request of a verb. Whether
// a job may run on its peels is said by [Store.Allow].
//
// Callers without a role are masters. The status of a master shows why the bus stores nothing, so people of the
// built-in roles get it while no record can be read.
func (u *Store) Check(ctx context.Context, a grants.Caller, verb access.Verb) error {
	who := access.Who{Name: a.User, Roles: []string{string(a.Role)}}
	rules := builtin.Of(who)
	_, isToken := credential.TokenNameOf(a.User)
	switch {
	case !a.Role.IsPerson():
		return nil
	case isToken, verb == "master.show" && a.Role != grants.RoleMember:
	default:
		known, err := u.find(ctx, a)
		if err == nil {
			who, rules, err = u.rulesOf(ctx, &known)
		}
		if err != nil {
			return err
		}
	}
	return grants.Refusal(access.Decide(rules, who, verb, access.On{}), who, verb, access.On{})
}
