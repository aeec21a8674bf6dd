package peel

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

const (
	askAgain      = 10 * time.Minute // how old an announced interval may be before a heartbeat asks for it again
	intervalHolds = 30 * time.Minute // how long an announced interval holds if no master answers
)

// rhythm is the time between two heartbeats as masters have announced it.
type rhythm struct {
	announced time.Duration
	at        time.Time // when it was announced; zero: never
}

// every returns the interval that holds. A peel whose masters have not answered for long goes back to the shortest one, by
// which masters of earlier versions go.
func (r rhythm) every(now time.Time) time.Duration {
	if r.at.IsZero() || now.Sub(r.at) >= intervalHolds {
		return wire.MinHeartbeat
	}
	return r.announced
}

// asks reports whether the next heartbeat is to ask for the interval.
func (r rhythm) asks(now time.Time) bool { return r.at.IsZero() || now.Sub(r.at) >= askAgain }

// beat sends heartbeats until ctx ends: one within 30 s after each connect, then one in each interval, with jitter. The first
// after a connect asks masters for the interval, and so does every heartbeat while what the peel knows is too old.
func (p *Peel) beat(ctx context.Context, nc *nats.Conn) {
	connected := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(connected)
	instance, dropped := wire.NewInstance(), p.outbox.Dropped()
	next := time.NewTimer(rand.N(wire.MinHeartbeat))
	defer next.Stop()
	var r rhythm
	asks := true
	for {
		select {
		case <-ctx.Done():
			return
		case <-connected:
			asks = true
			next.Reset(rand.N(wire.MinHeartbeat))
			continue
		case <-next.C:
		}
		now := time.Now()
		b := wire.Beat{Instance: instance, Every: r.every(now)}
		if asks = asks || r.asks(now); asks {
			if every, ok := p.ask(ctx, nc, b); ok {
				r, asks = rhythm{every, now}, false
			}
		} else if err := nc.Publish(wire.Heartbeat(p.wire), b.Encode()); err != nil {
			p.log.Debug("heartbeat not sent", "err", err)
		}
		next.Reset(aboutEvery(min(b.Every, r.every(now))) - time.Since(now))
		if n := p.outbox.Dropped(); n != dropped {
			dropped = n
			p.report()
		}
	}
}

// ask sends a heartbeat and returns the interval that a master answers with. ok is false if none does.
func (p *Peel) ask(ctx context.Context, nc *nats.Conn, b wire.Beat) (every time.Duration, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, acknowledgement)
	defer cancel()
	msg, err := nc.RequestWithContext(ctx, wire.Heartbeat(p.wire), b.Encode())
	if err == nil {
		every, err = wire.DecodeInterval(msg)
	}
	if err != nil {
		p.log.Debug("no interval of heartbeats announced", "err", err)
	}
	return every, err == nil
}
