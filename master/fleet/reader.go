package fleet

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bus"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

const readTimeout = time.Minute // for all bindings

// reader returns what follows the stream.
func (f *Fleet) reader(js jetstream.JetStream) *bus.Follower {
	var r *bus.Follower
	r = bus.NewFollower(bus.FollowOptions{
		JetStream: js,
		Stream:    wire.StreamFacts,
		Subject:   wire.AllFacts,
		OnMessage: f.onFacts,
		OnRemoved: f.remove,
		Log:       f.log,
		Check: func(ctx context.Context) error {
			f.setSince(r.Health().Connected)
			f.forgetOffline()
			return f.refreshBindings(ctx)
		},
	})
	return r
}

// onFacts takes the facts of a peel. Facts that are refused change nothing. After another error they are read again.
func (f *Fleet) onFacts(ctx context.Context, m bus.FollowMessage) error {
	facts, err := wire.DecodeFacts(m.Msg)
	if err == nil {
		if err = f.admit(ctx, facts); err != nil && !errors.Is(err, ErrRefused) {
			return err
		}
	}
	if err != nil {
		f.refused.Add(1)
		f.refusals.Warn(m.Key, "facts refused", "peel", m.Key, "err", err)
		return nil
	}
	f.put(m.Key, facts)
	f.markSeen(m.Key, earlier(m.Stored, time.Now()))
	return nil
}

// earlier returns the earlier of two times. It keeps times of the server from lying ahead of this master's clock.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
