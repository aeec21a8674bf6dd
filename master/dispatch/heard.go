package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// maxPending is how many acknowledgements and returns wait to be counted. What comes beyond is dropped by the client, which
// its subscription tells; then the watch of the job reads the bucket.
const maxPending = 1 << 16

// listen subscribes to the acknowledgements and the stored returns of a job. It returns once the bus knows, so that
// whatever is published or stored afterwards is received, as long as the bus is there.
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
	gaps := d.o.Conn.Stats().Reconnects
	for _, sub := range w.subs {
		if dropped, err := sub.Dropped(); err == nil {
			gaps += uint64(dropped)
		}
	}
	return gaps
}

// receive counts acknowledgements and stored returns until ctx ends.
func (d *Dispatcher) receive(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case msg := <-d.messages:
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
	place, _, err := w.tally.place(sender)
	if err != nil {
		d.counts.strangers.Add(1)
		return
	}
	a, err := wire.DecodeAck(msg)
	if err != nil {
		d.counts.forged.Add(1)
		d.refusals.Warn(sender, "ack dropped", "jid", jid, "err", err)
		return
	}
	if a.Epoch == w.epoch || a.V == 0 {
		w.tally.acknowledge(place)
	}
}

// onStored counts a return that the bucket has just stored.
func (d *Dispatcher) onStored(jid wire.JID, r job.StoredReturn) {
	w := d.find(jid)
	if w == nil {
		return
	}
	switch err := d.countReturn(w, r); {
	case errors.Is(err, errStranger):
		d.counts.strangers.Add(1)
	case errors.Is(err, errLate):
		d.counts.late.Add(1)
	}
}

// countReturn counts a stored return, unless it is counted already. The error says why it does not count.
func (d *Dispatcher) countReturn(w *watch, r job.StoredReturn) error {
	place, id, err := w.tally.place(r.Sender)
	if err == nil {
		err = w.tally.open(place)
	}
	if err != nil {
		return err
	}
	receipt, damage := job.ReadReceipt(w.jid, id, r.Data)
	if err := w.tally.markReturned(place, r.Sequence, &receipt); err != nil {
		return err
	}
	d.counts.stored.Add(1)
	if damage != nil {
		d.counts.forged.Add(1)
		d.refusals.Warn(r.Sender, "return is damaged and counts as failed", "jid", w.jid, "peel", id, "err", damage)
	}
	return nil
}

// onCancel is called for every job that somebody cancels.
func (d *Dispatcher) onCancel(msg *nats.Msg) {
	jid, _, err := wire.JobSubject(msg.Subject)
	if err != nil {
		return
	}
	if w := d.find(jid); w != nil {
		w.cancel()
	}
}

// onFacts is called when a peel tells its facts, which it does whenever it has connected.
func (d *Dispatcher) onFacts(msg *nats.Msg) {
	sender := wire.Sender(msg.Subject)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.patient {
		w.appeared(sender)
	}
}
