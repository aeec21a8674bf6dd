package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

const (
	// cancelGrace is how long the targets of a canceled job may take to return. Peels kill a process that ignores
	// SIGTERM after 5 s.
	cancelGrace = 10 * time.Second

	// refreshEvery is how often a job's owner reads its record: it may have missed a cancel, or a take-over while its
	// process was paused.
	refreshEvery = 15 * time.Second
)

// A watch follows one job from the request for it until it has ended.
type watch struct {
	jid       wire.JID
	spec      job.Spec
	user      string
	size      int // of the encoded spec, in bytes
	tally     *Tally
	refreshes chan struct{} // holds one token when the job may have been canceled
	epoch     uint64        // of the requests; set before the tally begins

	begun chan struct{} // closed when the job is published or could not be; guards the next two
	job   *job.Job      // as it was then
	err   error

	mu     sync.Mutex
	online map[int]bool // places of targets that have connected

	plan // of the goroutine that watches
}

// plan is what is still to be done for a job.
type plan struct {
	record      *job.Job             // as it was read or written last
	claim       *job.Job             // of this master, until it is dispatched; nil if the record may be another's
	waves       []*wave              // that are waited for
	next        int                  // the first target that was not sent the request
	onlineUntil time.Time            // when unreachable targets are given up; zero: they are not waited for
	stopAt      time.Time            // when a canceled job ends; zero: it is not canceled
	authorizeAt time.Time            // when permissions are checked again after a check that failed; zero: not at all
	subs        []*nats.Subscription // for acknowledgements and stored returns
	gaps        uint64               // countGaps when the bucket was read last
	stored      int                  // returns in the bucket when it was compared last with those that were counted
}

// A wave is some targets that were sent the request together.
type wave struct {
	places        []int
	deadline      time.Time // of their returns
	checkSilentAt time.Time // when those that are silent are looked at next; zero: not again
	resent        bool
}

func newWatch(spec job.Spec, user string) *watch {
	return &watch{
		jid: spec.JID, spec: spec, user: user, size: sizeOf(&spec), tally: NewTally(),
		refreshes: make(chan struct{}, 1), begun: make(chan struct{}), online: map[int]bool{},
	}
}

// sizeOf returns how many bytes the encoded request for a job takes, which is about what its record takes.
func sizeOf(spec *job.Spec) int {
	data, _ := canon.Marshal(spec) // it was decoded, so it can be encoded
	return len(data)
}

// setResult sends the result of the request for the job to the callers of join.
func (w *watch) setResult(j *job.Job, err error) {
	if j != nil {
		snapshot := *j
		w.job = &snapshot
	}
	w.err = err
	close(w.begun)
}

// requestRefresh makes the watch read its record.
func (w *watch) requestRefresh() {
	select {
	case w.refreshes <- struct{}{}:
	default:
	}
}

// markOnline notes that a peel has connected, if it is a target.
func (w *watch) markOnline(sender string) {
	place, _, err := w.tally.Place(sender)
	if err != nil {
		return
	}
	w.mu.Lock()
	w.online[place] = true
	w.mu.Unlock()
	w.tally.Signal()
}

// removeFromWaves removes the targets at places, which are sorted, from the waves in which they were sent the request.
func (w *watch) removeFromWaves(places []int) {
	for _, v := range w.waves {
		v.places = slices.DeleteFunc(v.places, func(place int) bool {
			_, found := slices.BinarySearch(places, place)
			return found
		})
	}
	w.waves = slices.DeleteFunc(w.waves, func(v *wave) bool { return len(v.places) == 0 })
}

// nextTimer returns the earliest time at which runTimers has something to do, zero if there is none. It is called after
// every return, so it allocates nothing.
func (w *watch) nextTimer() (first time.Time) {
	first = earlier(earlier(w.onlineUntil, w.stopAt), w.authorizeAt)
	for _, v := range w.waves {
		first = earlier(first, earlier(v.deadline, v.checkSilentAt))
	}
	return first
}

// earlier returns the earlier of two times; zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// watch follows a job to its end, or releases it when ctx ends.
func (d *Dispatcher) watch(ctx, work context.Context, w *watch) {
	defer d.forget(w)
	refresh := time.NewTicker(refreshEvery)
	defer refresh.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ours := true; ours; {
		if !d.sendMore(work, w) {
			return
		}
		if at := w.nextTimer(); at.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(at))
		}
		select {
		case <-w.tally.Done:
			d.finalize(work, w)
			return
		default:
		}
		select {
		case <-ctx.Done():
			d.release(work, w)
			return
		case <-w.tally.Done:
		case <-w.tally.Changed:
			d.sendToOnline(work, w)
		case <-w.refreshes:
			ours = d.refresh(work, w)
		case <-refresh.C:
			ours = d.refresh(work, w)
		case <-timer.C:
			d.runTimers(work, w, time.Now())
		}
	}
}

