package api

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// TokensAnswer is all bearer tokens of the REST API, by name.
type TokensAnswer struct {
	Tokens []credential.Token `json:"tokens"`
}

// TokenName names a token.
type TokenName struct {
	Name string `json:"name"`
}

// TokenList returns all bearer tokens of the REST API, by name, without their texts.
func (c *Client) TokenList(ctx context.Context) ([]credential.Token, error) {
	a, err := call[TokensAnswer](ctx, c, wire.API("token", "list", c.user), struct{}{})
	if err != nil {
		return nil, err
	}
	return a.Tokens, nil
}

// TokenCreate makes a bearer token and returns its text, which is sent nowhere: masters get its hash.
// q.Hash is ignored.
func (c *Client) TokenCreate(ctx context.Context, q credential.TokenRequest) (text string, t *credential.Token, err error) {
	return c.tokenSecret(ctx, "create", q)
}

// TokenRotate gives a token another text, which it returns. The old one stays valid for q.Grace.
func (c *Client) TokenRotate(ctx context.Context, q credential.TokenRequest) (text string, t *credential.Token, err error) {
	return c.tokenSecret(ctx, "rotate", q)
}

func (c *Client) tokenSecret(ctx context.Context, verb string, q credential.TokenRequest) (text string, t *credential.Token, err error) {
	text, q.Hash = credential.NewSecret(q.Name)
	if t, err = call[credential.Token](ctx, c, wire.API("token", verb, c.user), q); err != nil {
		return "", nil, err
	}
	return text, t, nil
}
