package progress

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Run reads the reports of the peels on their settings, beginning with the newest of each, until ctx ends. It also
// returns when the reader ends; call it again then.
func (p *Progress) Run(ctx context.Context, js jetstream.JetStream) error {
	return p.follow(ctx, js, "applied", p.onReport)
}

// follow reads a stream with the newest report of each peel.
func (p *Progress) follow(ctx context.Context, js jetstream.JetStream, stream string,
	onReport func(jetstream.Msg),
) error {
	consumer, err := js.OrderedConsumer(ctx, stream,
		jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return fmt.Errorf("cannot read the reports of the peels in the stream %s: %w", stream, err)
	}
	reading, err := consumer.Consume(onReport, jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
		p.log.Warn("reports of the peels are read again", "stream", stream, "err", err)
	}))
	if err != nil {
		return fmt.Errorf("cannot read the reports of the peels in the stream %s: %w", stream, err)
	}
	defer func() { reading.Stop(); <-reading.Closed() }()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-reading.Closed():
		return fmt.Errorf("cannot read the reports of the peels in the stream %s: the reader ended", stream)
	}
}

// onReport handles one message of the stream applied.
func (p *Progress) onReport(m jetstream.Msg) {
	applied, err := wire.DecodeApplied(&nats.Msg{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()})
	if err != nil {
		p.refusals.Warn(wire.Sender(m.Subject()), "report refused", "err", err)
		return
	}
	meta, err := m.Metadata()
	if err != nil {
		p.log.Warn("report refused", "err", err)
		return
	}
	p.record(applied, meta.Sequence.Stream, meta.Timestamp)
	select {
	case p.reported <- struct{}{}:
	default:
	}
}

// record stores a report with its sequence in the stream, and compares it with the wanted settings.
func (p *Progress) record(applied wire.Applied, sequence uint64, stored time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := applied.Peel.Wire()
	before := p.reports[w]
	p.reports[w] = report{applied, sequence}
	p.outdated = nil
	p.unknown.add(applied.Peel, applied.Generation)
	if len(applied.Errors)+len(applied.PausedErrors) > 0 {
		p.trouble[w] = struct{}{}
	} else {
		delete(p.trouble, w)
	}
	for _, id := range []target.PeelID{applied.Peel, before.Peel} { // two may share a wire form
		_, lacked := p.lacking[id]
		p.compareLocked(id, stored)
		if _, lacks := p.lacking[id]; lacked && !lacks {
			if stored.After(p.reached) {
				p.reached = stored
			}
		}
	}
}
