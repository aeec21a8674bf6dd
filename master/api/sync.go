package api

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/status"
)

const (
	syncWait = 150 * time.Second // for an attempt to fetch, compile and publish
	// for the next leader: the lease of a dead one ends after 15 s, and others try every 5 s
	leaderWait = 20 * time.Second
)

// SyncPeels returns, for each peel, whether it has applied the current revision.
func (c *Client) SyncPeels(ctx context.Context) ([]status.Peel, error) {
	all := []status.Peel{}
	for q := (status.PeelsRequest{}); ; {
		page, err := SyncPeels.Ask(ctx, c, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Peels...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return all, nil
		}
	}
}

// SyncStates returns, for each peel whose settings have states, its newest run of all of them.
func (c *Client) SyncStates(ctx context.Context) ([]status.States, error) {
	all := []status.States{}
	for q := (status.PeelsRequest{}); ; {
		page, err := SyncStates.Ask(ctx, c, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Peels...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return all, nil
		}
	}
}

// askLeader sends a request to the master that leads. If none replies because the leader has just died, it waits for
// the next. It waits longer for the consequences of an order.
func (c *Client) askLeader(ctx context.Context, verb string, question, answer any) error {
	if !wire.Reads(verb) {
		limited, cancel := context.WithTimeout(ctx, syncWait)
		defer cancel()
		ctx = limited
	}
	subject := wire.API("sync", verb, c.user)
	absent := requestError(subject, nats.ErrNoResponders).Error()
	for giveUp := time.Now().Add(leaderWait); ; {
		err := c.ask(ctx, subject, question, answer)
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeUnavailable || e.Msg != absent {
			return err
		}
		h, err := MasterShow.Ask(ctx, c, None{})
		switch {
		case err == nil && !h.Led:
			return fail(CodeUnavailable, nil, "no settings service answers: no master runs with a config repo")
		case err != nil || time.Now().After(giveUp):
			const text = "no settings service answers: no master leads just now, ask again in %s"
			return fail(CodeUnavailable, nil, text, leaderWait)
		}
	}
}
