package api

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// EnrolledAnswer is all peels that were enrolled or asked to be, by ID.
type EnrolledAnswer struct {
	Peels []credential.Enrolled `json:"peels"`
}

// EnrollName names a peel. An approval needs the waiting key too.
type EnrollName struct {
	ID     target.PeelID `json:"id"`
	Public string        `json:"public,omitempty"`
}

// JoinTokensAnswer is all join tokens, by name.
type JoinTokensAnswer struct {
	Tokens []credential.JoinToken `json:"tokens"`
}

// JoinAdded is a join token and the pin by which hosts recognize the masters.
type JoinAdded struct {
	Token credential.JoinToken `json:"token"`
	Pin   string               `json:"pin,omitempty"`
}

// EnrollList returns all peels that were enrolled or asked to be, by ID.
func (c *Client) EnrollList(ctx context.Context) ([]credential.Enrolled, error) {
	a, err := call[EnrolledAnswer](ctx, c, wire.API("enroll", "list", c.user), struct{}{})
	if err != nil {
		return nil, err
	}
	return a.Peels, nil
}

// EnrollApprove accepts a waiting peel.
func (c *Client) EnrollApprove(ctx context.Context, q EnrollName) (*credential.Enrolled, error) {
	return call[credential.Enrolled](ctx, c, wire.API("enroll", "approve", c.user), q)
}

// EnrollReject rejects a waiting peel.
func (c *Client) EnrollReject(ctx context.Context, q EnrollName) (*credential.Enrolled, error) {
	return call[credential.Enrolled](ctx, c, wire.API("enroll", "reject", c.user), q)
}

// EnrollRevoke ends the credential of a peel and has the bus cut its connection.
func (c *Client) EnrollRevoke(ctx context.Context, q EnrollName) (*credential.Enrolled, error) {
	return call[credential.Enrolled](ctx, c, wire.API("enroll", "revoke", c.user), q)
}

// JoinList returns all join tokens, by name, without their texts.
func (c *Client) JoinList(ctx context.Context) ([]credential.JoinToken, error) {
	a, err := call[JoinTokensAnswer](ctx, c, wire.API("join", "list", c.user), struct{}{})
	if err != nil {
		return nil, err
	}
	return a.Tokens, nil
}

// JoinCreate makes a join token and returns its text, with the pin of the masters at its end. q.Hash is ignored.
func (c *Client) JoinCreate(ctx context.Context, q credential.JoinRequest) (text string, t *credential.JoinToken, err error) {
	text, q.Hash = credential.NewSecret(q.Name)
	a, err := call[JoinAdded](ctx, c, wire.API("join", "create", c.user), q)
	if err != nil {
		return "", nil, err
	}
	if a.Pin != "" {
		text += "." + a.Pin
	}
	return text, &a.Token, nil
}

// JoinRevoke ends a join token: it admits no more hosts.
func (c *Client) JoinRevoke(ctx context.Context, name string) (*credential.JoinToken, error) {
	return call[credential.JoinToken](ctx, c, wire.API("join", "revoke", c.user), TokenName{name})
}
