package rest

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
)

const (
	readyFor  = time.Second // a result is reused for this long, because requests need no token
	readyTime = 2 * time.Second
)

// what a master that is ready can reach.
const resultsConsumer = "schedule-results"

var readyStreams = []string{
	wire.KV(wire.BucketActive), wire.KV(wire.BucketJobs), wire.KV(wire.BucketJobReturns), wire.KV(wire.BucketTokens),
	wire.StreamJobEvents, wire.StreamFacts,
}

// readiness checks whether the master can do its work: the bus answers and stores, the streams are there, have a leader
// and refuse nothing, and the consumer of scheduled results has a leader.
type readiness struct {
	js     jetstream.JetStream
	stored func() error

	mu  sync.Mutex
	at  time.Time
	err error // of the last check
}

func newReadiness(b Backend) *readiness { return &readiness{js: b.JetStream, stored: b.Stored} }

func (r *readiness) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if err := r.ready(req.Context()); err != nil {
		problem(w, http.StatusServiceUnavailable, sentence(err))
		return
	}
	alive(w, req)
}

func (r *readiness) ready(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.at.IsZero() || now.Sub(r.at) > readyFor {
		// The result is for other requests too, so the end of this request does not cancel the check.
		r.err = r.ask(context.WithoutCancel(ctx))
		r.at = time.Now()
	}
	return r.err
}

func (r *readiness) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	if !r.js.Conn().IsConnected() {
		return fmt.Errorf("the bus is away: %v", r.js.Conn().Status())
	}
	if r.stored != nil {
		if err := r.stored(); err != nil {
			return err
		}
	}
	for _, name := range readyStreams {
		stream, err := r.js.Stream(ctx, name)
		if err != nil {
			return fmt.Errorf("the stream %s does not answer: %w", name, err)
		}
		if full := bucket.UsageOf(stream.CachedInfo()); full.Err() != nil {
			return full.Err()
		}
	}
	if _, err := r.js.Consumer(ctx, wire.StreamJobEvents, resultsConsumer); err != nil {
		return fmt.Errorf("the consumer %s does not answer: %w", resultsConsumer, err)
	}
	return nil
}
