package api

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// UsersAnswer is all people who have a credential, by name.
type UsersAnswer struct {
	Users []credential.User `json:"users"`
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

// UserList returns all people who have a credential, by name.
func (c *Client) UserList(ctx context.Context) ([]credential.User, error) {
	a, err := call[UsersAnswer](ctx, c, wire.API("user", "list", c.user), struct{}{})
	if err != nil {
		return nil, err
	}
	return a.Users, nil
}

// UserAdd makes a key for a person, has a master sign it, and returns the content of a .creds file. The secret half of the key is
// sent nowhere. q.Public is ignored.
func (c *Client) UserAdd(ctx context.Context, q credential.UserRequest) (creds []byte, u *credential.User, err error) {
	key, err := credential.MakeKey()
	if err != nil {
		return nil, nil, err
	}
	q.Public = key.Public()
	a, err := call[UserAdded](ctx, c, wire.API("user", "add", c.user), q)
	if err != nil {
		return nil, nil, err
	}
	creds, err = key.Creds(a.JWT)
	return creds, &a.User, err
}

// MasterRevoke ends all credentials of a master that were made so far with zester auth issue, as [Client.SiteRevoke] does.
func (c *Client) MasterRevoke(ctx context.Context, name string) (*credential.Site, error) {
	return call[credential.Site](ctx, c, wire.API("master", "revoke", c.user), SiteName{name})
}

// SiteRevoke ends all credentials of a site that were made so far and has the bus cut the connections that use them.
func (c *Client) SiteRevoke(ctx context.Context, name string) (*credential.Site, error) {
	return call[credential.Site](ctx, c, wire.API("site", "revoke", c.user), SiteName{name})
}
