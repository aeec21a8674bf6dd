package api

import (
	"context"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// PeelKey names a peel and its waiting sealing key.
type PeelKey struct {
	Peel target.PeelID `json:"peel"`
	Key  string        `json:"key"`
}

// PeelRekey approves the waiting sealing key of a peel.
func (c *Client) PeelRekey(ctx context.Context, q PeelKey) (*Peel, error) {
	return call[Peel](ctx, c, wire.API("peel", "rekey", c.user), q)
}
