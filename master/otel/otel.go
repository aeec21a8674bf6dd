// Package otel sends a span for each ended job and each run to a collector of OpenTelemetry, over OTLP/HTTP with JSON.
// Call [New], then [Exporter.Run] in each master that has a collector.
//
// A dispatched job is a span, and the run on each of its targets a span below it. A run of a schedule is a span of its
// own, with entry, commit and peel. Arguments and results are never sent; of the error of a run the first 256 bytes
// are.
//
// Guarantees:
//   - Jobs never wait for the collector. Masters read ended jobs from the stream job-events, with one durable consumer
//     for all masters, so each event is sent by one of them, and what ended while no master ran is sent afterwards.
//   - IDs of traces and spans are computed from the IDs of jobs and the names of peels. A span that is sent twice,
//     because an answer was lost, has the same IDs.
//   - A span is sent again, after growing pauses, until the collector takes it or refuses its content, or [MaxAge] has
//     passed. The memory is bounded: a master holds [MaxBatch] events at a time, the others wait in the stream. Dropped
//     spans are counted.
//   - Commit, file and author of a run are sent only where the report proves them, as in job records.
//
// Known gaps: returns that come after the end of their job have no span. A peel that reports a run under the ID of
// another job adds its span to the trace of that job; the span has the name of that peel.
package otel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/peel/loglimit"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
)

// Bounds of what an exporter holds and waits for.
const (
	MaxBatch = 256            // ended jobs and reports that a master holds at a time
	MaxRuns  = 10_000         // runs of one job that have a span
	MaxAge   = 24 * time.Hour // after which a span is dropped that no collector took
)

const (
	consumerName = "otel-spans"

	maxBytes    = 4 << 20          // of the events of a batch
	gatherTime  = 2 * time.Second  // for which a batch waits for more events
	maxRequest  = 512              // spans in one request to the collector
	maxAnswer   = 64 << 10         // bytes of its answer
	firstPause  = time.Second      // before a request is repeated
	lastPause   = time.Minute      // likewise, after further failures
	busWait     = 10 * time.Second // for an answer of the bus
	unacked     = 16 * MaxBatch    // events that all masters hold
	ackWait     = 3 * lastPause    // after which the events of a master that stopped go to another
	unusedLimit = 7 * 24 * time.Hour
)

// Options are the options of an Exporter.
type Options struct {
	URL         string            // of traces, such as https://otel.example.com:4318/v1/traces
	HeadersFile string            // file of mode 0600 with a line NAME: VALUE for each header; empty: none
	Transport   http.RoundTripper // nil: [http.DefaultTransport]
	Log         *slog.Logger      // nil: nothing is logged
}

// An Exporter sends spans. Make it with [New] and call Run once.
type Exporter struct {
	o        Options
	host     string // of the URL, for the log
	client   *outbound.Client
	failures *loglimit.Limiter
	counts   counts
}

// counts are what the metrics show.
type counts struct {
	sent, refused, expired, leftOut, unreadable atomic.Uint64
	failed                                      atomic.Uint64 // requests
	waiting                                     atomic.Uint64 // events
}

// New checks the options. It starts nothing. The file of headers must be readable, so that a mistake in it shows at the
// start.
func New(o Options) (*Exporter, error) {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil, u.Host == "", u.Scheme != "http" && u.Scheme != "https", u.Fragment != "":
		return nil, fmt.Errorf(
			"cannot send spans to %q: want an http or https URL such as https://otel.example.com:4318/v1/traces", o.URL,
		)
	case u.User != nil:
		return nil, fmt.Errorf("cannot send spans to %s: its credential belongs into headers_file", u.Redacted())
	case u.Path == "" || u.Path == "/":
		return nil, fmt.Errorf("cannot send spans to %s: the path is missing, which mostly is /v1/traces", o.URL)
	case o.HeadersFile != "" && u.Scheme == "http" && !outbound.Loopback(u.Host):
		return nil, fmt.Errorf(
			"cannot send the headers in %s to %s: over http everybody on the way could read them; use https",
			o.HeadersFile, o.URL,
		)
	}
	if o.HeadersFile != "" {
		if _, err := readHeaders(o.HeadersFile); err != nil {
			return nil, err
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Exporter{o: o, host: u.Host, client: outbound.New(o.Transport), failures: loglimit.New(o.Log)}, nil
}

// Run sends spans until ctx ends, and then returns nil. Jobs that end before the first call of any master have no
// spans. Errors of the bus are logged and tried again; a closed connection is an error.
func (e *Exporter) Run(ctx context.Context, nc *nats.Conn) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("cannot send spans: %w", err)
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		began := time.Now()
		err := e.follow(ctx, js)
		if ctx.Err() != nil {
			return nil
		}
		if nc.IsClosed() {
			return errors.New("cannot send spans: the connection to the bus is closed")
		}
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		e.failures.Warn("bus", "spans wait: ended jobs cannot be read", "err", err)
		if !wait(ctx, pause) {
			return nil
		}
	}
}

