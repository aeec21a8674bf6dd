package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

const (
	// cancelGrace is how long after a cancel the targets may take to say that they have stopped. Peels kill what
	// does not end by itself after 5 s.
	cancelGrace = 10 * time.Second

	// lookEvery is how often the record of a job is read by its owner, who may have missed that it was canceled, or
	// taken over while he was not running.
	lookEvery = 15 * time.Second
)

// A watch follows one job from the request for it until it has ended.
type watch struct {
	jid   wire.JID
	spec  job.Spec
	user  string
	tally *tally
	asked chan struct{} // holds one token when somebody may have canceled the job
	epoch uint64        // of the requests; set before the tally begins

	begun chan struct{} // closed when the job is published or could not be; guards the next two
	job   *job.Job      // as it was then
	err   error

	mu   sync.Mutex
	back map[int]bool // places of targets that have connected

	plan // of the goroutine that watches
}

// plan is what is still to be done for a job.
type plan struct {
	record   *job.Job             // as it was read or written last
	claim    *job.Job             // of this master, until it is dispatched; nil if the record may be another's
	waves    []*wave              // that are not over
	next     int                  // the first target that was not sent the request
	patience time.Time            // until when targets that are away are waited for; zero: not at all
	stopAt   time.Time            // when a canceled job ends; zero: it is not canceled
	judgeAt  time.Time            // when permissions are checked again after a check that failed; zero: not at all
	subs     []*nats.Subscription // for acknowledgements and stored returns
	gaps     uint64               // how often messages may have been missed before the bucket was read last
	stored   int                  // returns in the bucket when it was compared last with those that were counted
}

// A wave is some targets that were sent the request together.
type wave struct {
	places []int
	until  time.Time // how long they are waited for
	at     time.Time // when the targets that are silent are looked at next; zero: not again
	resent bool
}

func newWatch(spec job.Spec, user string) *watch {
	return &watch{
		jid: spec.JID, spec: spec, user: user, tally: newTally(),
		asked: make(chan struct{}, 1), begun: make(chan struct{}), back: map[int]bool{},
	}
}

// begins tells who waits what became of the request for the job.
func (w *watch) begins(j *job.Job, err error) {
	if j != nil {
		snapshot := *j
		w.job = &snapshot
	}
	w.err = err
	close(w.begun)
}

// cancel has the record looked at.
func (w *watch) cancel() {
	select {
	case w.asked <- struct{}{}:
	default:
	}
}

// see takes a record that was read without the targets, which never change.
func (w *watch) see(stored *job.Job) {
	stored.Targets = w.record.Targets
	w.record = stored
}

// appeared notes that a peel, which may be a target, has connected.
func (w *watch) appeared(sender string) {
	place, _, err := w.tally.place(sender)
	if err != nil {
		return
	}
	w.mu.Lock()
	w.back[place] = true
	w.mu.Unlock()
	w.tally.signal()
}

// leave takes the targets at places, which are sorted, out of the waves that they were sent the request in.
func (w *watch) leave(places []int) {
	for _, v := range w.waves {
		v.places = slices.DeleteFunc(v.places, func(place int) bool {
			_, found := slices.BinarySearch(places, place)
			return found
		})
	}
	w.waves = slices.DeleteFunc(w.waves, func(v *wave) bool { return len(v.places) == 0 })
}

// wakeAt is when there is something to do, at the latest. It is asked after every return, so it allocates nothing.
func (w *watch) wakeAt() (first time.Time) {
	first = sooner(sooner(w.patience, w.stopAt), w.judgeAt)
	for _, v := range w.waves {
		first = sooner(first, sooner(v.until, v.at))
	}
	return first
}

// sooner is the earlier of two times; zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// watch sees a job through to its end, or lets go of it when ctx ends.
func (d *Dispatcher) watch(ctx, work context.Context, w *watch) {
	defer d.forget(w)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if !d.sendMore(work, w) {
			return
		}
		if at := w.wakeAt(); at.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(at))
		}
		select {
		case <-w.tally.done:
			d.finalize(work, w)
			return
		default:
		}
		ours := true
		select {
		case <-ctx.Done():
			d.release(work, w)
			return
		case <-w.tally.done:
		case <-w.tally.changed:
			d.sendToThoseBack(work, w)
		case <-w.asked:
			ours = d.look(work, w)
		case <-look.C:
			ours = d.look(work, w)
		case <-timer.C:
			d.due(work, w, time.Now())
		}
		if !ours {
			return
		}
	}
}

