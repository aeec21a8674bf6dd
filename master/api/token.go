package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// TokensAnswer is all bearer tokens of the REST API, by name.
type TokensAnswer struct {
	Tokens []auth.Token `json:"tokens"`
}

// TokenName names a token.
type TokenName struct {
	Name string `json:"name"`
}

func (s *Server) tokenList(ctx context.Context, _ grants.Caller, _ struct{}) (*TokensAnswer, error) {
	all, err := s.o.Tokens.List(ctx)
	return &TokensAnswer{all}, err
}

// checkLimits judges the target of limits, which needs the node groups.
func (s *Server) checkLimits(ctx context.Context, l grants.Limits) error {
	if l.Target == "" {
		return nil
	}
	if _, err := s.Select(ctx, l.Target); err != nil {
		return fmt.Errorf("cannot limit to the target: %w", err)
	}
	return nil
}

func (s *Server) tokenCreate(ctx context.Context, from grants.Caller, q auth.TokenRequest) (*auth.Token, error) {
	if err := s.checkLimits(ctx, q.Limits); err != nil {
		return nil, err
	}
	t, err := s.o.Tokens.Create(ctx, q, from.User)
	if err == nil {
		err = s.endIfRevoked(ctx, from, MadeToken, q.Name)
	}
	if err == nil {
		s.log.Info("token created", "token", t.Name, "user", from.User, "scopes", t.Scopes, "target", t.Limits.Target, "functions", t.Limits.Functions, "ends", t.Expires)
	}
	return t, err
}

func (s *Server) tokenRotate(ctx context.Context, from grants.Caller, q auth.TokenRequest) (*auth.Token, error) {
	t, err := s.o.Tokens.Rotate(ctx, q, from.User)
	if err == nil {
		err = s.endIfRevoked(ctx, from, MadeToken, q.Name)
	}
	if err == nil {
		s.log.Info("token rotated", "token", t.Name, "user", from.User, "grace", q.Grace, "ends", t.Expires)
	}
	return t, err
}

// credentialCode is the code of an error about tokens, users and what they may do, "" for others.
func credentialCode(err error) Code {
	switch {
	case errors.Is(err, grants.ErrNotAllowed):
		return CodeForbidden
	case errors.Is(err, auth.ErrTokenInvalid), errors.Is(err, auth.ErrUserInvalid):
		return CodeInvalid
	case errors.Is(err, auth.ErrNoToken), errors.Is(err, auth.ErrNoUser), errors.Is(err, auth.ErrNoPeel), errors.Is(err, auth.ErrNoSite):
		return CodeNotFound
	case errors.Is(err, errRevokesCaller), errors.Is(err, auth.ErrTokenExists), errors.Is(err, auth.ErrUserExists), errors.Is(err, auth.ErrConflict), errors.Is(err, auth.ErrNotWanted),
		errors.Is(err, pki.ErrFormer), errors.Is(err, auth.ErrCutShort), errors.Is(err, pki.ErrNoFormer), errors.Is(err, auth.ErrBehind), errors.Is(err, auth.ErrStale):
		return CodeConflict
	}
	return ""
}

// TokenList returns all bearer tokens of the REST API, by name. None tells its text.
func (c *Client) TokenList(ctx context.Context) ([]auth.Token, error) {
	a, err := call[TokensAnswer](ctx, c, wire.API("token", "list", c.user), struct{}{})
	if err != nil {
		return nil, err
	}
	return a.Tokens, nil
}

// TokenCreate makes a bearer token and returns its text, which leaves this process nowhere else: masters hear its hash.
// q.Hash is of no account.
func (c *Client) TokenCreate(ctx context.Context, q auth.TokenRequest) (text string, t *auth.Token, err error) {
	return c.tokenSecret(ctx, "create", q)
}

// TokenRotate gives a token another text, which it returns. The old one goes on for q.Grace.
func (c *Client) TokenRotate(ctx context.Context, q auth.TokenRequest) (text string, t *auth.Token, err error) {
	return c.tokenSecret(ctx, "rotate", q)
}

func (c *Client) tokenSecret(ctx context.Context, verb string, q auth.TokenRequest) (text string, t *auth.Token, err error) {
	text, q.Hash = auth.NewSecret(q.Name)
	if t, err = call[auth.Token](ctx, c, wire.API("token", verb, c.user), q); err != nil {
		return "", nil, err
	}
	return text, t, nil
}
