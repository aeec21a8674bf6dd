package api

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
)

// UsersAnswer is all people who have a credential, by name.
type UsersAnswer struct {
	Users []credential.User `json:"users"`
}

// RolesAnswer is all roles that people have written, by name.
type RolesAnswer struct {
	Roles []credential.Role `json:"roles"`
}

// RoleName names a role.
type RoleName struct {
	Name string `json:"name"`
}

// SiteName names a site, or a master.
type SiteName struct {
	Name string `json:"name"`
}

// UserAdded is a person and the JWT that was signed for the key.
type UserAdded struct {
	User credential.User `json:"user"`
	JWT  string          `json:"jwt"`
}

// UserAdd makes a key for a person, has a master sign it, and returns the content of a .creds file. The secret half of
// the key is sent nowhere. q.Public is ignored.
func (c *Client) UserAdd(ctx context.Context, q credential.UserRequest) (creds []byte, u *credential.User, err error) {
	key, err := credential.MakeKey()
	if err != nil {
		return nil, nil, err
	}
	q.Public = key.Public()
	a, err := askMade(ctx, c, UserAdd, q)
	if err != nil {
		return nil, nil, err
	}
	creds, err = key.Creds(a.JWT)
	return creds, &a.User, err
}
