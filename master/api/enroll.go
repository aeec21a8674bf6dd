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

// EnrollName names a peel. An approval needs the key that waits as well.
type EnrollName struct {
	ID     target.PeelID `json:"id"`
	Public string        `json:"public,omitempty"`
}

// JoinTokensAnswer is all join tokens, by name.
type JoinTokensAnswer struct {
	Tokens []credential.JoinToken `json:"tokens"`
}

// JoinAdded is a join token and what hosts know the masters by.
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

// EnrollApprove accepts a peel that waits.
func (c *Client) EnrollApprove(ctx context.Context, q EnrollName) (*credential.Enrolled, error) {
	return call[credential.Enrolled](ctx, c, wire.API("enroll", "approve", c.user), q)
}

// EnrollReject turns away a peel that waits.
func (c *Client) EnrollReject(ctx context.Context, q EnrollName) (*credential.Enrolled, error) {
	return call[credential.Enrolled](ctx, c, wire.API("enroll", "reject", c.user), q)
}

// EnrollRevoke ends the credential of a peel and has the bus cut its connection.
func (c *Client) EnrollRevoke(ctx context.Context, q EnrollName) (*credential.Enrolled, error) {
	return call[credential.Enrolled](ctx, c, wire.API("enroll", "revoke", c.user), q)
}

// JoinList returns all join tokens, by name. None tells its text.
func (c *Client) JoinList(ctx context.Context) ([]credential.JoinToken, error) {
	a, err := call[JoinTokensAnswer](ctx, c, wire.API("join", "list", c.user), struct{}{})
	if err != nil {
		return nil, err
	}
	return a.Tokens, nil
}

// JoinCreate makes a join token and returns its text, to which the pin of the masters is added. q.Hash is of no account.
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

// JoinRevoke makes a join token let in nobody else.
func (c *Client) JoinRevoke(ctx context.Context, name string) (*credential.JoinToken, error) {
	return call[credential.JoinToken](ctx, c, wire.API("join", "revoke", c.user), TokenName{name})
}