// due does what has its time.
func (d *Dispatcher) due(ctx context.Context, w *watch, now time.Time) {
	if passed(w.judgeAt, now) {
		w.judgeAt = time.Time{}
		w.tally.signal() // wakes the watch, which calls judgeLate again
	}
	over := false
	for _, v := range w.waves {
		if passed(v.at, now) && now.Before(v.until) {
			d.lookAtSilent(ctx, w, v, now)
		}
		over = over || passed(v.until, now)
	}
	// Before targets are given up, returns that were missed are counted.
	stops, hurries := passed(w.stopAt, now), passed(w.patience, now)
	if (over || stops || hurries) && w.tally.missing() {
		d.replay(ctx, w)
	}
	w.waves = slices.DeleteFunc(w.waves, func(v *wave) bool {
		if !passed(v.until, now) {
			return false
		}
		if w.patience.IsZero() {
			w.tally.advance(v.places, gaveUp, silent, away, acked)
		} else {
			w.tally.advance(v.places, gaveUp, acked)
			w.tally.advance(v.places, away, silent)
		}
		return true
	})
	if hurries {
		w.patience = time.Time{}
		w.tally.hurry(w.working())
	}
	if stops {
		w.tally.stop()
	}
}

func passed(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

// working are the places of the targets that are still waited for.
func (w *watch) working() map[int]bool {
	places := map[int]bool{}
	for _, v := range w.waves {
		for _, place := range v.places {
			places[place] = true
		}
	}
	return places
}

// lookAtSilent sends silent targets their request again at the first time and calls them unreachable at the second.
func (d *Dispatcher) lookAtSilent(ctx context.Context, w *watch, v *wave, now time.Time) {
	v.at = time.Time{}
	if !w.stopAt.IsZero() {
		return
	}
	if v.resent {
		if quiet := w.tally.advance(v.places, away, silent); len(quiet) > 0 {
			d.counts.unreachable.Add(uint64(len(quiet)))
			d.log.Warn("targets are unreachable", "jid", w.jid, "peels", len(quiet), "peel", w.record.Targets[quiet[0]])
		}
		return
	}
	quiet, judged := d.judgeLate(ctx, w, w.tally.at(silent, v.places))
	if judged == undecided {
		v.at = now.Add(judgeAgain)
		return
	}
	v.resent = true
	if len(quiet) > 0 {
		v.at = now.Add(d.o.AckWindow)
		d.counts.resent.Add(uint64(len(quiet)))
		d.log.Warn("job sent again to silent targets", "jid", w.jid, "peels", len(quiet), "peel", w.record.Targets[quiet[0]])
		d.publish(ctx, w, quiet, v.until)
	}
}

// look reads the record and reports whether the job is still watched from here. That it cannot be read changes
// nothing.
func (d *Dispatcher) look(ctx context.Context, w *watch) (ours bool) {
	d.countMissed(ctx, w)
	stored, err := d.o.Store.GetRecord(ctx, w.jid)
	if err != nil {
		d.log.Warn("record of a watched job not read", "jid", w.jid, "err", err)
		return true
	}
	if stored.Owner != d.o.Owner || stored.Epoch != w.record.Epoch || stored.Status.Final() {
		d.lost(w, stored)
		return false
	}
	w.see(stored)
	if stored.Cancel != nil && w.stopAt.IsZero() {
		d.stop(ctx, w)
	}
	return true
}

// lacks reports whether the bucket has more returns of a job than were counted, and than at the last time. A server that stops
// leading the stream of the bucket may have stored a return and not re-published it, of which no connection learns. Returns of
// peels that are no targets are stored as well.
func (d *Dispatcher) lacks(ctx context.Context, w *watch) bool {
	counted, waits := w.tally.working()
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

// stop ends the sending for a canceled job. The peels are told again because the first time may have overtaken their
// request.
func (d *Dispatcher) stop(ctx context.Context, w *watch) {
	w.stopAt, w.patience = time.Now().Add(cancelGrace), time.Time{}
	w.tally.halt()
	d.complain(w.jid, d.o.Store.RecordCancel(ctx, w.jid))
}

// lost notes that a job is not watched from here any more.
func (d *Dispatcher) lost(w *watch, stored *job.Job) {
	d.counts.fenced.Add(1)
	d.log.Warn("job is another master's", "jid", w.jid, "epoch", stored.Epoch, "owner", stored.Owner, "status", stored.Status)
}
