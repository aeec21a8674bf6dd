package apiserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func (s *Server) roleList(ctx context.Context, _ api.None) (*api.RolesAnswer, error) {
	all, err := s.o.Users.Roles(ctx)
	return &api.RolesAnswer{Roles: all}, err
}

// roleSet stores a role. Only operators get here: no rule of a role allows it.
func (s *Server) roleSet(ctx context.Context, from grants.Caller, q credential.RoleRequest) (*credential.Role, error) {
	if err := q.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	groups, err := s.targets.Groups(ctx)
	if err != nil {
		return nil, err
	}
	known := access.Known{Verbs: api.Verbs(), Groups: groups}
	for _, f := range catalogue.Functions() {
		known.Functions = append(known.Functions, f.Name)
	}
	r, err := access.ParseRole(q.Name, q.File, []byte(q.Text), known)
	if bad, ok := errors.AsType[strictyaml.Errors](err); ok {
		return nil, &api.Error{Code: api.CodeInvalid, Msg: bad.Error(), Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	role := credential.Role{Role: *r, Text: q.Text, Changed: time.Now().UTC(), ChangedBy: from.User}
	if err := s.o.Users.SetRole(ctx, role); err != nil {
		return nil, roleError(err)
	}
	s.log.Info("role set", "role", role.Name, "by", from.User, "allow", len(role.Allow), "deny", len(role.Deny))
	return &role, nil
}

func (s *Server) roleRemove(ctx context.Context, from grants.Caller, q api.RoleName) (*credential.Role, error) {
	role, err := s.o.Users.RemoveRole(ctx, q.Name)
	if err != nil {
		return nil, roleError(err)
	}
	s.log.Info("role removed", "role", role.Name, "by", from.User)
	return &role, nil
}

// roleError gives the errors of the store their codes.
func roleError(err error) error {
	switch {
	case errors.Is(err, user.ErrNoRole):
		return &api.Error{Code: api.CodeNotFound, Msg: err.Error(), Err: err}
	case errors.Is(err, user.ErrTooLarge):
		return fmt.Errorf("%w: %w", errInvalid, err)
	}
	return err
}

// checkRoles returns an error if one of the roles of a new person does not exist.
func (s *Server) checkRoles(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	all, err := s.o.Users.Roles(ctx)
	if err != nil {
		return err
	}
	var known []string
	for i := range all {
		known = append(known, all[i].Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%w: there is no role %s%s; zester auth role list shows all", errInvalid, name,
				strictyaml.Suggest(name, known))
		}
	}
	return nil
}
