package apiserver

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/enroll"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/auth/user"
)

func (s *Server) tokenList(ctx context.Context, _ grants.Caller, q api.NamesRequest) (*api.TokensAnswer, error) {
	all, err := s.o.Tokens.List(ctx)
	if err == nil {
		err = s.o.Users.MarkEnded(ctx, nil, all)
	}
	if err != nil {
		return nil, err
	}
	page, next, err := pageOf(all, func(t *credential.Token) string { return t.Name }, q.After)
	return &api.TokensAnswer{Tokens: page, Next: next}, err
}

// checkLimits parses the target of limits with the node groups.
func (s *Server) checkLimits(ctx context.Context, l grants.Limits) error {
	if l.Target == "" {
		return nil
	}
	if _, err := s.Select(ctx, l.Target); err != nil {
		return fmt.Errorf("cannot limit to the target: %w", err)
	}
	return nil
}

func (s *Server) tokenCreate(ctx context.Context, from grants.Caller,
	q credential.TokenRequest,
) (*credential.Token, error) {
	if err := s.checkLimits(ctx, q.Limits); err != nil {
		return nil, err
	}
	t, err := s.o.Tokens.Create(ctx, q, from.User)
	if err == nil {
		err = s.endIfRevoked(ctx, from, api.MadeToken, q.Name)
	}
	if err == nil {
		s.log.Info("token created", "token", t.Name, "user", from.User, "scopes", t.Scopes, "target", t.Limits.Target,
			"functions", t.Limits.Functions, "ends", t.Expires)
	}
	return t, err
}

func (s *Server) tokenRotate(ctx context.Context, from grants.Caller,
	q credential.TokenRequest,
) (*credential.Token, error) {
	t, err := s.o.Tokens.Rotate(ctx, q, from.User)
	if err == nil {
		err = s.endIfRevoked(ctx, from, api.MadeToken, q.Name)
	}
	if err == nil {
		s.log.Info("token rotated", "token", t.Name, "user", from.User, "grace", q.Grace, "ends", t.Expires)
	}
	return t, err
}

// credentialCode returns the code of an error about tokens, users and permissions, "" for others.
func credentialCode(err error) api.Code {
	switch {
	case errors.Is(err, grants.ErrNotAllowed):
		return api.CodeForbidden
	case errors.Is(err, token.ErrInvalid), errors.Is(err, user.ErrInvalid), errors.Is(err, enroll.ErrInvalid):
		return api.CodeInvalid
	case errors.Is(err, token.ErrNotFound), errors.Is(err, user.ErrNotFound), errors.Is(err, enroll.ErrNotFound),
		errors.Is(err, enroll.ErrNoSite), errors.Is(err, enroll.ErrNoMaster):
		return api.CodeNotFound
	case errors.Is(err, errRevokesCaller), errors.Is(err, token.ErrExists), errors.Is(err, user.ErrExists),
		errors.Is(err, enroll.ErrConflict), errors.Is(err, enroll.ErrRejected),
		errors.Is(err, pki.ErrFormer), errors.Is(err, keystore.ErrCutShort), errors.Is(err, pki.ErrNoFormer),
		errors.Is(err, enroll.ErrRevokedMaster), errors.Is(err, auth.ErrBehind), errors.Is(err, auth.ErrStale):
		return api.CodeConflict
	}
	return ""
}
