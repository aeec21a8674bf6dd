package results

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
)

// A batch holds reports that no worker has begun with.
type batch struct {
	reports []jetstream.Msg
	bytes   int
}

func (b *batch) full() bool { return len(b.reports) == maxBatch || b.bytes > maxBatchBytes }

// nakAll requests a redelivery of the reports, to this or another master.
func (b *batch) nakAll() {
	for _, m := range b.reports {
		_ = m.Nak()
	}
}

// A batcher hands batches to workers. It holds one batch, which grows until a worker takes it.
type batcher chan batch

// add adds a report. It waits while the batch is full and every worker is busy. If ctx ends meanwhile, the reports of
// the batch are delivered again. Only one goroutine may call it.
func (c batcher) add(ctx context.Context, m jetstream.Msg) {
	var b batch
	select {
	case b = <-c:
	default: // a worker has taken it
	}
	if b.full() {
		c <- b
		b = batch{}
	}
	b.reports, b.bytes = append(b.reports, m), b.bytes+len(m.Data())
	select {
	case c <- b:
	case <-ctx.Done():
		b.nakAll()
	}
}
