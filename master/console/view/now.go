package view

import (
	"context"
	"sync"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// Now is whether anything is wrong, with what else its page shows.
type Now struct {
	*api.Now
	History api.Extra[status.History] `json:"-"`
	Audit   api.Extra[audit.Page]     `json:"-"`
}

// auditTail is how many entries of the audit log Now shows.
const auditTail = 5

// NowOf returns what is wrong now.
func NowOf(ctx context.Context, by api.Asker) (*Now, error) {
	now, err := api.NowShow.Ask(ctx, by, api.None{})
	if err != nil {
		return nil, err
	}
	n := &Now{Now: now}
	var asking sync.WaitGroup
	asking.Go(func() { n.History = api.SyncHistory.Extra(ctx, by, api.None{}) })
	n.Audit = api.AuditList.Extra(ctx, by, audit.Query{Limit: auditTail, NoLogins: true})
	asking.Wait()
	return n, nil
}
