package api

import (
	"context"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/propose/schedules"
)

// scheduleWait is how long a change of the config repo may take: a fetch, a compile and a push, behind those that were asked before.
const scheduleWait = 150 * time.Second

// ScheduleAdd adds an entry to the config repo. With a key the request can be repeated after an error.
func (c *Client) ScheduleAdd(ctx context.Context, q schedules.Add) (*schedules.Changed, error) {
	return changing(ctx, c, "add", q)
}

// ScheduleRemove removes an entry from the config repo.
func (c *Client) ScheduleRemove(ctx context.Context, q schedules.Change) (*schedules.Changed, error) {
	return changing(ctx, c, "remove", q)
}

// ScheduleEnable enables or disables an entry in the config repo.
func (c *Client) ScheduleEnable(ctx context.Context, q schedules.Change, enabled bool) (*schedules.Changed, error) {
	if enabled {
		return changing(ctx, c, "enable", q)
	}
	return changing(ctx, c, "disable", q)
}

func changing(ctx context.Context, c *Client, verb string, q any) (*schedules.Changed, error) {
	ctx, cancel := context.WithTimeout(ctx, scheduleWait)
	defer cancel()
	return call[schedules.Changed](ctx, c, wire.API("schedule", verb, c.user), q)
}

// Schedules returns a page of the entries of the config repo.
func (c *Client) Schedules(ctx context.Context, q schedules.Query) (*schedules.Page, error) {
	return call[schedules.Page](ctx, c, wire.API("schedule", "list", c.user), q)
}
