package api

import (
	"context"
	"fmt"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// PeelKey names a peel and the sealing key that it waits with.
type PeelKey struct {
	Peel target.PeelID `json:"peel"`
	Key  string        `json:"key"`
}

// rekey has secrets of a peel sealed to the key that its facts carry now.
func (s *Server) rekey(ctx context.Context, from grants.Caller, q PeelKey) (*Peel, error) {
	if _, ok := s.o.Fleet.Index().Get(q.Peel); !ok {
		return nil, fmt.Errorf("%w: %q has never told its facts", errNoPeel, q.Peel)
	}
	if err := s.o.Fleet.ApproveKey(ctx, q.Peel, q.Key, from.User); err != nil {
		return nil, err
	}
	p := s.peel(q.Peel)
	return &p, nil
}

// PeelRekey approves the sealing key that a peel waits with.
func (c *Client) PeelRekey(ctx context.Context, q PeelKey) (*Peel, error) {
	return call[Peel](ctx, c, wire.API("peel", "rekey", c.user), q)
}
