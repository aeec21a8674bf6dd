package dispatch

import (
	"context"
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Steps are the points at which a test may stop a master, in their order.
var Steps = []string{
	string(stepAllowed), string(stepCreated), string(stepAnnounced), string(stepRunning), string(stepHalfSent), string(stepSent),
	string(stepReturned), string(stepEnded), string(stepArchived), string(stepTold), string(stepRemoved),
}

// StepBatch is the one that only jobs in batches come to.
const StepBatch = string(stepBatchWritten)

// StepEnded is the one between the final record and its event.
const StepEnded = string(stepEnded)

// LimitLive lets so many jobs that have not ended be dispatched. It must be called before the first request.
func (d *Dispatcher) LimitLive(n int) { d.maxLive = n }

// Watches reports whether a job is dispatched or watched here.
func (d *Dispatcher) Watches(jid wire.JID) bool { return d.find(jid) != nil }

// OnStep has f called at each step. It must be called before Run.
func (d *Dispatcher) OnStep(f func(step string)) { d.reached = func(s step) { f(string(s)) } }

// StoreReturns stores so many returns of a job as a dispatcher does.
func StoreReturns(b *testing.B, nc *nats.Conn, jid wire.JID, peels []target.PeelID, data []byte) {
	b.Helper()
	w := newWriter(nc, &counters{}, slog.New(slog.DiscardHandler))
	deaf, err := w.listen()
	if err != nil {
		b.Fatal(err)
	}
	defer deaf()
	stored := 0
	for _, id := range peels {
		w.put(write{jid: jid, peel: id, data: data, stored: func() { stored++ }})
	}
	w.close()
	w.run(context.Background())
	if stored != len(peels) {
		b.Fatalf("%d of %d returns are stored", stored, len(peels))
	}
}

// LeftWaiting hands so many returns of one size to a writer, has it send once, and returns how many it kept back.
func LeftWaiting(t *testing.T, nc *nats.Conn, jid wire.JID, peels []target.PeelID, data []byte) int {
	t.Helper()
	w := newWriter(nc, &counters{}, slog.New(slog.DiscardHandler))
	deaf, err := w.listen()
	if err != nil {
		t.Fatal(err)
	}
	defer deaf()
	for _, id := range peels {
		w.put(write{jid: jid, peel: id, data: data, stored: func() {}})
	}
	w.send()
	w.mu.Lock()
	left := len(w.queue)
	w.mu.Unlock()
	w.close()
	w.run(t.Context())
	return left
}

// BytesAtOnce is how many bytes of returns may be in flight.
const BytesAtOnce = bytesAtOnce
