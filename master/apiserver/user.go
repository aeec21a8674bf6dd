package apiserver

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/service"
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
		handleFrom(api.UserRevoke, s.userRevoke),
		handleFrom(api.SiteRevoke, s.siteRevoke),
		handle(api.MasterRenew, s.o.Authority.Hosts.RenewMaster).Read(),
		handleFrom(api.MasterRevoke, s.masterRevoke),

		handle(api.CredentialList, s.credentialList),
	}
}

func (s *Server) userList(ctx context.Context, _ grants.Caller, _ api.None) (*api.UsersAnswer, error) {
	all, err := s.o.Authority.Users.List(ctx)
	for i := range all {
		all[i].Groups = nil // up to 256 KB of each
	}
	return &api.UsersAnswer{Users: all}, err
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
