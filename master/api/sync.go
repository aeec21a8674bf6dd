package api

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	syncWait   = 150 * time.Second // for an attempt to fetch, compile and publish
	leaderWait = 20 * time.Second  // for the next leader: the lease of a dead one ends after 15 s, and others try every 5 s
)

// SyncStatus returns the state of the repo and of the rollout.
func (c *Client) SyncStatus(ctx context.Context) (*status.Sync, error) {
	return syncing[status.Sync](ctx, c, "status", nil)
}

// SyncNow fetches the branch now and returns the status after that.
func (c *Client) SyncNow(ctx context.Context) (*status.Sync, error) {
	ctx, cancel := context.WithTimeout(ctx, syncWait)
	defer cancel()
	return syncing[status.Sync](ctx, c, "now", nil)
}

// SyncApprove continues a revision: one whose plan exceeds a limit, one that waits before a wave, or one that a freeze holds.
func (c *Client) SyncApprove(ctx context.Context, q status.ApproveRequest) (*status.Sync, error) {
	return steering(ctx, c, "approve", q)
}

// SyncPause stops the rollout of new commits until SyncResume.
func (c *Client) SyncPause(ctx context.Context) (*status.Sync, error) {
	return steering(ctx, c, "pause", nil)
}

// SyncResume ends a pause and rolls out the newest commit.
func (c *Client) SyncResume(ctx context.Context) (*status.Sync, error) {
	return steering(ctx, c, "resume", nil)
}

// SyncPin rolls out a stored revision to the whole fleet and keeps it there. revision is its commit or the beginning of it.
func (c *Client) SyncPin(ctx context.Context, revision string, untilNewer bool) (*status.Sync, error) {
	return steering(ctx, c, "pin", status.PinRequest{Revision: revision, UntilNewer: untilNewer})
}

// SyncUnpin ends a pin and rolls out the newest commit.
func (c *Client) SyncUnpin(ctx context.Context) (*status.Sync, error) {
	return steering(ctx, c, "unpin", nil)
}

// SyncRetry rolls out a revision again that was rolled back. revision is its commit, or the beginning of it; empty: the newest.
func (c *Client) SyncRetry(ctx context.Context, revision string) (*status.Sync, error) {
	return steering(ctx, c, "retry", status.RetryRequest{Revision: revision})
}

// SyncAdopt makes the fleet follow the repo, branch and path of the master that replies. q is what its status shows.
func (c *Client) SyncAdopt(ctx context.Context, q status.Adoption) (*status.Sync, error) {
	return steering(ctx, c, "adopt", q)
}

// SyncHistory returns the rollouts and their results, newest first.
func (c *Client) SyncHistory(ctx context.Context) ([]status.Attempt, error) {
	h, err := syncing[status.History](ctx, c, "history", nil)
	if err != nil {
		return nil, err
	}
	return h.Attempts, nil
}

// SyncPlan returns what a waiting revision would change. revision is its commit, or the beginning of it; empty: any that
// waits. The code is [CodeNotFound] if no revision waits, or not that one.
func (c *Client) SyncPlan(ctx context.Context, revision string) (*status.Plan, error) {
	return syncing[status.Plan](ctx, c, "plan", status.PlanRequest{Revision: revision})
}

// SyncDocument returns the settings document of a peel, and whether the peel has applied it.
func (c *Client) SyncDocument(ctx context.Context, peel target.PeelID) (*status.Document, error) {
	return syncing[status.Document](ctx, c, "diff", status.DocumentRequest{Peel: peel})
}

// RemovePeel deletes the facts, the settings and the report of a peel. A peel that is online is refused unless force is set.
func (c *Client) RemovePeel(ctx context.Context, peel target.PeelID, force bool) error {
	_, err := steering(ctx, c, "remove", status.RemoveRequest{Peel: peel, Force: force})
	return err
}

// steering sends a command to the settings service and waits for the rollout attempt that follows.
func steering(ctx context.Context, c *Client, verb string, question any) (*status.Sync, error) {
	ctx, cancel := context.WithTimeout(ctx, syncWait)
	defer cancel()
	return syncing[status.Sync](ctx, c, verb, question)
}

// SyncPeels returns, for each peel, whether it has applied the current revision.
func (c *Client) SyncPeels(ctx context.Context) ([]status.Peel, error) {
	all := []status.Peel{}
	for q := (status.PeelsRequest{}); ; q.After = all[len(all)-1].Peel {
		page, err := syncing[status.PeelsPage](ctx, c, "peels", q)
		if err != nil {
			return nil, err
		}
		if all = append(all, page.Peels...); !page.More || len(page.Peels) == 0 {
			return all, nil
		}
	}
}

// SyncStates returns, for each peel whose settings have states, its newest run of all of them.
func (c *Client) SyncStates(ctx context.Context) ([]status.States, error) {
	all := []status.States{}
	for q := (status.PeelsRequest{}); ; q.After = all[len(all)-1].Peel {
		page, err := syncing[status.StatesPage](ctx, c, "states", q)
		if err != nil {
			return nil, err
		}
		if all = append(all, page.Peels...); !page.More || len(page.Peels) == 0 {
			return all, nil
		}
	}
}

// syncing sends a request to the settings service. If none answers because its leader has just died, it waits for the next.
func syncing[A any](ctx context.Context, c *Client, verb string, question any) (*A, error) {
	subject := wire.API("sync", verb, c.user)
	for giveUp := time.Now().Add(leaderWait); ; {
		a, err := call[A](ctx, c, subject, question)
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeUnavailable || e.Msg != requestError(subject, nats.ErrNoResponders).Error() {
			return a, err
		}
		h, err := c.Health(ctx)
		switch {
		case err == nil && !h.Led:
			return nil, fail(CodeUnavailable, nil, "no settings service answers: no master runs with a config repo")
		case err != nil || time.Now().After(giveUp):
			return nil, fail(CodeUnavailable, nil, "no settings service answers: no master leads just now, ask again in %s", leaderWait)
		}
	}
}