// runTimers does all that is due at a time.
func (d *Dispatcher) runTimers(ctx context.Context, w *watch, now time.Time) {
	if passed(w.authorizeAt, now) {
		w.authorizeAt = time.Time{}
		w.tally.Signal() // wakes the watch, which sends to targets again
	}
	over := false
	for _, v := range w.waves {
		if passed(v.checkSilentAt, now) && now.Before(v.deadline) {
			d.checkSilent(ctx, w, v, now)
		}
		over = over || passed(v.deadline, now)
	}
	// Before targets are given up, returns that were missed are counted.
	stops, ends := passed(w.stopAt, now), passed(w.onlineUntil, now)
	if (over || stops || ends) && w.tally.Missing() {
		_ = d.replay(ctx, w)
	}
	w.waves = slices.DeleteFunc(w.waves, func(v *wave) bool {
		if !passed(v.deadline, now) {
			return false
		}
		if w.onlineUntil.IsZero() {
			w.tally.Advance(v.places, GivenUp, Silent, Unreachable, Acked)
		} else {
			w.tally.Advance(v.places, GivenUp, Acked)
			w.tally.Advance(v.places, Unreachable, Silent)
		}
		return true
	})
	if ends {
		w.onlineUntil = time.Time{}
		w.tally.GiveUpUnreachable(w.inWaves())
	}
	if stops {
		w.tally.Stop()
	}
}

func passed(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

// inWaves returns the places of the targets whose deadline has not passed.
func (w *watch) inWaves() map[int]bool {
	places := map[int]bool{}
	for _, v := range w.waves {
		for _, place := range v.places {
			places[place] = true
		}
	}
	return places
}

// checkSilent sends silent targets their request again at the first call and marks them unreachable at the second.
func (d *Dispatcher) checkSilent(ctx context.Context, w *watch, v *wave, now time.Time) {
	v.checkSilentAt = time.Time{}
	if !w.stopAt.IsZero() {
		return
	}
	if v.resent {
		if found := w.tally.Advance(v.places, Unreachable, Silent); len(found) > 0 {
			d.count(func(s *Stats) { s.Unreachable += uint64(len(found)) })
			d.log.Warn("targets are unreachable", "jid", w.jid, "peels", len(found), "peel", w.record.Targets[found[0]])
		}
		return
	}
	places, result := d.authorizeAgain(ctx, w, w.tally.At(Silent, v.places))
	if result == unknownYet {
		v.checkSilentAt = now.Add(authorizePause)
		return
	}
	v.resent = true
	if len(places) > 0 {
		v.checkSilentAt = now.Add(d.o.AckWindow)
		d.count(func(s *Stats) { s.Resent += uint64(len(places)) })
		d.log.Warn("job sent again to silent targets", "jid", w.jid, "peels", len(places),
			"peel", w.record.Targets[places[0]])
		d.publish(ctx, w, places, v.deadline)
	}
}

// refresh reads the record and reports whether the job is still watched from here. An error of the store changes
// nothing.
func (d *Dispatcher) refresh(ctx context.Context, w *watch) (ours bool) {
	d.countMissed(ctx, w)
	switch err := d.reread(ctx, w); {
	case isOver(err):
		return false
	case err != nil:
		d.log.Warn("record of a watched job not read", "jid", w.jid, "err", err)
	case w.record.Cancel != nil && w.stopAt.IsZero():
		d.stopSending(ctx, w)
	}
	return true
}

// stopSending ends the sending for a canceled job. The peels get the cancel again, because the first may have overtaken
// their request.
func (d *Dispatcher) stopSending(ctx context.Context, w *watch) {
	w.stopAt, w.onlineUntil = time.Now().Add(cancelGrace), time.Time{}
	w.tally.Halt()
	if err := d.o.Store.RecordCancel(ctx, w.jid); err != nil {
		d.logRetry(w.jid, err)
	}
}

// release ends the ownership of a job, so that another master takes it over at once. If that cannot be written the job
// is taken over when this master's heartbeat has ended.
func (d *Dispatcher) release(ctx context.Context, w *watch) {
	err := d.persist(ctx, w, func(j *job.Job) { j.Owner, j.Updated = "", time.Now() })
	if err != nil {
		if !isOver(err) {
			d.log.Warn("job left running", "jid", w.jid, "err", err)
		}
		return
	}
	d.log.Info("job released", "jid", w.jid)
	if err := d.o.Conn.Publish(released, nil); err != nil {
		d.log.Debug("release not published", "jid", w.jid, "err", err)
	}
}
