package api

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// UsersAnswer is all people who have a credential, by name.
type UsersAnswer struct {
	Users []auth.User `json:"users"`
}

// SiteName names a site.
type SiteName struct {
	Name string `json:"name"`
}

// UserAdded is a person and the JWT that was signed for his key.
type UserAdded struct {
	User auth.User `json:"user"`
	JWT  string    `json:"jwt"`
}

func (s *Server) userEndpoints() map[string]endpoint {
	return map[string]endpoint{
		"user-list":   {wire.API("user", "list", "*"), handleFrom(s, s.userList)},
		"user-add":    {wire.API("user", "add", "*"), act(s, "user.add", s.userAdd)},
		"user-revoke": {wire.API("user", "revoke", "*"), act(s, "user.revoke", s.userRevoke)},
		"site-revoke": {wire.API("site", "revoke", "*"), act(s, "site.revoke", s.siteRevoke)},
	}
}

func (s *Server) userList(ctx context.Context, _ grants.Caller, _ struct{}) (*UsersAnswer, error) {
	all, err := s.o.Authority.Users(ctx)
	return &UsersAnswer{all}, err
}

func (s *Server) userAdd(ctx context.Context, from grants.Caller, q auth.UserRequest) (*UserAdded, error) {
	if err := s.checkLimits(ctx, q.Limits); err != nil {
		return nil, err
	}
	token, u, err := s.o.Authority.AddUser(ctx, q, from.User)
	if err == nil {
		kind := MadeUser
		if q.Again {
			kind = MadeCredential
		}
		err = s.endIfRevoked(ctx, from, kind, q.Name)
	}
	if err != nil {
		return nil, err
	}
	s.log.Info("credential made", "user", u.Name, "role", u.Role, "by", from.User, "target", u.Limits.Target, "functions", u.Limits.Functions, "ends", u.Expires())
	return &UserAdded{*u, token}, nil
}

func (s *Server) siteRevoke(ctx context.Context, from grants.Caller, q SiteName) (*auth.Site, error) {
	site, err := s.o.Authority.RevokeSite(ctx, q.Name, from.User)
	if err == nil {
		s.log.Info("site revoked", "site", site.Name, "by", from.User)
	}
	return site, err
}

// UserList returns all people who have a credential, by name.
func (c *Client) UserList(ctx context.Context) ([]auth.User, error) {
	a, err := call[UsersAnswer](ctx, c, wire.API("user", "list", c.user), struct{}{})
	if err != nil {
		return nil, err
	}
	return a.Users, nil
}

// UserAdd makes a key for a person, has it signed, and returns what a .creds file holds. The secret half of the key
// leaves this process nowhere else. q.Public is of no account.
func (c *Client) UserAdd(ctx context.Context, q auth.UserRequest) (creds []byte, u *auth.User, err error) {
	key, err := auth.MakeKey()
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

// SiteRevoke ends all credentials of a site that were made so far and has the bus cut the connections that use them.
func (c *Client) SiteRevoke(ctx context.Context, name string) (*auth.Site, error) {
	return call[auth.Site](ctx, c, wire.API("site", "revoke", c.user), SiteName{name})
}
