package api

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Why a direct request got no answer.
var (
	ErrNotConnected = errors.New("the peel is not connected")
	ErrNoAnswer     = errors.New("the peel did not answer in time")
)

// Direct requests that one peel runs a function, without a master and without a record, and returns its answer within
// q.TimeLeft. A function that takes longer goes on, and its result is lost. The error wraps [ErrNotConnected] or
// [ErrNoAnswer] if the peel does not answer. It needs a credential of the role direct.
func (c *Client) Direct(ctx context.Context, id target.PeelID, q wire.DirectRequest) (*wire.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, q.TimeLeft)
	defer cancel()
	q.V = wire.Version
	data, err := canon.Marshal(q)
	if err != nil {
		return nil, fail(CodeInvalid, err, "cannot ask %s", id)
	}
	if limit := c.nc.MaxPayload(); int64(len(data)) > limit {
		return nil, fail(CodeInvalid, nil, "cannot ask %s: the request takes %d bytes, the bus carries %d", id,
			len(data), limit)
	}
	subject := wire.Direct(id.Wire(), c.user)
	msg, err := c.requestDirect(ctx, id, data)
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

// requestDirect sends a direct request and waits for the answer on a subject made for it. Where nothing listens, the
// error is [nats.ErrNoResponders]; where the credential may not ask directly, it wraps [nats.ErrPermissionViolation].
func (c *Client) requestDirect(ctx context.Context, id target.PeelID, data []byte) (*nats.Msg, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	subject, answer := wire.Direct(id.Wire(), c.user), wire.AnswerOf(c.user, string(wire.NewJID()), id.Wire())
	defer c.denials.watch(subject, cancel)()
	defer c.denials.watch(answer, cancel)()
	sub, err := c.nc.SubscribeSync(answer)
	if err != nil {
		return nil, err
	}
	// fails where the connection is closed, which ends the subscription as well
	defer func() { _ = sub.Unsubscribe() }()
	if err := c.nc.PublishRequest(subject, answer, data); err != nil {
		return nil, err
	}
	msg, err := sub.NextMsgWithContext(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, nats.ErrPermissionViolation) {
		return nil, cause
	}
	return msg, err
}
