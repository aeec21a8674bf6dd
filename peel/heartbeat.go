package peel

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

const (
	intervalRefresh = 10 * time.Minute // age of an announced interval at which a heartbeat asks for it again
	intervalExpiry  = 30 * time.Minute // age at which it ends if no master has announced it again
)

// A heartbeatInterval is the time between two heartbeats that a master announced.
type heartbeatInterval struct {
	announced time.Duration
	at        time.Time // when it was announced; zero: never
}

// duration returns the interval in force. Without an announcement that is the shortest, which masters of earlier
// versions expect.
func (i heartbeatInterval) duration(now time.Time) time.Duration {
	if i.at.IsZero() || now.Sub(i.at) >= intervalExpiry {
		return wire.MinHeartbeat
	}
	return i.announced
}

// needsRefresh reports whether the next heartbeat has to ask for the interval.
func (i heartbeatInterval) needsRefresh(now time.Time) bool {
	return i.at.IsZero() || now.Sub(i.at) >= intervalRefresh
}

// sendHeartbeats sends heartbeats until ctx ends: one within 30 s after each connect, then one in each interval ± 10 %.
// The first after a connect asks masters for the interval, and so does every one while the announced interval is too
// old.
func (p *Peel) sendHeartbeats(ctx context.Context, nc *nats.Conn) {
	connected := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(connected)
	instance, dropped := wire.NewInstance(), p.outbox.Dropped()
	next := time.NewTimer(rand.N(wire.MinHeartbeat))
	defer next.Stop()
	var interval heartbeatInterval
	ask := true
	for {
		select {
		case <-ctx.Done():
			return
		case <-connected:
			ask = true
			next.Reset(rand.N(wire.MinHeartbeat))
			continue
		case <-next.C:
		}
		now := time.Now()
		b := wire.Beat{Instance: instance, Every: interval.duration(now)}
		if ask = ask || interval.needsRefresh(now); ask {
			if announced, ok := p.requestInterval(ctx, nc, b); ok {
				interval, ask = heartbeatInterval{announced, now}, false
			}
		} else if err := nc.Publish(wire.Heartbeat(p.o.ID.Wire()), b.Encode()); err != nil {
			p.log.Debug("heartbeat not sent", "err", err)
		}
		next.Reset(jitter(min(b.Every, interval.duration(now))) - time.Since(now))
		if n := p.outbox.Dropped(); n != dropped {
			dropped = n
			p.due.report.raise()
		}
	}
}

// requestInterval sends a heartbeat as a request and returns the interval that a master announces. ok is false if none
// does.
func (p *Peel) requestInterval(ctx context.Context, nc *nats.Conn, b wire.Beat) (interval time.Duration, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	msg, err := nc.RequestWithContext(ctx, wire.Heartbeat(p.o.ID.Wire()), b.Encode())
	if err == nil {
		interval, err = wire.DecodeInterval(msg)
	}
	if err != nil {
		p.log.Debug("no interval of heartbeats announced", "err", err)
	}
	return interval, err == nil
}
