package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// maxPending and maxPendingBytes bound the acknowledgements and returns that wait to be counted. Further ones are
// dropped; then the watch of the job reads the bucket. The limit in bytes is for returns: of the largest, maxPending
// would take 32 GiB.
const (
	maxPending      = 1 << 16
	maxPendingBytes = 256 << 20
)

// An inbox has the acknowledgements and stored returns of the jobs that are watched.
type inbox struct {
	messages chan *nats.Msg // from the client
	queue    chan *nats.Msg // that wait to be counted
	bytes    atomic.Int64   // of the messages in queue
	maxBytes int64
	dropped  atomic.Uint64 // messages that queue had no room for
}

func newInbox() inbox {
	return inbox{
		messages: make(chan *nats.Msg, maxPending),
		queue:    make(chan *nats.Msg, maxPending),
		maxBytes: maxPendingBytes,
	}
}

// take moves messages into the queue, and drops those that it has no room for, until ctx ends.
func (i *inbox) take(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case msg := <-i.messages:
			size := int64(msg.Size())
			if i.bytes.Load()+size <= i.maxBytes {
				select {
				case i.queue <- msg:
					i.bytes.Add(size)
					continue
				default:
				}
			}
			i.dropped.Add(1)
		}
	}
}

// listen subscribes to the acknowledgements and the stored returns of a job. When it returns nil the bus has the
// subscriptions, so what is published or stored from then on is received as long as the bus is there.
func (d *Dispatcher) listen(ctx context.Context, w *watch) error {
	for _, subject := range []string{wire.AckOf(w.jid, "*"), wire.StoredOf(w.jid, "*")} {
		sub, err := d.o.Conn.ChanSubscribe(subject, d.messages)
		if err != nil {
			return fmt.Errorf("cannot subscribe to %s: %w", subject, err)
		}
		w.subs = append(w.subs, sub)
	}
	ctx, cancel := context.WithTimeout(ctx, listenLimit)
	defer cancel()
	if err := d.o.Conn.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("cannot subscribe to the returns of job %s: %w", w.jid, err)
	}
	w.gaps = d.countGaps(w)
	return nil
}

// countGaps returns how often messages of a job may have been missed: reconnects of the bus and dropped messages.
func (d *Dispatcher) countGaps(w *watch) uint64 {
	gaps := d.o.Conn.Stats().Reconnects + d.dropped.Load()
	for _, sub := range w.subs {
		if dropped, err := sub.Dropped(); err == nil {
			gaps += uint64(dropped)
		}
	}
	return gaps
}

// countMissed counts the stored returns of a job if messages may have been missed since this was done last.
func (d *Dispatcher) countMissed(ctx context.Context, w *watch) {
	if gaps := d.countGaps(w); gaps != w.gaps || d.clustered() && d.missesReturns(ctx, w) {
		w.gaps = gaps
		_ = d.replay(ctx, w)
	}
}

// missesReturns reports whether the bucket has more returns of a job than were counted, and than at the last time. In a
// cluster a server that stops leading the stream of the bucket, or loses its route to this master's server, may have
// stored a return and not re-published it, and no connection notices. A single server re-publishes to a queue in memory
// as it stores; what a subscriber misses of that has cost it its connection or was dropped by its client, which
// countGaps sees. Returns of peels that are no targets are stored as well.
func (d *Dispatcher) missesReturns(ctx context.Context, w *watch) bool {
	counted, waits := w.tally.Working()
	if !waits {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	stored, err := d.o.Store.CountStored(ctx, w.jid)
	if err != nil {
		d.log.Warn("returns of a watched job not counted", "jid", w.jid, "err", err)
	}
	more := stored > max(counted, w.stored)
	w.stored = max(stored, w.stored)
	return more
}

// replay counts the returns that are in the bucket, except those that were counted before. It retries until it has read
// all or ctx ends.
func (d *Dispatcher) replay(ctx context.Context, w *watch) error {
	return d.retry(ctx, w.jid, func() error { return d.countStored(ctx, w) })
}

func (d *Dispatcher) countStored(ctx context.Context, w *watch) error {
	ctx, cancel := context.WithTimeout(ctx, replayLimit)
	defer cancel()
	return d.o.Store.Stored(ctx, w.jid, func(r job.StoredReturn) { _ = d.countReturn(w, r) })
}

// receive counts acknowledgements and stored returns until ctx ends.
func (d *Dispatcher) receive(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case msg := <-d.queue:
			d.bytes.Add(-int64(msg.Size()))
			if jid, ok := wire.StoredSubject(msg.Subject); ok {
				d.onStored(jid, job.Republished(msg))
			} else {
				d.onAck(msg)
			}
		}
	}
}

// onAck counts the acknowledgement of a target.
func (d *Dispatcher) onAck(msg *nats.Msg) {
	jid, sender, err := wire.JobSubject(msg.Subject)
	if err != nil {
		return
	}
	w := d.find(jid)
	if w == nil {
		return
	}
	place, _, err := w.tally.Place(sender)
	if err != nil {
		d.count(func(s *Stats) { s.Strangers++ })
		return
	}
	a, err := wire.DecodeAck(msg)
	if err != nil {
		d.count(func(s *Stats) { s.Forged++ })
		d.refusals.Warn(sender, "ack dropped", "jid", jid, "err", err)
		return
	}
	if a.Epoch == w.epoch || a.V == 0 {
		w.tally.Acknowledge(place)
	}
}

// onStored counts a return that the bucket has just stored.
func (d *Dispatcher) onStored(jid wire.JID, r job.StoredReturn) {
	w := d.find(jid)
	if w == nil {
		return
	}
	switch err := d.countReturn(w, r); {
	case errors.Is(err, ErrStranger):
		d.count(func(s *Stats) { s.Strangers++ })
	case errors.Is(err, ErrLate):
		d.count(func(s *Stats) { s.Late++ })
	}
}

// countReturn counts a stored return, unless it was counted before. The error says why it does not count.
func (d *Dispatcher) countReturn(w *watch, r job.StoredReturn) error {
	place, id, err := w.tally.Place(r.Sender)
	if err == nil {
		err = w.tally.CountsReturn(place)
	}
	if err != nil {
		return err
	}
	receipt, damage := job.ReadReceipt(w.jid, id, r.Data)
	if err := w.tally.MarkReturned(place, r.Sequence, &receipt); err != nil {
		return err
	}
	d.count(func(s *Stats) { s.Stored++ })
	if damage != nil {
		d.count(func(s *Stats) { s.Forged++ })
		d.refusals.Warn(r.Sender, "return is damaged and counts as failed", "jid", w.jid, "peel", id, "err", damage)
	}
	return nil
}

// onCancel is called for each job that is canceled.
func (d *Dispatcher) onCancel(msg *nats.Msg) {
	jid, _, err := wire.JobSubject(msg.Subject)
	if err != nil {
		return
	}
	if w := d.find(jid); w != nil {
		w.requestRefresh()
	}
}

// onFacts is called when a peel sends its facts, which it does whenever it has connected.
func (d *Dispatcher) onFacts(msg *nats.Msg) {
	sender := wire.Sender(msg.Subject)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.waiting {
		w.markOnline(sender)
	}
}
