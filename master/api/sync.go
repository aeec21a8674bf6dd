package api

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	syncWait   = 150 * time.Second // for an attempt to fetch, compile and publish
	leaderWait = 20 * time.Second  // for the next leader: the lease of a dead one ends after 15 s, and others try every 5 s
)

// SyncStatus asks what Git says and how far the fleet is with it.
func (c *Client) SyncStatus(ctx context.Context) (*status.Sync, error) {
	return syncing[status.Sync](ctx, c, "status", nil)
}

// SyncNow has the branch read at once and returns what came of it.
func (c *Client) SyncNow(ctx context.Context) (*status.Sync, error) {
	ctx, cancel := context.WithTimeout(ctx, syncWait)
	defer cancel()
	return syncing[status.Sync](ctx, c, "now", nil)
}

// SyncApprove lets a revision go on: one whose plan the guard has stopped, one at the gate of a wave, or one that a freeze
// holds.
func (c *Client) SyncApprove(ctx context.Context, q status.ApproveRequest) (*status.Sync, error) {
	return steering(ctx, c, "approve", q)
}

// SyncPause keeps new commits from the fleet until SyncResume.
func (c *Client) SyncPause(ctx context.Context) (*status.Sync, error) {
	return steering(ctx, c, "pause", nil)
}

// SyncResume ends a pause and has the newest commit brought to the fleet.
func (c *Client) SyncResume(ctx context.Context) (*status.Sync, error) {
	return steering(ctx, c, "resume", nil)
}

// SyncPin has a stored revision brought to the whole fleet and held. revision is its commit, or the beginning of it.
func (c *Client) SyncPin(ctx context.Context, revision string, untilNewer bool) (*status.Sync, error) {
	return steering(ctx, c, "pin", status.PinRequest{Revision: revision, UntilNewer: untilNewer})
}

// SyncUnpin ends a pin and has the newest commit brought to the fleet.
func (c *Client) SyncUnpin(ctx context.Context) (*status.Sync, error) {
	return steering(ctx, c, "unpin", nil)
}

// SyncRetry has a revision tried again that was rolled back. revision is its commit, or the beginning of it; empty: the newest.
func (c *Client) SyncRetry(ctx context.Context, revision string) (*status.Sync, error) {
	return steering(ctx, c, "retry", status.RetryRequest{Revision: revision})
}

// SyncAdopt has the fleet follow the repo, branch and path of the master that answers. q is what its status shows.
func (c *Client) SyncAdopt(ctx context.Context, q status.Adoption) (*status.Sync, error) {
	return steering(ctx, c, "adopt", q)
}

// SyncHistory asks what became of the revisions that were tried, the newest first.
func (c *Client) SyncHistory(ctx context.Context) ([]status.Attempt, error) {
	h, err := syncing[status.History](ctx, c, "history", nil)
	if err != nil {
		return nil, err
	}
	return h.Attempts, nil
}

// SyncPlan asks what the revision that waits would change. revision is its commit, or the beginning of it; empty: whichever
// waits. The code is [CodeNotFound] if no revision waits, or not that one.
func (c *Client) SyncPlan(ctx context.Context, revision string) (*status.Plan, error) {
	return syncing[status.Plan](ctx, c, "plan", status.PlanRequest{Revision: revision})
}

// SyncDocument asks what a peel was given, and how far it is with it.
func (c *Client) SyncDocument(ctx context.Context, peel target.PeelID) (*status.Document, error) {
	return syncing[status.Document](ctx, c, "diff", status.DocumentRequest{Peel: peel})
}

// RemovePeel takes away what is kept of a peel: facts, settings, its report. A peel that is online is refused unless
// force is set.
func (c *Client) RemovePeel(ctx context.Context, peel target.PeelID, force bool) error {
	_, err := steering(ctx, c, "remove", status.RemoveRequest{Peel: peel, Force: force})
	return err
}

// steering waits for what is asked for and for the attempt that follows from it.
func steering(ctx context.Context, c *Client, verb string, question any) (*status.Sync, error) {
	ctx, cancel := context.WithTimeout(ctx, syncWait)
	defer cancel()
	return syncing[status.Sync](ctx, c, verb, question)
}

// SyncPeels asks how far each peel is with the revision in force.
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
