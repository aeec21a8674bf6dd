package api

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// Rotatable is a secret of the masters that can be replaced while the fleet works.
type Rotatable string

// What can be rotated.
const (
	RotateKeys Rotatable = "keys" // that sign the credentials of the bus
	RotateCA   Rotatable = "ca"   // that signs the certificates of the listeners
)

// A RotateRequest names the secret to rotate or retire.
type RotateRequest struct {
	What  Rotatable `json:"what"`
	Force bool      `json:"force,omitempty"` // retire although credentials of the former are in use
}

// RotateAnswer is the state after a rotation.
type RotateAnswer struct {
	What     Rotatable            `json:"what"`
	Rotation *credential.Rotation `json:"rotation,omitempty"` // of keys
	Pin      string               `json:"pin,omitempty"`      // of the authority
}

// Rotate makes new secrets; the former ones stay valid until Retire.
func (c *Client) Rotate(ctx context.Context, q RotateRequest) (*RotateAnswer, error) {
	return call[RotateAnswer](ctx, c, wire.API("auth", "rotate", c.user), q)
}

// Retire ends the former secrets.
func (c *Client) Retire(ctx context.Context, q RotateRequest) (*RotateAnswer, error) {
	return call[RotateAnswer](ctx, c, wire.API("auth", "retire", c.user), q)
}
