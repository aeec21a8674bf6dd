package api

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// AuditList returns a page of the audit log.
func (c *Client) AuditList(ctx context.Context, q audit.Query) (*audit.Page, error) {
	return call[audit.Page](ctx, c, wire.API("audit", "list", c.user), q)
}
