package results

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
)

// A pile is reports that lie ready and that nobody works on yet.
type pile struct {
	reports []jetstream.Msg
	bytes   int
}

// heap lays a report on the pile in piles, which has room for one and no other sender. It waits while that is as high
// as one may be; what it holds when ctx ends is given back.
func heap(ctx context.Context, piles chan pile, m jetstream.Msg) {
	var p pile
	select {
	case p = <-piles:
	default: // somebody works on it
	}
	if len(p.reports) == batch || p.bytes > batchBytes {
		piles <- p
		p = pile{}
	}
	p.reports, p.bytes = append(p.reports, m), p.bytes+len(m.Data())
	select {
	case piles <- p:
	case <-ctx.Done():
		p.giveBack()
	}
}

// giveBack has the reports come again, here or elsewhere.
func (p pile) giveBack() {
	for _, m := range p.reports {
		_ = m.Nak()
	}
}
