package dispatch

import (
	"context"
	"log/slog"
	"sync"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// writersAtOnce is how many returns are on their way to the bucket.
const writersAtOnce = 32

// A writer stores returns beside the callbacks that hear them, which hand over without waiting.
type writer struct {
	store  *job.Store
	counts *counters
	log    *slog.Logger
	wake   chan struct{} // holds one token when the queue may have changed

	mu     sync.Mutex
	queue  []write
	closed bool
}

// write is one return on its way. Stored is called once, when it is in the bucket.
type write struct {
	jid    wire.JID
	peel   target.PeelID
	data   []byte
	stored func()
}

func newWriter(store *job.Store, counts *counters, log *slog.Logger) *writer {
	return &writer{store: store, counts: counts, log: log, wake: make(chan struct{}, 1)}
}

func (w *writer) put(r write) {
	w.mu.Lock()
	w.queue = append(w.queue, r)
	w.mu.Unlock()
	w.signal()
}

// close lets run return when the queue is empty. Nothing may be put afterwards.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.signal()
}

func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run stores what is put, until the writer is closed and empty or ctx ends.
func (w *writer) run(ctx context.Context) {
	next := make(chan write)
	var workers sync.WaitGroup
	for range writersAtOnce {
		workers.Go(func() {
			for r := range next {
				w.save(ctx, r)
			}
		})
	}
	defer workers.Wait()
	defer close(next)
	for {
		batch, closed := w.take()
		for _, r := range batch {
			select {
			case next <- r:
			case <-ctx.Done():
				w.log.Error("returns not stored", "jid", r.jid, "peel", r.peel, "err", ctx.Err())
				return
			}
		}
		if closed {
			return
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return
		}
	}
}

func (w *writer) take() (batch []write, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	batch, w.queue = w.queue, nil
	return batch, w.closed
}

// save stores one return, however often that has to be tried.
func (w *writer) save(ctx context.Context, r write) {
	if persist(ctx, func() (retry bool) {
		err := w.store.PutReturn(ctx, r.jid, r.peel, r.data)
		if err != nil {
			w.counts.retried.Add(1)
			w.log.Warn("return not stored yet", "jid", r.jid, "peel", r.peel, "err", err)
		}
		return err != nil
	}) {
		w.counts.stored.Add(1)
		r.stored()
	}
}
