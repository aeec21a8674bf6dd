package credential

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

const (
	maxRoles = 64  // and groups of a person without a provider
	maxGroup = 256 // bytes
)

// maxUserTTL bounds how long a credential of a person is valid.
const maxUserTTL = 10 * 366 * 24 * time.Hour

// UserLife is how long a credential of a person is valid by default, and how long one that its owner has renewed.
const UserLife = 90 * 24 * time.Hour

// Renewable reports whether a person may renew a credential of these times: it was issued for [UserLife] or longer. A
// shorter life was chosen by the person who issued it, and ends with it.
func Renewable(issued, expires time.Time) bool {
	// The two times of a JWT are read from the clock one after the other, and rounded.
	return expires.Sub(issued) > UserLife-time.Minute
}

// LocalUser is the operator whose credential is in the data directory of a master.
const LocalUser = "local"

// A User is a person with a credential of the bus.
type User struct {
	Name    string        `json:"name"`
	Role    grants.Role   `json:"role"` // RoleOperator, RoleDirect, RoleLimited or RoleAuditor
	Limits  grants.Limits `json:"limits,omitzero"`
	Roles   []string      `json:"roles,omitempty"`   // that people have written; Role is then RoleMember
	Secrets bool          `json:"secrets,omitempty"` // may have peels show secrets of their settings
	Keys    []Key         `json:"keys,omitempty"`
	// Ended are keys that were revoked because the person who requested them was. The user is in force.
	Ended map[string]End `json:"ended,omitempty"`
	// Login is who the person is at the provider of logins; nil: the name is not of a provider.
	Login     *Login    `json:"login,omitempty"`
	Groups    []string  `json:"groups,omitempty"` // at the provider, as of the last login, or as given; sorted
	Created   time.Time `json:"created"`
	CreatedBy string    `json:"created_by"`
	Revoked   time.Time `json:"revoked,omitzero"` // zero: it is not
	RevokedBy string    `json:"revoked_by,omitempty"`
	// EndsMade is true if the revocation ends what the person made, too: masters refuse tokens, people and join tokens
	// of the person.
	EndsMade bool `json:"ends_made,omitempty"`
}

// A Login identifies a person at a provider of OpenID Connect. The provider never gives a subject twice.
type Login struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
}

// HasKeyBy reports whether a person requested one of the user's credentials.
func (u *User) HasKeyBy(by string) bool {
	return slices.ContainsFunc(u.Keys, func(k Key) bool { return k.By == by })
}

// Maker returns who added the user, if that is a person who can be revoked; otherwise it is empty.
func (u *User) Maker() string {
	if u.Login != nil || u.CreatedBy == u.Name || u.CreatedBy == LocalUser ||
		grants.CheckName(grants.RoleOperator, u.CreatedBy) != nil {
		return ""
	}
	return u.CreatedBy
}

// Expires returns when the last credential of the user expires; zero: never.
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

// State returns "active", "revoked" or "expired" for a time.
func (u *User) State(now time.Time) string {
	switch last := u.Expires(); {
	case !u.Revoked.IsZero():
		return "revoked"
	case !last.IsZero() && !now.Before(last):
		return "expired"
	}
	return "active"
}

// A UserRequest requests a credential for a person. The client has made the key.
type UserRequest struct {
	Name string `json:"name"`
	// RoleOperator, RoleDirect, RoleAuditor or RoleMember; an operator with limits becomes RoleLimited
	Role   grants.Role   `json:"role"`
	Public string        `json:"public"` // the public half of the key
	TTL    time.Duration `json:"ttl,omitempty"`
	Limits grants.Limits `json:"limits,omitzero"`
	Roles  []string      `json:"roles,omitempty"`  // that people have written, for a RoleMember
	Groups []string      `json:"groups,omitempty"` // whose roles the person has too
	// Secrets is the permission to have peels show secrets of their settings, to the user alone.
	Secrets bool `json:"secrets,omitempty"`
	Again   bool `json:"again,omitempty"` // another credential for a known user; role, limits and permission stay
}

// Check returns an error if the request is not valid. For an operator with limits it sets the role
// [grants.RoleLimited].
func (q *UserRequest) Check() error {
	if err := grants.CheckName(grants.RoleOperator, q.Name); err != nil {
		return err
	}
	switch limited := !q.Limits.IsZero(); {
	case q.Name == LocalUser:
		return fmt.Errorf("the name %s is reserved for users who can read a master's data directory", LocalUser)
	case !nkeys.IsValidPublicKey(q.Public):
		return errors.New("the public key is not the key of a user")
	case q.TTL < 0 || q.TTL > maxUserTTL:
		return fmt.Errorf("the credential would end after %v: %v is the most", q.TTL, maxUserTTL)
	case !slices.Contains(
		[]grants.Role{grants.RoleOperator, grants.RoleDirect, grants.RoleAuditor, grants.RoleMember}, q.Role):
		return fmt.Errorf("there is no role %.40q: there are operator, direct, auditor and member", q.Role)
	case len(q.Roles) > 0 && q.Role != grants.RoleMember:
		return fmt.Errorf("the role %s goes with no other: roles that people have written are for members", q.Role)
	case len(q.Groups) > 0 && (limited || q.Role == grants.RoleDirect):
		return errors.New("groups go neither with limits nor with the role direct, whose requests no master sees")
	case len(q.Roles) > maxRoles || len(q.Groups) > maxRoles:
		return fmt.Errorf("a person has at most %d roles and %d groups", maxRoles, maxRoles)
	case limited && q.Role == grants.RoleMember:
		return errors.New("limits are for operators: the roles of a member say what it may run")
	case q.Secrets && q.Role == grants.RoleAuditor:
		return errors.New("peels show secrets to operators: auditors ask them nothing")
	case limited && q.Role == grants.RoleAuditor:
		return errors.New("limits are for operators: auditors only read")
	case limited && q.Role == grants.RoleDirect:
		return errors.New(
			"limits are for operators: the role direct sends requests to peels, and only masters check limits",
		)
	case limited:
		q.Role = grants.RoleLimited
	}
	for _, name := range q.Roles {
		if err := access.CheckName(name); err != nil {
			return err
		}
	}
	for _, group := range q.Groups {
		if group == "" || len(group) > maxGroup {
			return fmt.Errorf("a group has 1 to %d bytes: %.300q", maxGroup, group)
		}
	}
	return q.Limits.Check()
}
