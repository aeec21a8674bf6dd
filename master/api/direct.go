package api

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Why a peel that was asked directly gave no answer.
var (
	ErrNotConnected = errors.New("the peel is not connected")
	ErrNoAnswer     = errors.New("the peel did not answer in time")
)

// Direct asks one peel to run a function, without a master and without a record, and returns what it answered within
// q.TimeLeft. What runs by then goes on, and nobody is told how it ended. The error wraps [ErrNotConnected] or
// [ErrNoAnswer] where the peel said nothing. Credentials of the role direct may do this.
func (c *Client) Direct(ctx context.Context, id target.PeelID, q wire.DirectRequest) (*wire.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, q.TimeLeft)
	defer cancel()
	q.V = wire.Version
	data, err := canon.Marshal(q)
	if err != nil {
		return nil, fail(CodeInvalid, err, "cannot ask %s", id)
	}
	if limit := c.nc.MaxPayload(); int64(len(data)) > limit {
		return nil, fail(CodeInvalid, nil, "cannot ask %s: the request takes %d bytes, the bus carries %d", id, len(data), limit)
	}
	subject := wire.Direct(id.Wire(), c.user)
	msg, err := c.request(ctx, subject, data)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, fail(CodeUnavailable, ErrNotConnected, "cannot ask %s", id)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fail(CodeUnavailable, ErrNoAnswer, "cannot ask %s", id)
	case err != nil:
		return nil, requestError(subject, err)
	}
	a, err := wire.DecodeDirectAnswer(msg, id)
	if err != nil {
		return nil, fail(CodeUnavailable, err, "cannot read the answer of %s", id)
	}
	return &a.Result, nil
}
