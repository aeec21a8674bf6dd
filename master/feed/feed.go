// Package feed keeps an index of the fleet that is always current: what the
// peels publish about themselves, and when each was last heard.
//
// The stream facts holds the newest message of every peel. A Feed reads it
// from the start and then follows it, so that the index equals the stream; a
// peel whose message was deleted there leaves the index. The feed must not
// miss anything and must not stop in silence: its consumer sends heartbeats,
// each gap in the numbering and each reconnect makes it read on from what it
// has, and every few seconds it compares itself with the stream's last
// sequence and number of peels.
//
// Who a message is from is said by its subject alone, which the bus enforces.
// A message that contradicts its subject, that is no facts, or that is beyond
// the limits is refused and counted, and changes nothing; the peel's earlier facts stay
// in force until the next start. The log hears of it at most once a minute for
// each peel. Two IDs that have one form on the bus are one peel to it: the facts
// of the one that is registered count, or of the first where none is, and those
// of the other are refused. Which peel has a name, and which key its secrets are
// sealed to, is in the bucket identities ([Binding]).
//
// A peel is online while heartbeats or facts of it arrive, until three heartbeats
// are missing. Where the server of the bus reports connections, a peel is online
// from the moment that it connects, and offline from the moment that its last
// connection ends ([Feed.Connected]); heartbeats confirm that. Heartbeats are not
// stored: after a start the first ones are up to one interval away.
//
// The interval of heartbeats grows with the fleet, from 30 s to 10 min, so that
// all peels together send at most 300 a second, or 30 where the server reports
// connections. A peel asks for it: after each connect, and when what it knows is
// five minutes old, its heartbeat has a reply subject, and every master whose
// index is complete answers with the interval for the number of peels in it. The
// first answer holds. Masters of one bus count the same stream, so that they need
// not agree; where one of them owns the server and another does not, either of
// their intervals is right, because each heartbeat says when the next one comes
// and masters go by that alone.
//
// Each heartbeat carries a name that the peel's process made up when it started,
// so that two processes under one ID are found ([Feed.Duplicate]) about two
// intervals after both run. Two copies of one process, as of a virtual machine
// that was cloned while it ran, look like one.
package feed

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

// Feed is the live picture of a fleet. Its methods are safe for concurrent
// use.
type Feed struct {
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
	seen        map[string]*seen         // by wire ID
	alternated  map[string]*seen         // those of seen that may be duplicates
	ids         map[string]target.PeelID // whose facts are in the index, by wire ID
	bound       bindings
	watchers    map[chan struct{}]struct{}
}

// New makes a feed with an empty index; Run fills it.
func New(nc *nats.Conn, log *slog.Logger) *Feed {
	return &Feed{
		nc:         nc,
		log:        log,
		refusals:   loglimit.New(log),
		index:      peelindex.New(),
		ready:      make(chan struct{}),
		seen:       map[string]*seen{},
		alternated: map[string]*seen{},
		ids:        map[string]target.PeelID{},
		bound:      bindings{known: map[string]bound{}, told: map[string]string{}},
		lookup:     func(context.Context, string) (Registration, error) { return Registration{}, nil },
		watchers:   map[chan struct{}]struct{}{},
	}
}

// Index returns the index that the feed keeps current. Before WaitReady returns it
// lacks peels.
func (f *Feed) Index() *peelindex.Index { return f.index }

// WaitReady blocks until all facts that were stored when Run began are in the
// index. Its error is that of ctx.
func (f *Feed) WaitReady(ctx context.Context) error {
	select {
	case <-f.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cannot read the facts of the fleet: %w", context.Cause(ctx))
	}
}

// isReady reports whether the index is complete.
func (f *Feed) isReady() bool {
	select {
	case <-f.ready:
		return true
	default:
		return false
	}
}

// Refused returns the number of messages that were refused since New.
func (f *Feed) Refused() uint64 { return f.refused.Load() }

// Watch returns a channel that receives after the index or a key changed, once for any
// number of changes that nobody has looked at yet. It ends with ctx and is not
// closed then.
func (f *Feed) Watch(ctx context.Context) <-chan struct{} {
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

// Run follows the fleet until ctx ends, and then returns nil. Trouble with the
// bus is logged and outlasted, except that a closed connection is an error.
func (f *Feed) Run(ctx context.Context) error {
	js, err := jetstream.New(f.nc)
	if err != nil {
		return fmt.Errorf("cannot follow the facts of the fleet: %w", err)
	}
	heartbeats, err := f.nc.SubscribeSync(wire.AllHeartbeats)
	if err != nil {
		return fmt.Errorf("cannot follow the heartbeats of the fleet: %w", err)
	}
	defer func() { _ = heartbeats.Unsubscribe() }()
	f.listens(time.Now())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { f.listen(ctx, heartbeats) })
	r := reader{feed: f, js: js, known: map[string]int{}}
	return r.run(ctx)
}

// listen hears heartbeats until ctx ends or the connection is closed.
func (f *Feed) listen(ctx context.Context, sub *nats.Subscription) {
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
func (f *Feed) put(wireID string, facts wire.Facts) {
	f.mu.Lock()
	was, renamed := f.ids[wireID]
	f.ids[wireID] = facts.Peel
	changed := f.bound.told[wireID] != facts.Key
	f.bound.told[wireID] = facts.Key
	pending := facts.Key != "" && facts.Key != f.bound.known[wireID].Key
	f.mu.Unlock()
	if pending {
		f.refusals.Warn(wireID+" key", "the sealing key of a peel is not the bound one, or is not signed: its secrets are not sealed to it", "peel", facts.Peel, "key", facts.Key)
	}
	if renamed && was != facts.Peel { // the earlier ID was removed, or never registered
		changed = f.index.Remove(was) || changed
	}
	if f.index.Put(facts.Peel, facts.Facts) || changed {
		f.changed()
	}
}

// remove forgets a peel.
func (f *Feed) remove(wireID string) {
	f.mu.Lock()
	id := f.ids[wireID]
	delete(f.ids, wireID)
	delete(f.bound.told, wireID)
	f.mu.Unlock()
	if f.index.Remove(id) {
		f.changed()
	}
}

func (f *Feed) changed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.watchers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
