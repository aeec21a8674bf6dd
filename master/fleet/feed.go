// Package fleet keeps an index of the fleet: the facts of all peels, and when each peel was last online. Make a [Fleet]
// with [New], run [Fleet.Run] on a goroutine of its own, and use [Fleet.Index] after [Fleet.WaitReady] has returned.
//
// # Facts
//
// The stream facts has the newest facts of every peel. A Feed reads the stream from the start and then follows it, so
// the index equals the stream; a peel whose message was deleted from the stream leaves the index. To miss no message,
// its consumer has heartbeats, it reads on after each gap in the sequence and after each reconnect, and it compares
// itself with the last sequence and the number of peels of the stream every ten seconds.
//
// The sender of a message is the last token of its subject, which the bus enforces. A message that contradicts its
// subject, is not facts, or exceeds a limit is refused and counted, and changes nothing; the earlier facts of the peel
// stay in the index until the next start. Refusals are logged at most once a minute for each peel. If two peel IDs have
// the same wire form, only one of them counts: the registered one, or else the first. The bucket identities has, for
// each wire ID, the peel's ID and the key to which its secrets are sealed ([Binding]).
//
// # Presence
//
// A peel is online from its last heartbeat or facts until three heartbeats are missing. If the server of the bus
// reports connections, a peel is online as soon as it connects, and offline as soon as its last connection ends
// ([Fleet.Connected]); heartbeats confirm that. Heartbeats are not stored: after a start the first ones are up to one
// interval away.
//
// The interval of heartbeats grows with the fleet, from 30 s to 10 min, so that all peels together send at most 300 a
// second, or 30 if the server reports connections. A peel requests the interval after each connect, and when the one
// that it knows is five minutes old: its heartbeat then has a reply subject. Every master whose index is complete
// replies with the interval for the number of peels in it, and the peel uses the first reply. Masters may reply with
// different intervals, because each heartbeat says when the next one comes, and masters use that.
//
// Each heartbeat has an ID that the peel's process chose at its start, so two processes under one peel ID are found
// ([Fleet.Duplicate]) about two intervals after both run.
//
// # Known gap
//
// Two copies of one process, such as in a virtual machine that was cloned while it ran, have the same ID and are not
// found.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/peel/loglimit"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// factsEvery is the least time between two changes of the facts of one peel that wake watchers. The index has the
// newest facts at any time.
const factsEvery = 10 * time.Second

// A Fleet keeps the index of a fleet. Its methods may be called from several goroutines.
type Fleet struct {
	nc       *nats.Conn
	log      *slog.Logger
	index    *peelindex.Index
	ready    chan struct{} // closed when the stream was read once
	refused  atomic.Uint64
	refusals *loglimit.Limiter
	lookup   func(ctx context.Context, wireID string) (Registration, error)

	mu          sync.Mutex
	connections bool                     // the server reports connections
	since       time.Time                // when the feed began to receive heartbeats, at the latest connection
	turn        uint64                   // of [Fleet.Presences]
	seen        map[string]*seen         // by wire ID
	alternated  map[string]*seen         // peels in seen that may be duplicates
	ids         map[string]target.PeelID // peels in the index, by wire ID
	bound       bindings
	watchers    map[chan struct{}]struct{}
	woken       map[string]time.Time // when the facts of a peel woke the watchers last, or will, by wire ID
}

// New makes a feed with an empty index; Run fills it.
func New(nc *nats.Conn, log *slog.Logger) *Fleet {
	return &Fleet{
		nc:         nc,
		log:        log,
		refusals:   loglimit.New(log),
		index:      peelindex.New(),
		ready:      make(chan struct{}),
		seen:       map[string]*seen{},
		alternated: map[string]*seen{},
		ids:        map[string]target.PeelID{},
		bound:      bindings{known: map[string]bound{}, inFacts: map[string]string{}},
		lookup:     func(context.Context, string) (Registration, error) { return Registration{}, nil },
		watchers:   map[chan struct{}]struct{}{},
		woken:      map[string]time.Time{},
	}
}

// Index returns the index. It is complete when [Fleet.WaitReady] has returned.
func (f *Fleet) Index() *peelindex.Index { return f.index }

