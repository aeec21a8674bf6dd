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

// Run reads the reports of the peels, beginning with the newest of each, until ctx ends. It also returns when the reader
// ends; call it again then.
func (p *Progress) Run(ctx context.Context, js jetstream.JetStream) error {
	consumer, err := js.OrderedConsumer(ctx, "applied", jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return fmt.Errorf("cannot follow the reports of the peels: %w", err)
	}
	reading, err := consumer.Consume(p.onReport, jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
		p.log.Warn("reports of the peels are read again", "err", err)
	}))
	if err != nil {
		return fmt.Errorf("cannot follow the reports of the peels: %w", err)
	}
	defer func() { reading.Stop(); <-reading.Closed() }()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-reading.Closed():
		return fmt.Errorf("cannot follow the reports of the peels: the reader ended")
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
