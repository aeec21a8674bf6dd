package dispatch

import (
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// heardAck is called for every acknowledgement on the bus, those for other masters included.
func (d *Dispatcher) heardAck(msg *nats.Msg) {
	w, place, _ := d.sender(msg)
	if w == nil {
		return
	}
	a, err := wire.DecodeAck(msg)
	if err != nil {
		d.counts.forged.Add(1)
		d.refusals.Warn(wire.Sender(msg.Subject), "ack dropped", "jid", w.jid, "err", err)
		return
	}
	if a.Epoch == w.epoch || a.V == 0 {
		w.tally.acknowledge(place)
	}
}

// heardReturn is called for every return on the bus, those for other masters included. It must not wait for storage.
func (d *Dispatcher) heardReturn(msg *nats.Msg) {
	w, place, id := d.sender(msg)
	if w == nil {
		return
	}
	if err := d.take(w, place, id, msg, false); err != nil {
		d.drop(w, msg, err)
	}
}

// readAgain is called for what the targets of a job sent before, which may have been heard then.
func (d *Dispatcher) readAgain(w *watch, msg *nats.Msg, stored bool) {
	sender := wire.Sender(msg.Subject)
	place, id, err := w.tally.place(sender)
	if err != nil {
		return
	}
	if msg.Subject != wire.AckOf(w.jid, sender) {
		_ = d.take(w, place, id, msg, stored) // what is wrong with it was said when it came
	} else if a, err := wire.DecodeAck(msg); err == nil && a.Epoch == w.epoch {
		w.tally.acknowledge(place)
	}
}

// take counts a return. One that is stored already is not stored again.
func (d *Dispatcher) take(w *watch, place int, id target.PeelID, msg *nats.Msg, stored bool) error {
	if err := w.tally.open(place); err != nil {
		return err // unread, because anybody could send many
	}
	r, err := job.DecodeReturn(msg, id)
	if err != nil {
		return err
	}
	if err := w.tally.take(place, r.Success); err != nil {
		return err
	}
	r.Data = nil // which may be large
	if stored {
		w.tally.keep(&r)
	} else {
		d.returns.put(write{jid: w.jid, peel: id, data: msg.Data, stored: func() { w.tally.keep(&r) }})
	}
	return nil
}

// heardCancel is called for every job that somebody cancels.
func (d *Dispatcher) heardCancel(msg *nats.Msg) {
	jid, _, err := wire.JobSubject(msg.Subject)
	if err != nil {
		return
	}
	if w := d.find(jid); w != nil {
		w.cancel()
	}
}

// heardFacts is called when a peel tells its facts, which it does whenever it has connected.
func (d *Dispatcher) heardFacts(msg *nats.Msg) {
	sender := wire.Sender(msg.Subject)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.patient {
		w.appeared(sender)
	}
}

// sender finds the job that a message is about and the target that sent it; nil if there is none here.
func (d *Dispatcher) sender(msg *nats.Msg) (*watch, int, target.PeelID) {
	jid, sender, err := wire.JobSubject(msg.Subject)
	if err != nil {
		d.counts.forged.Add(1)
		return nil, 0, ""
	}
	w := d.find(jid)
	if w == nil {
		d.counts.unwatched.Add(1)
		return nil, 0, ""
	}
	place, id, err := w.tally.place(sender)
	if err != nil {
		d.drop(w, msg, err)
		return nil, 0, ""
	}
	return w, place, id
}

func (d *Dispatcher) drop(w *watch, msg *nats.Msg, err error) {
	switch {
	case errors.Is(err, errStranger):
		d.counts.strangers.Add(1)
	case errors.Is(err, errLate):
		d.counts.late.Add(1)
	case errors.Is(err, errRepeated):
		d.counts.repeated.Add(1)
	default:
		d.counts.forged.Add(1)
		d.refusals.Warn(wire.Sender(msg.Subject), "return dropped", "jid", w.jid, "err", err)
		return
	}
	d.log.Debug("message dropped", "jid", w.jid, "subject", msg.Subject, "err", err)
}
