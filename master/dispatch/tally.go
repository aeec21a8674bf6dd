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
	unsent      progress = iota
	silent               // was sent the request
	unreachable          // stayed silent; it may still acknowledge or return
	acked                // has the request
	givenUp              // has taken all its time; a return still counts while the job runs
	returned
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
	wait      bool           // unreachable targets may connect and be sent the request
	halted    bool           // no further target is sent the request
	closed    bool           // nothing more counts
	succeeded int            // returns that are a success
	stopped   int            // returns of targets that were canceled
	last      uint64         // highest sequence of a return
}

func newTally() *tally {
	return &tally{done: make(chan struct{}), changed: make(chan struct{}, 1)}
}

// begin sets the targets. Wait says that unreachable targets are waited for.
func (t *tally) begin(targets []target.PeelID, wait bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.targets, t.wait = targets, wait
	t.progress = make([]progress, len(targets))
	t.counts[unsent] = len(targets)
	t.places = make(map[string]int, len(targets))
	for i, id := range targets {
		t.places[id.Wire()] = i
	}
}

// Why a message does not count.
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

// countsReturn returns why a return of the target at place does not count, nil if it does.
func (t *tally) countsReturn(place int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.countsReturnLocked(place)
}

func (t *tally) countsReturnLocked(place int) error {
	switch {
	case t.closed:
		return errLate
	case t.progress[place] == returned:
		return errRepeated
	}
	return nil
}

func (t *tally) setLocked(place int, p progress) {
	t.counts[t.progress[place]]--
	t.counts[p]++
	t.progress[place] = p
}

// advance sets the progress of those of the targets at places whose progress is one of from, and returns their places.
func (t *tally) advance(places []int, to progress, from ...progress) []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	var moved []int
	for _, place := range places {
		if slices.Contains(from, t.progress[place]) {
			t.setLocked(place, to)
			moved = append(moved, place)
		}
	}
	t.checkDoneLocked()
	return moved
}

// at returns those of the places whose target has this progress.
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
	if p := t.progress[place]; p == silent || p == unreachable {
		t.setLocked(place, acked)
	}
}

// markReturned counts the return of the target at place, once. The sequence is that of the return in its bucket.
func (t *tally) markReturned(place int, sequence uint64, r *job.Receipt) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.countsReturnLocked(place); err != nil {
		return err
	}
	t.setLocked(place, returned)
	t.last = max(t.last, sequence)
	if r.Success {
		t.succeeded++
	}
	if r.Outcome == wire.Canceled {
		t.stopped++
	}
	t.checkDoneLocked()
	return nil
}

// halt lets no further target be sent the request.
func (t *tally) halt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.halted, t.wait = true, false
	t.checkDoneLocked()
}

// giveUpUnreachable ends the wait for unreachable targets, except those at places.
func (t *tally) giveUpUnreachable(places map[int]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wait = false
	for place, p := range t.progress {
		if p == unreachable && !places[place] {
			t.setLocked(place, givenUp)
		}
	}
	t.checkDoneLocked()
}

// stop closes done. Returns still count until end is called.
func (t *tally) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopLocked()
}

// checkDoneLocked closes done if no target is waited for. Caller must hold mu.
func (t *tally) checkDoneLocked() {
	if t.counts[unsent] > 0 {
		t.signal() // there may be room for more requests
	}
	awaited := t.counts[silent] + t.counts[unreachable] + t.counts[acked]
	if awaited == 0 && (t.halted || t.counts[unsent] == 0) {
		t.stopLocked()
	}
}

func (t *tally) stopLocked() {
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

// capacity returns how many more targets may be sent the request of a batch now, and how many targets have failed for good.
func (t *tally) capacity(b *job.Batch) (free, failures int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.halted {
		return 0, 0
	}
	failures = t.counts[returned] - t.succeeded + t.counts[givenUp]
	if !t.wait {
		failures += t.counts[unreachable]
	}
	return b.Size - t.counts[silent] - t.counts[acked], failures
}

// missing reports whether any target that was sent the request has not returned.
func (t *tally) missing() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[returned]+t.counts[unsent] < len(t.progress)
}

// working reports whether a target that has the request, or may have it, is waited for, and how many have returned.
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