// wait waits for pause, and returns false if ctx ends first.
func wait(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// A follower reads the events of one connection to the stream.
type follower struct {
	*Exporter
	consumer jetstream.Consumer
	store    *job.Store
	key      settings.ProofKey
}

// follow sends the spans of events until ctx ends or the stream cannot be read.
func (e *Exporter) follow(ctx context.Context, js jetstream.JetStream) error {
	f, err := e.open(ctx, js)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		events, err := f.fetch(ctx)
		if len(events) > 0 {
			f.send(ctx, events)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *Exporter) open(ctx context.Context, js jetstream.JetStream) (*follower, error) {
	ctx, cancel := context.WithTimeout(ctx, busWait)
	defer cancel()
	f := &follower{Exporter: e}
	rollout, err := js.KeyValue(ctx, wire.BucketRollout)
	if err != nil {
		return nil, fmt.Errorf("cannot read the key that proves origins: %w", err)
	}
	if f.key, err = settings.LoadProofKey(ctx, rollout); err != nil {
		return nil, err
	}
	if f.store, err = job.NewStore(ctx, js); err != nil {
		return nil, err
	}
	f.consumer, err = js.CreateOrUpdateConsumer(ctx, wire.StreamJobEvents, jetstream.ConsumerConfig{
		Durable:           consumerName,
		FilterSubjects:    []string{wire.StatusOf("*"), wire.AllScheduled},
		DeliverPolicy:     jetstream.DeliverNewPolicy,
		AckPolicy:         jetstream.AckExplicitPolicy,
		AckWait:           ackWait,
		MaxDeliver:        -1,
		MaxAckPending:     unacked,
		InactiveThreshold: unusedLimit, // if no master sends spans any more
	})
	if err != nil {
		return nil, fmt.Errorf("cannot use the consumer %s: %w", consumerName, err)
	}
	return f, nil
}

// fetch takes the next events.
func (f *follower) fetch(ctx context.Context) (events []jetstream.Msg, err error) {
	if err := f.countWaiting(ctx); err != nil {
		return nil, err
	}
	gathering, cancel := context.WithTimeout(ctx, gatherTime)
	defer cancel()
	batch, err := f.consumer.Fetch(MaxBatch, jetstream.FetchMaxBytes(maxBytes), jetstream.FetchContext(gathering))
	if err != nil {
		return nil, err
	}
	for m := range batch.Messages() {
		events = append(events, m)
	}
	if err := batch.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return events, err
	}
	return events, nil
}

// countWaiting refreshes the number of events whose spans the collector has not.
func (f *follower) countWaiting(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, busWait)
	defer cancel()
	info, err := f.consumer.Info(ctx)
	if err != nil {
		return fmt.Errorf("cannot read the state of the consumer %s: %w", consumerName, err)
	}
	f.counts.waiting.Store(info.NumPending + uint64(info.NumAckPending))
	return nil
}

// send sends the spans of events and acknowledges each event after its last span. An event whose spans cannot be read
// comes again later. If ctx ends, the others go to another master.
func (f *follower) send(ctx context.Context, events []jetstream.Msg) {
	var spans []span
	var read []jetstream.Msg // their spans are in spans alone
	for i, m := range events {
		of, err := f.spansOf(ctx, m)
		if err != nil {
			f.failures.Warn("bus", "spans wait: the returns of a job cannot be read", "subject", m.Subject(), "err",
				err)
			_ = m.NakWithDelay(lastPause)
		} else {
			spans, read = append(spans, of...), append(read, m)
		}
		if len(spans) < maxRequest && i < len(events)-1 {
			continue
		}
		rest := events[i+1:]
		for part := range slices.Chunk(spans, maxRequest) {
			if !f.deliver(ctx, part, slices.Concat(read, rest)) {
				for _, m := range slices.Concat(read, rest) {
					_ = m.Nak()
				}
				return
			}
		}
		for _, m := range read {
			_ = m.Ack() // else it comes again
		}
		spans, read = nil, nil
	}
}

// deliver posts spans until they are taken, refused or too old. It returns false if ctx ends first. Meanwhile it tells
// the bus that this master still works on the open events.
func (f *follower) deliver(ctx context.Context, spans []span, open []jetstream.Msg) bool {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		if spans = f.dropExpired(spans); len(spans) == 0 {
			return true
		}
		refused, err := f.post(ctx, spans)
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			f.counts.refused.Add(refused)
			f.counts.sent.Add(uint64(len(spans)) - refused)
			return true
		}
		f.counts.failed.Add(1)
		failure, _ := errors.AsType[*outbound.Error](err)
		if failure != nil && failure.Final && failure.Status != 0 {
			f.counts.refused.Add(uint64(len(spans)))
			f.failures.Warn("refused", "spans dropped: the collector refuses them", "collector", f.host, "spans",
				len(spans), "err", err)
			return true
		}
		if failure != nil {
			pause = max(pause, failure.After)
		}
		f.failures.Warn("collector", "spans wait: the collector did not take them", "collector", f.host, "wait",
			pause, "err", err)
		for rest := pause; rest > 0; rest -= lastPause { // a server may ask for an hour
			for _, m := range open {
				_ = m.InProgress()
			}
			if !wait(ctx, min(rest, lastPause)) {
				return false
			}
		}
		_ = f.countWaiting(ctx) // the next fetch reports an error
	}
}

// dropExpired returns the spans that are not older than [MaxAge], and counts the others.
func (f *follower) dropExpired(spans []span) []span {
	kept := make([]span, 0, len(spans))
	for _, s := range spans {
		if time.Since(s.stored) > MaxAge {
			f.counts.expired.Add(1)
			continue
		}
		kept = append(kept, s)
	}
	return kept
}
