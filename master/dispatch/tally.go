package dispatch

import (
	"errors"
	"slices"
	"sync"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// progress is how far one target is.
type progress uint8

const (
	unsent   progress = iota
	silent            // was sent the request
	away              // stayed silent; it may still be heard from
	acked             // has the request
	gaveUp            // was waited for as long as it may take; a return still counts while the job runs
	returned          // is done
	stages
)

// A tally counts what the targets of one job do.
type tally struct {
	done    chan struct{} // closed when nothing more is waited for
	changed chan struct{} // holds one token when there may be room for more requests

	mu        sync.Mutex
	targets   []target.PeelID
	places    map[string]int // of targets by wire ID; nil until the job is about to be published
	progress  []progress     // of targets by place
	counts    [stages]int    // of targets by progress
	patient   bool           // targets that are away may come back and be sent the request
	halted    bool           // no further target is sent the request
	closed    bool           // nothing more counts
	succeeded int            // returns that are a success
	stopped   int            // returns of targets that were canceled
	last      uint64         // highest sequence of a return
}

func newTally() *tally {
	return &tally{done: make(chan struct{}), changed: make(chan struct{}, 1)}
}

// begin makes the tally count what the targets send.
func (t *tally) begin(targets []target.PeelID, patient bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.targets, t.patient = targets, patient
	t.progress = make([]progress, len(targets))
	t.counts[unsent] = len(targets)
	t.places = make(map[string]int, len(targets))
	for i, id := range targets {
		t.places[id.Wire()] = i
	}
}

// Why something that was heard does not count.
var (
	errStranger = errors.New("the sender is no target of the job")
	errRepeated = errors.New("the target has returned already")
	errLate     = errors.New("the job has ended")
)

// place finds the sender among the targets.
func (t *tally) place(sender string) (int, target.PeelID, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	place, ok := t.places[sender]
	if !ok {
		return 0, "", errStranger
	}
	return place, t.targets[place], nil
}

// open returns why a return of the target at place would not count, nil if it would.
func (t *tally) open(place int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.openLocked(place)
}

func (t *tally) openLocked(place int) error {
	switch {
	case t.closed:
		return errLate
	case t.progress[place] == returned:
		return errRepeated
	}
	return nil
}

// set is for who holds the lock.
func (t *tally) set(place int, p progress) {
	t.counts[t.progress[place]]--
	t.counts[p]++
	t.progress[place] = p
}

// advance moves those of the targets at places that are at one of the stages from to the stage to, and returns them.
func (t *tally) advance(places []int, to progress, from ...progress) []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	var moved []int
	for _, place := range places {
		if slices.Contains(from, t.progress[place]) {
			t.set(place, to)
			moved = append(moved, place)
		}
	}
	t.settle()
	return moved
}

// at are those of the targets at places that are at the stage.
func (t *tally) at(stage progress, places []int) []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []int
	for _, place := range places {
		if t.progress[place] == stage {
			found = append(found, place)
		}
	}
	return found
}

// acknowledge notes that the target at place has the request.
func (t *tally) acknowledge(place int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.progress[place]; p == silent || p == away {
		t.set(place, acked)
	}
}

// markReturned counts the return of the target at place, once. The sequence is that of the return in its bucket.
func (t *tally) markReturned(place int, sequence uint64, r *job.Receipt) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.openLocked(place); err != nil {
		return err
	}
	t.set(place, returned)
	t.last = max(t.last, sequence)
	if r.Success {
		t.succeeded++
	}
	if r.Outcome == wire.Canceled {
		t.stopped++
	}
	t.settle()
	return nil
}

// halt lets no further target be sent the request.
func (t *tally) halt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.halted, t.patient = true, false
	t.settle()
}

func (t *tally) isHalted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.halted
}

// hurry stops waiting for targets that are away, except those at places.
func (t *tally) hurry(places map[int]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.patient = false
	for place, p := range t.progress {
		if p == away && !places[place] {
			t.set(place, gaveUp)
		}
	}
	t.settle()
}

// stop ends the waiting. Returns still count until end is called.
func (t *tally) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finish()
}

// settle is for who holds the lock.
func (t *tally) settle() {
	if t.counts[unsent] > 0 {
		t.signal() // there may be room for more requests
	}
	awaited := t.counts[silent] + t.counts[away] + t.counts[acked]
	if awaited == 0 && (t.halted || t.counts[unsent] == 0) {
		t.finish()
	}
}

// finish is for who holds the lock.
func (t *tally) finish() {
	select {
	case <-t.done:
	default:
		close(t.done)
	}
}

func (t *tally) signal() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// room is how many more targets a batch lets work now, and how many targets are without success for good.
func (t *tally) room(b *job.Batch) (free, failures int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	failures = t.counts[returned] - t.succeeded + t.counts[gaveUp]
	if !t.patient {
		failures += t.counts[away]
	}
	return b.Size - t.counts[silent] - t.counts[acked], failures
}

// missing says whether any target that was sent the request has not returned.
func (t *tally) missing() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[returned]+t.counts[unsent] < len(t.progress)
}

// working reports whether a target is waited for that has the request, or may have it, and how many have returned.
func (t *tally) working() (returns int, waits bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[returned], t.counts[silent]+t.counts[acked] > 0
}

// end ends the counting and returns what has been counted.
func (t *tally) end() job.End {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return job.End{Targets: len(t.progress), Returned: t.counts[returned], Succeeded: t.succeeded, Stopped: t.stopped, LastReturn: t.last}
}
