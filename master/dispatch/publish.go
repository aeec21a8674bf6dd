package dispatch

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// publish sends the job's request to the targets at places, with the deadline of their returns. A target to which it
// could not be sent is one that stays silent.
func (d *Dispatcher) publish(ctx context.Context, w *watch, places []int, deadline time.Time) {
	data, err := canon.Marshal(wire.Request{
		JID: w.jid, Function: w.spec.Function, ID: w.spec.StateID, Args: w.spec.Args, User: w.user,
		Epoch: w.epoch, Deadline: deadline, TimeLeft: max(1, time.Until(deadline)), V: wire.Version,
	})
	if err != nil {
		d.log.Error("request cannot be encoded", "jid", w.jid, "err", err)
		return
	}
	unsent := 0
	for i, place := range places {
		if i == len(places)/2 {
			d.at(stepHalfSent)
		}
		if e := d.o.Conn.Publish(wire.Cmd(w.record.Targets[place].Wire()), data); e != nil {
			err, unsent = e, unsent+1
		}
	}
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	if e := d.o.Conn.FlushWithContext(ctx); e != nil && err == nil {
		err = e
	}
	if err != nil {
		d.log.Warn("request not sent to all targets", "jid", w.jid, "unsent", unsent, "targets", len(places),
			"err", err)
	}
}

// send marks the targets at places as silent, sends them the request and waits for their returns until the deadline.
func (d *Dispatcher) send(ctx context.Context, w *watch, places []int, deadline time.Time) {
	w.tally.Advance(places, Silent, Unsent, Unreachable)
	v := &wave{places: places, deadline: deadline}
	if d.o.AckWindow > 0 {
		v.checkSilentAt = time.Now().Add(d.o.AckWindow)
	}
	w.waves = append(w.waves, v)
	d.publish(ctx, w, places, deadline)
}

// firstTargets is how many targets are sent the request at first.
func firstTargets(s *job.Spec) int {
	if s.Batch == nil {
		return len(s.Targets)
	}
	return min(s.Batch.Size, len(s.Targets))
}

func sequence(from, to int) []int {
	places := make([]int, to-from)
	for i := range places {
		places[i] = from + i
	}
	return places
}

// sendMore sends the request to the next targets of a batch, as many as its size allows. The record says that they may
// have the request before they are sent it. It returns false if the job is no longer watched from here.
func (d *Dispatcher) sendMore(ctx context.Context, w *watch) (ours bool) {
	if w.spec.Batch == nil || w.next == len(w.record.Targets) {
		return true
	}
	free, failures := w.tally.Capacity(w.spec.Batch)
	if most := w.spec.Batch.MaxFailures; most > 0 && failures >= most {
		d.log.Warn("job stops after too many failures", "jid", w.jid, "failures", failures,
			"skipped", len(w.record.Targets)-w.next)
		w.tally.Halt()
		return true
	}
	if free <= 0 {
		return true
	}
	to := min(w.next+free, len(w.record.Targets))
	places, result := d.authorizeAgain(ctx, w, sequence(w.next, to))
	if result != permitted {
		return true
	}
	now := time.Now()
	deadline := now.Add(w.spec.Timeout)
	err := d.persist(ctx, w, func(j *job.Job) {
		j.Published, j.Sent, j.Updated = to, now, now
		if deadline.After(j.Deadline) {
			j.Deadline = deadline
		}
	})
	if err != nil {
		return !isOver(err) // else this master stops
	}
	if w.record.Cancel != nil {
		d.stopSending(ctx, w)
	}
	w.next = to
	if w.stopAt.IsZero() { // else the record says of targets that they may have the request, and they have not
		d.at(stepBatchWritten)
		d.send(ctx, w, places, deadline)
	}
	return true
}

// sendToOnline sends the request to unreachable and silent targets that have connected. They have the whole timeout
// from now, so the wave that they were in waits for them no longer.
func (d *Dispatcher) sendToOnline(ctx context.Context, w *watch) {
	w.mu.Lock()
	online := slices.Collect(maps.Keys(w.online))
	clear(w.online)
	w.mu.Unlock()
	if w.onlineUntil.IsZero() {
		return
	}
	places, result := d.authorizeAgain(ctx, w, append(w.tally.At(Unreachable, online), w.tally.At(Silent, online)...))
	if result == unknownYet {
		w.mu.Lock()
		for _, place := range online {
			w.online[place] = true
		}
		w.mu.Unlock()
	}
	if len(places) == 0 {
		return
	}
	slices.Sort(places)
	w.removeFromWaves(places)
	d.log.Info("job sent to targets that have connected", "jid", w.jid, "peels", len(places),
		"peel", w.record.Targets[places[0]])
	d.send(ctx, w, places, time.Now().Add(w.spec.Timeout))
}
