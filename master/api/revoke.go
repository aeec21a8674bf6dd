package api

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A RevokeRequest requests the end of a person's credentials.
type RevokeRequest struct {
	Name string `json:"name"`
	Keep bool   `json:"keep,omitempty"` // leave in force what the person made
}

// Revoked is a revoked person, with all that the revocation ended.
type Revoked struct {
	credential.User
	// Made are the tokens, join tokens, users and credentials that the person made, and those that these users made. They
	// have ended, unless Kept says that they were left in force.
	Made []Made     `json:"made,omitempty"`
	Kept bool       `json:"kept,omitempty"`
	Jobs []wire.JID `json:"jobs,omitempty"` // canceled jobs that were open when the revocation began, or later
}

// TokenRevoked is a revoked bearer token, with all that the revocation ended.
type TokenRevoked struct {
	credential.Token
	Jobs []wire.JID `json:"jobs,omitempty"` // canceled jobs that were open when the revocation began, or later
}

// Made is a credential that a person made for others.
type Made struct {
	Kind MadeKind `json:"kind"`
	Name string   `json:"name"`
	By   string   `json:"by"`
}

// A MadeKind is a kind of credential that a person makes for others.
type MadeKind string

// The kinds.
const (
	MadeToken      MadeKind = "token"
	MadeJoinToken  MadeKind = "join token"
	MadeUser       MadeKind = "user"
	MadeCredential MadeKind = "credential" // one more for a user whom somebody else made
)

// UserRevoke ends all credentials of a person for good, has the bus cut the connections that use them, cancels the open
// jobs and, unless q.Keep is set, ends what the person made.
func (c *Client) UserRevoke(ctx context.Context, q RevokeRequest) (*Revoked, error) {
	return call[Revoked](ctx, c, wire.API("user", "revoke", c.user), q)
}

// TokenRevoke ends a token for good, within a second on every master, and cancels its open jobs.
func (c *Client) TokenRevoke(ctx context.Context, name string) (*TokenRevoked, error) {
	return call[TokenRevoked](ctx, c, wire.API("token", "revoke", c.user), TokenName{name})
}
