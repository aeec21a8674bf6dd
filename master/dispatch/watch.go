package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A watch follows one job from the request for it until it has ended.
type watch struct {
	jid  wire.JID
	spec job.Spec
	user string

	begun chan struct{} // closed when the job is published or could not be; guards the next two
	job   *job.Job
	err   error

	deadline time.Time // with the monotonic clock; set by arm
	done     chan struct{}

	mu        sync.Mutex
	places    map[string]int // of targets by wire ID; nil until the job is about to be published
	progress  []progress     // of targets by place
	closed    bool           // the deadline has passed: nothing more counts
	returned  int
	stored    int
	succeeded int
}

// progress is how far one target is.
type progress uint8

const (
	silent progress = iota
	acked
	returned
)

func newWatch(r *request) *watch {
	return &watch{jid: r.spec.JID, spec: r.spec, user: r.user, begun: make(chan struct{}), done: make(chan struct{})}
}

// arm makes the watch count what the targets send. The job was made running at now.
func (w *watch) arm(j *job.Job, now time.Time) {
	w.job, w.deadline = j, now.Add(j.Timeout)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.progress = make([]progress, len(j.Targets))
	w.places = make(map[string]int, len(j.Targets))
	for i, id := range j.Targets {
		w.places[id.Wire()] = i
	}
}

// silentTargets are those that have not been heard from.
func (w *watch) silentTargets() []target.PeelID {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []target.PeelID
	for i, p := range w.progress {
		if p == silent {
			ids = append(ids, w.job.Targets[i])
		}
	}
	return ids
}

// Why something that was heard does not count.
var (
	errStranger = errors.New("the sender is no target of the job")
	errRepeated = errors.New("the target has returned already")
	errLate     = errors.New("the job has ended")
)

// place finds the sender among the targets.
func (w *watch) place(sender string) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	place, ok := w.places[sender]
	if !ok {
		return 0, errStranger
	}
	return place, nil
}

// open says whether a return of the target at place would still count.
func (w *watch) open(place int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts(place)
}

// counts is open for who holds the lock.
func (w *watch) counts(place int) error {
	switch {
	case w.closed:
		return errLate
	case w.progress[place] == returned:
		return errRepeated
	}
	return nil
}

func (w *watch) acknowledge(place int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.progress[place] = max(w.progress[place], acked)
}

// take makes the target at place returned, for one caller.
func (w *watch) take(place int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.counts(place); err != nil {
		return err
	}
	w.progress[place] = returned
	w.returned++
	return nil
}

// keep counts a return that is stored.
func (w *watch) keep(success bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stored++
	if success {
		w.succeeded++
	}
	w.settle()
}

// close ends the counting of new returns. Those that were taken are still stored before the watch is done.
func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.settle()
}

func (w *watch) settle() {
	if w.stored == w.returned && (w.closed || w.stored == len(w.progress)) {
		w.closed = true
		select {
		case <-w.done:
		default:
			close(w.done)
		}
	}
}

func (w *watch) end() job.End {
	w.mu.Lock()
	defer w.mu.Unlock()
	return job.End{Targets: len(w.progress), Returned: w.stored, Succeeded: w.succeeded}
}

// heardAck is called for every acknowledgement on the bus, those for other masters included.
func (d *Dispatcher) heardAck(msg *nats.Msg) {
	w, place := d.sender(msg)
	if w == nil {
		return
	}
	a, err := wire.DecodeAck(msg)
	if err != nil {
		d.counts.forged.Add(1)
		d.log.Warn("ack dropped", "jid", w.jid, "err", err)
		return
	}
	if a.Epoch == w.job.Epoch || a.V == 0 {
		w.acknowledge(place)
	}
}

// heardReturn is called for every return on the bus, those for other masters included. It must not wait for storage.
func (d *Dispatcher) heardReturn(msg *nats.Msg) {
	w, place := d.sender(msg)
	if w == nil {
		return
	}
	id := w.job.Targets[place]
	if err := w.open(place); err != nil {
		d.drop(w, msg, err) // unread, because anybody could send many
		return
	}
	r, err := decodeReturn(msg, id)
	if err != nil {
		d.counts.forged.Add(1)
		d.log.Warn("return dropped", "jid", w.jid, "err", err)
		return
	}
	if err := w.take(place); err != nil {
		d.drop(w, msg, err)
		return
	}
	d.returns.put(write{jid: w.jid, peel: id, data: msg.Data, stored: func() { w.keep(r.Success) }})
}

// sender finds the job that a message is about and the target that sent it; nil if there is none here.
func (d *Dispatcher) sender(msg *nats.Msg) (*watch, int) {
	jid, sender, err := wire.JobSubject(msg.Subject)
	if err != nil {
		d.counts.forged.Add(1)
		return nil, 0
	}
	w := d.find(jid)
	if w == nil {
		return nil, 0
	}
	place, err := w.place(sender)
	if err != nil {
		d.drop(w, msg, err)
		return nil, 0
	}
	return w, place
}

func (d *Dispatcher) drop(w *watch, msg *nats.Msg, err error) {
	switch {
	case errors.Is(err, errStranger):
		d.counts.strangers.Add(1)
	case errors.Is(err, errLate):
		d.counts.late.Add(1)
	default:
		d.counts.repeated.Add(1)
	}
	d.log.Debug("message dropped", "jid", w.jid, "subject", msg.Subject, "err", err)
}

func decodeReturn(msg *nats.Msg, id target.PeelID) (wire.Return, error) {
	if len(msg.Data) > job.MaxReturn {
		return wire.Return{}, fmt.Errorf("cannot accept %s: %d bytes, the limit is %d", msg.Subject, len(msg.Data), job.MaxReturn)
	}
	r, err := wire.DecodeReturn(msg)
	if err == nil && r.Peel != id {
		err = fmt.Errorf("cannot accept %s: %w: it speaks for %q, the target is %q", msg.Subject, wire.ErrForged, r.Peel, id)
	}
	return r, err
}

// watch waits until the job has ended and writes its end, or leaves it as it is when ctx ends.
func (d *Dispatcher) watch(ctx, work context.Context, w *watch) {
	defer d.forget(w)
	deadline := time.NewTimer(time.Until(w.deadline))
	defer deadline.Stop()
	var window <-chan time.Time
	if d.o.AckWindow > 0 {
		window = time.After(d.o.AckWindow)
	}
	resent := false
	for {
		select {
		case <-ctx.Done():
			d.log.Info("job left running", "jid", w.jid)
			return
		case <-deadline.C:
			w.close()
		case <-w.done:
			d.finalize(work, w)
			return
		case <-window:
			if window = nil; d.windowEnded(work, w, resent) {
				window, resent = time.After(d.o.AckWindow), true
			}
		}
	}
}

// windowEnded looks for silent targets: at the first time they get their request again and the result is true, at
// the second they are reported as unreachable.
func (d *Dispatcher) windowEnded(ctx context.Context, w *watch, resent bool) (again bool) {
	quiet := w.silentTargets()
	switch {
	case len(quiet) == 0:
		return false
	case resent:
		d.counts.unreachable.Add(uint64(len(quiet)))
		d.log.Warn("targets are unreachable", "jid", w.jid, "peels", len(quiet), "peel", quiet[0])
		return false
	}
	d.counts.resent.Add(uint64(len(quiet)))
	d.log.Warn("job sent again to silent targets", "jid", w.jid, "peels", len(quiet), "peel", quiet[0])
	d.publish(ctx, w, quiet)
	return true
}
