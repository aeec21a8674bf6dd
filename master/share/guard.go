package share

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// kept is how many messages stay, the newest, of a peel whose surplus is removed.
const kept = 64

// A Guard removes what peels put into the stream job-events beyond their share. Make it with [NewGuard] and call Run
// once.
type Guard struct {
	js       jetstream.JetStream
	log      *slog.Logger
	refusals *wire.Refusals
	room     *Room
	stream   string
	removed  atomic.Uint64
	woken    chan struct{} // one slot

	mu   sync.Mutex
	over map[string]struct{} // peels, by their wire IDs, that were beyond their share
}

// NewGuard returns a guard of the stream of that name, which holds what is said about jobs under its own subjects. It
// starts nothing.
func NewGuard(js jetstream.JetStream, stream string, log *slog.Logger) *Guard {
	return &Guard{
		js: js, log: log, refusals: wire.NewRefusals(log), room: NewRoom(js, stream), stream: stream,
		woken: make(chan struct{}, 1), over: map[string]struct{}{},
	}
}

// Heard accounts for a message that its sender, the last token of the subject, has put into the stream. It never waits:
// the first message has [Guard.Run] ask for the size of the stream, and nobody is beyond his share before that is known.
func (g *Guard) Heard(subject string, bytes int) {
	peel := wire.Sender(subject)
	within, known := g.room.account(peel, len(subject)+bytes)
	if within {
		return
	}
	if known {
		g.mu.Lock()
		g.over[peel] = struct{}{}
		g.mu.Unlock()
	}
	select {
	case g.woken <- struct{}{}:
	default:
	}
}

// Removed is how often the surplus of a peel was removed.
func (g *Guard) Removed() uint64 { return g.removed.Load() }

// Run works until ctx ends.
func (g *Guard) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.woken:
		}
		g.relieve(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(askEvery):
		}
	}
}

// relieve removes the surplus of those who were beyond their share since the last time, if that harms others.
func (g *Guard) relieve(ctx context.Context) {
	g.mu.Lock()
	over := maps.Clone(g.over)
	clear(g.over)
	g.mu.Unlock()
	crowded, err := g.room.Crowded(ctx)
	if err != nil {
		g.log.Warn("surplus of peels not looked for", "err", err)
	}
	if !crowded {
		return
	}
	for peel := range over {
		if err := g.remove(ctx, peel); err != nil {
			g.log.Warn("surplus of a peel not removed", "peel", peel, "stream", g.stream, "err", err)
			continue
		}
		g.removed.Add(1)
		g.refusals.Warn(peel, "surplus of a peel removed, the stream is crowded", "peel", peel, "stream", g.stream)
	}
}

func (g *Guard) remove(ctx context.Context, peel string) error {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	stream, err := g.js.Stream(ctx, g.stream)
	if err != nil {
		return err
	}
	return stream.Purge(ctx, jetstream.WithPurgeSubject(wire.SaidBy(peel)), jetstream.WithPurgeKeep(kept))
}
