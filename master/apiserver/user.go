package apiserver

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/login"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

func (s *Server) userVerbs() []service.Verb {
	return []service.Verb{
		handle(api.RoleList, s.roleList),
		handleFrom(api.RoleSet, s.roleSet),
		handleFrom(api.RoleRemove, s.roleRemove),
		handleFrom(api.UserList, s.userList),
		handleFrom(api.UserAdd, s.userAdd),
		handleFrom(api.UserExplain, s.userExplain),
		handleFrom(api.AccessList, s.accessList),
		handleFrom(api.UserRenew, s.userRenew),
		service.On(api.UserLogin, s.userLogin),
		service.On(api.UserLogout, s.userLogout),
		handleFrom(api.UserRevoke, s.userRevoke),
		handleFrom(api.SiteRevoke, s.siteRevoke),
		handle(api.MasterRenew, s.o.Authority.Hosts.RenewMaster).Read(),
		handleFrom(api.MasterRevoke, s.masterRevoke),

		handle(api.CredentialList, s.credentialList),
	}
}

// pageBytes bounds what the elements of a page take. With the element that exceeds it, the page fits into a message.
const pageBytes = 900 << 10

// pageOf returns the elements of a list, which is sorted by name, whose names come after a text, as many as fit into a
// message, and the name that the next page comes after.
func pageOf[T any](all []T, name func(*T) string, after string) (page []T, next string, err error) {
	first := sort.Search(len(all), func(i int) bool { return name(&all[i]) > after })
	all = all[first:]
	for i, size := 0, 0; i < len(all); i++ {
		if size >= pageBytes && name(&all[i]) != name(&all[i-1]) {
			return all[:i], name(&all[i-1]), nil
		}
		data, err := canon.Marshal(&all[i])
		if err != nil {
			return nil, "", err
		}
		size += len(data)
	}
	return all, "", nil
}

func (s *Server) userList(ctx context.Context, _ grants.Caller, q api.NamesRequest) (*api.UsersAnswer, error) {
	all, err := s.o.Authority.Users.List(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Groups = nil // up to 256 KB of each
	}
	page, next, err := pageOf(all, func(u *credential.User) string { return u.Name }, q.After)
	return &api.UsersAnswer{Users: page, Next: next}, err
}

func (s *Server) userAdd(ctx context.Context, from grants.Caller, q credential.UserRequest) (*api.UserAdded, error) {
	if err := s.checkLimits(ctx, q.Limits); err != nil {
		return nil, err
	}
	if err := s.checkRoles(ctx, q.Roles); err != nil {
		return nil, err
	}
	token, u, err := s.o.Authority.Users.Add(ctx, q, from.User)
	if err == nil {
		kind := api.MadeUser
		if q.Again {
			kind = api.MadeCredential
		}
		err = s.endIfRevoked(ctx, from, kind, q.Name)
	}
	if err != nil {
		return nil, err
	}
	s.log.Info("credential made", "user", u.Name, "role", u.Role, "by", from.User, "target", u.Limits.Target,
		"functions", u.Limits.Functions, "ends", u.Expires())
	return &api.UserAdded{User: *u, JWT: token}, nil
}

func (s *Server) userRenew(
	ctx context.Context, from grants.Caller, q credential.Renewal,
) (*credential.Renewed, error) {
	renewed, err := s.o.Authority.Users.Renew(ctx, from, q)
	if err == nil {
		s.log.Info("credential renewed", "user", from.User, "role", from.Role)
	}
	return renewed, err
}

// userLogin makes a credential for a person who has come to a master from the provider of logins. The bus carries such
// requests from everybody, so the way by which it came counts, and what the ID token says.
func (s *Server) userLogin(
	ctx context.Context, c *service.Call, q credential.LoginRequest,
) (*credential.LoggedIn, error) {
	if c.From.Via != grants.ViaConsole {
		return nil, fmt.Errorf("%w: people log in at the console of a master, with zester login", grants.ErrNotAllowed)
	}
	at := s.o.Console.Provider
	if at == nil {
		return nil, errors.New("the master with the keys has no provider of logins: it needs console.oidc too")
	}
	nonce := login.NonceOf(q.Public)
	if q.Device {
		nonce = ""
	}
	p, err := at.Verify(ctx, q.IDToken, nonce)
	switch {
	case errors.Is(err, login.ErrRefused):
		return nil, fmt.Errorf("%w: %w", grants.ErrNotAllowed, err)
	case err != nil:
		return nil, err
	case p.Name != c.From.User || p.Role != c.From.Role:
		return nil, fmt.Errorf("%w: the ID token is of %s, with the role %s", grants.ErrNotAllowed, p.Name, p.Role)
	}
	if err := s.o.Console.Sessions.Spend(ctx, p.Token); err != nil {
		return nil, err
	}

	known := user.Known{Name: p.Name, Role: p.Role, Groups: p.Groups}
	known.At = credential.Login{Issuer: at.Issuer(), Subject: p.Subject}
	token, err := s.o.Authority.Users.Login(ctx, known, q.Public, p.SID)
	if err != nil {
		return nil, err
	}
	roots, err := s.o.Authority.Hosts.Roots()
	if err != nil {
		return nil, err
	}
	s.log.Info("person logged in", "user", p.Name, "role", p.Role, "issuer", at.Issuer())
	return &credential.LoggedIn{JWT: token, CA: roots}, nil
}

// userLogout ends the credential of a login of the caller.
func (s *Server) userLogout(
	ctx context.Context, c *service.Call, q credential.LogoutRequest,
) (*credential.LoggedOut, error) {
	ended, err := s.o.Authority.Users.Logout(ctx, c.From.User, q.Public)
	if err == nil {
		s.log.Info("login ended", "user", c.From.User, "had", ended, "via", c.From.Via)
	}
	return &credential.LoggedOut{Ended: ended}, err
}

func (s *Server) masterRevoke(ctx context.Context, from grants.Caller, q api.SiteName) (*credential.Site, error) {
	revoked, err := s.o.Authority.Hosts.RevokeMaster(ctx, q.Name, from.User)
	if err == nil {
		s.log.Info("master revoked", "name", revoked.Name, "by", from.User)
	}
	return revoked, err
}

func (s *Server) siteRevoke(ctx context.Context, from grants.Caller, q api.SiteName) (*credential.Site, error) {
	site, err := s.o.Authority.Hosts.RevokeSite(ctx, q.Name, from.User)
	if err == nil {
		s.log.Info("site revoked", "site", site.Name, "by", from.User)
	}
	return site, err
}
