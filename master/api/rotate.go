package api

import (
	"context"
	"fmt"

	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// Rotatable is what of a master's secrets can be made anew while the fleet works.
type Rotatable string

// What can be rotated.
const (
	RotateKeys Rotatable = "keys" // that sign the credentials of the bus
	RotateCA   Rotatable = "ca"   // that signs the certificates of the listeners
)

// RotateRequest says what is to be rotated, or retired.
type RotateRequest struct {
	What  Rotatable `json:"what"`
	Force bool      `json:"force,omitempty"` // retire although credentials of the former are in use
}

// RotateAnswer says what there is now.
type RotateAnswer struct {
	What     Rotatable      `json:"what"`
	Rotation *auth.Rotation `json:"rotation,omitempty"` // of keys
	Pin      string         `json:"pin,omitempty"`      // of the authority
}

func (s *Server) rotateEndpoints() map[string]endpoint {
	a := s.o.Authority
	do := func(keys func(context.Context, RotateRequest) (*auth.Rotation, error), ca func() (string, error)) func(context.Context, grants.Caller, RotateRequest) (*RotateAnswer, error) {
		return func(ctx context.Context, _ grants.Caller, q RotateRequest) (answer *RotateAnswer, err error) {
			answer = &RotateAnswer{What: q.What}
			switch q.What {
			case RotateKeys:
				answer.Rotation, err = keys(ctx, q)
			case RotateCA:
				answer.Pin, err = ca()
			default:
				err = fmt.Errorf("%w: there is nothing called %.40q that could be rotated", auth.ErrUserInvalid, q.What)
			}
			return answer, err
		}
	}
	return map[string]endpoint{
		"auth-rotate": {wire.API("auth", "rotate", "*"), act(s, "auth.rotate", do(func(ctx context.Context, _ RotateRequest) (*auth.Rotation, error) {
			return a.RotateKeys(ctx)
		}, a.RotateCA))},
		"auth-retire": {wire.API("auth", "retire", "*"), act(s, "auth.retire", do(func(ctx context.Context, q RotateRequest) (*auth.Rotation, error) {
			return a.RetireKeys(ctx, q.Force)
		}, a.RetireCA))},
	}
}

// Rotate makes new secrets; the former ones stay valid until Retire.
func (c *Client) Rotate(ctx context.Context, q RotateRequest) (*RotateAnswer, error) {
	return call[RotateAnswer](ctx, c, wire.API("auth", "rotate", c.user), q)
}

// Retire ends the former secrets.
func (c *Client) Retire(ctx context.Context, q RotateRequest) (*RotateAnswer, error) {
	return call[RotateAnswer](ctx, c, wire.API("auth", "retire", c.user), q)
}
