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

// publish sends the job's request to the targets at places, which are waited for until then. A target that it could
// not be sent to is one that stays silent.
func (d *Dispatcher) publish(ctx context.Context, w *watch, places []int, until time.Time) {
	data, err := canon.Marshal(wire.Request{
		JID: w.jid, Function: w.spec.Function, ID: w.spec.StateID, Args: w.spec.Args, User: w.user,
		Epoch: w.epoch, Deadline: until, TimeLeft: max(1, time.Until(until)), V: wire.Version,
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
		d.log.Warn("request not sent to all targets", "jid", w.jid, "unsent", unsent, "targets", len(places), "err", err)
	}
}

// launch marks the targets at places as sent to, sends them the request and waits for them until then.
func (d *Dispatcher) launch(ctx context.Context, w *watch, places []int, until time.Time) {
	w.tally.advance(places, silent, unsent, away)
	v := &wave{places: places, until: until}
	if d.o.AckWindow > 0 {
		v.at = time.Now().Add(d.o.AckWindow)
	}
	w.waves = append(w.waves, v)
	d.publish(ctx, w, places, until)
}

// share is how many targets are sent the request at first.
func share(s *job.Spec) int {
	if s.Batch == nil {
		return len(s.Targets)
	}
	return min(s.Batch.Size, len(s.Targets))
}

func sequence(from, to int) []int {
	places := make([]int, 0, to-from)
	for place := from; place < to; place++ {
		places = append(places, place)
	}
	return places
}

// sendMore lets the next targets of a batch begin as far as there is room. The record says that they may have the
// request before they are sent it. It reports false if the job is not watched from here any more.
func (d *Dispatcher) sendMore(ctx context.Context, w *watch) (ours bool) {
	if w.spec.Batch == nil || w.next == len(w.record.Targets) || w.tally.isHalted() {
		return true
	}
	free, failures := w.tally.room(w.spec.Batch)
	if most := w.spec.Batch.MaxFailures; most > 0 && failures >= most {
		d.log.Warn("job stops after too many failures", "jid", w.jid, "failures", failures, "skipped", len(w.record.Targets)-w.next)
		w.tally.halt()
		return true
	}
	if free <= 0 {
		return true
	}
	to := min(w.next+free, len(w.record.Targets))
	places, judged := d.judgeLate(ctx, w, sequence(w.next, to))
	if judged != permitted {
		return true
	}
	now := time.Now()
	until := now.Add(w.spec.Timeout)
	switch d.amend(ctx, w, func(j *job.Job) {
		j.Published, j.Sent, j.Updated = to, now, now
		if until.After(j.Deadline) {
			j.Deadline = until
		}
	}) {
	case amended:
	case unwritten: // and the master stops
		return true
	default:
		return false
	}
	if w.record.Cancel != nil {
		d.stop(ctx, w)
	}
	w.next = to
	if w.stopAt.IsZero() { // else the record says of targets that they may have the request, and they have not
		d.at(stepBatchWritten)
		d.launch(ctx, w, places, until)
	}
	return true
}

// sendToThoseBack sends the request to targets that were away and have connected. They have the whole timeout from now, so
// the wave that they were in waits for them no longer.
func (d *Dispatcher) sendToThoseBack(ctx context.Context, w *watch) {
	w.mu.Lock()
	back := slices.Collect(maps.Keys(w.back))
	clear(w.back)
	w.mu.Unlock()
	if len(back) == 0 || w.patience.IsZero() {
		return
	}
	places := append(w.tally.at(away, back), w.tally.at(silent, back)...)
	places, judged := d.judgeLate(ctx, w, places)
	if judged == undecided {
		w.mu.Lock()
		for _, place := range back {
			w.back[place] = true
		}
		w.mu.Unlock()
	}
	if len(places) == 0 {
		return
	}
	slices.Sort(places)
	w.leave(places)
	d.log.Info("job sent to targets that are back", "jid", w.jid, "peels", len(places), "peel", w.record.Targets[places[0]])
	d.launch(ctx, w, places, time.Now().Add(w.spec.Timeout))
}