// WaitReady blocks until all facts that were stored when Run began are in the index. The error is the error of ctx.
func (f *Fleet) WaitReady(ctx context.Context) error {
	select {
	case <-f.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cannot read the facts of the fleet: %w", context.Cause(ctx))
	}
}

// isReady reports whether the index is complete.
func (f *Fleet) isReady() bool {
	select {
	case <-f.ready:
		return true
	default:
		return false
	}
}

// Refused returns the number of messages that were refused since New.
func (f *Fleet) Refused() uint64 { return f.refused.Load() }

// Watch returns a channel that receives after the index or a key has changed, once for all changes since the last
// receive. The facts of one peel wake it every 10 s at most, so that no peel keeps the watchers busy: those that change
// again before wake it when the 10 s are over. It stops when ctx ends; the channel is not closed.
func (f *Fleet) Watch(ctx context.Context) <-chan struct{} {
	c := make(chan struct{}, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watchers[c] = struct{}{}
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watchers, c)
	})
	return c
}

// Run follows the fleet until ctx ends, and then returns nil. Errors of the bus are logged and retried, except that a
// closed connection is returned as an error.
func (f *Fleet) Run(ctx context.Context) error {
	js, err := jetstream.New(f.nc)
	if err != nil {
		return fmt.Errorf("cannot follow the facts of the fleet: %w", err)
	}
	heartbeats, err := f.nc.SubscribeSync(wire.AllHeartbeats)
	if err != nil {
		return fmt.Errorf("cannot follow the heartbeats of the fleet: %w", err)
	}
	defer func() { _ = heartbeats.Unsubscribe() }()
	f.setSince(time.Now())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { f.listen(ctx, heartbeats) })
	reader := f.reader(js)
	wg.Go(func() {
		select {
		case <-reader.Ready():
			close(f.ready)
		case <-ctx.Done():
		}
	})
	return reader.Run(ctx)
}

// listen receives heartbeats until ctx ends or the connection is closed.
func (f *Fleet) listen(ctx context.Context, sub *nats.Subscription) {
	for {
		msg, err := sub.NextMsgWithContext(ctx)
		switch {
		case err == nil:
			f.onHeartbeat(msg, time.Now())
		case errors.Is(err, nats.ErrSlowConsumer):
		default:
			return
		}
	}
}

// put stores the facts of a peel in the index.
func (f *Fleet) put(wireID string, facts wire.Facts) {
	f.mu.Lock()
	before, renamed := f.ids[wireID]
	f.ids[wireID] = facts.Peel
	if before != facts.Peel {
		f.turn++
	}
	changed := f.bound.inFacts[wireID] != facts.Key
	f.bound.inFacts[wireID] = facts.Key
	pending := facts.Key != "" && facts.Key != f.bound.known[wireID].Key
	f.mu.Unlock()
	if pending {
		f.refusals.Warn(
			wireID+" key",
			"the sealing key of a peel is not the bound one, or is not signed: its secrets are not sealed to it",
			"peel", facts.Peel, "key", facts.Key,
		)
	}
	if renamed && before != facts.Peel { // the earlier ID was removed, or never registered
		changed = f.index.Remove(before) || changed
	}
	if f.index.Put(facts.Peel, facts.Facts) || changed {
		f.changedBy(wireID)
	}
}

// changedBy wakes all watchers after a change of one peel: now, or factsEvery after its last change that woke them.
func (f *Fleet) changedBy(wireID string) {
	f.mu.Lock()
	now, last := time.Now(), f.woken[wireID]
	if last.After(now) { // they will be woken anyway
		f.mu.Unlock()
		return
	}
	pause := max(factsEvery-now.Sub(last), 0)
	f.woken[wireID] = now.Add(pause)
	f.mu.Unlock()
	if pause == 0 {
		f.changed()
	} else {
		time.AfterFunc(pause, f.changed)
	}
}

// remove removes a peel from the index.
func (f *Fleet) remove(wireID string) {
	f.mu.Lock()
	id := f.ids[wireID]
	delete(f.ids, wireID)
	delete(f.bound.inFacts, wireID)
	delete(f.woken, wireID)
	f.mu.Unlock()
	if f.index.Remove(id) {
		f.changed()
	}
}

// changed wakes all watchers.
func (f *Fleet) changed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.watchers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
