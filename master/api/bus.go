package api

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// BusShow returns what the bus keeps.
func (c *Client) BusShow(ctx context.Context) (*bucket.Kept, error) {
	return call[bucket.Kept](ctx, c, wire.API("bus", "show", c.user), struct{}{})
}

// BusSet changes what the bus keeps, and returns that; 0 means that a number stays.
func (c *Client) BusSet(ctx context.Context, wanted bucket.Kept) (*bucket.Kept, error) {
	return call[bucket.Kept](ctx, c, wire.API("bus", "set", c.user), wanted)
}
