package api

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
)

// TokensAnswer is bearer tokens of the REST API, by name, as many as fit into a message.
type TokensAnswer struct {
	Tokens []credential.Token `json:"tokens"`
	Next   string             `json:"next,omitempty"` // what the next page comes after; empty on the last
}

// Page returns the tokens of a page, and what the next one comes after.
func (a *TokensAnswer) Page() ([]credential.Token, string) { return a.Tokens, a.Next }

// TokenName names a token.
type TokenName struct {
	Name string `json:"name"`
}

// TokenCreate makes a bearer token and returns its text, which is sent nowhere: masters get its hash.
// q.Hash is ignored.
func (c *Client) TokenCreate(
	ctx context.Context, q credential.TokenRequest,
) (text string, t *credential.Token, err error) {
	text, q.Hash = credential.NewSecret(q.Name)
	t, err = askMade(ctx, c, TokenCreate, q)
	return text, t, err
}

// TokenRotate gives a token another text, which it returns. The old one stays valid for q.Grace.
func (c *Client) TokenRotate(
	ctx context.Context, q credential.TokenRequest,
) (text string, t *credential.Token, err error) {
	text, q.Hash = credential.NewSecret(q.Name)
	t, err = askMade(ctx, c, TokenRotate, q)
	return text, t, err
}
