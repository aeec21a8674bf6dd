// File tally.go counts what the targets of one job do. Make a [Tally] with [NewTally] and set its targets with
// [Tally.Begin]. [Tally.Acknowledge] and [Tally.MarkReturned] count messages, [Tally.Advance] what the job's master
// decides. Done is closed when no target is waited for; [Tally.End] closes the count. Targets are named by their place
// in the job's list. Its methods may be called from several goroutines.

package dispatch

import (
	"errors"
	"slices"
	"sync"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Progress is how far one target is.
type Progress uint8

// A target begins as unsent and ends as given up or returned.
const (
	Unsent      Progress = iota
	Silent               // was sent the request
	Unreachable          // stayed silent; it may still acknowledge or return
	Acked                // has the request
	GivenUp              // has taken all its time; a return still counts while the job runs
	Returned
	stages
)

// A Tally counts what the targets of one job do.
type Tally struct {
	Done    chan struct{} // closed when no target is waited for
	Changed chan struct{} // holds one token when there may be capacity for more requests, and after Signal

	mu        sync.Mutex
	targets   []target.PeelID
	places    map[string]int // of targets by wire ID; nil until the job is about to be published
	progress  []Progress     // of targets by place
	counts    [stages]int    // of targets by progress
	wait      bool           // unreachable targets may connect and be sent the request
	halted    bool           // no further target is sent the request
	closed    bool           // nothing more counts
	succeeded int            // returns that are a success
	stopped   int            // returns of targets that were canceled
	last      uint64         // highest sequence of a return
}

// NewTally returns a tally that has no targets yet.
func NewTally() *Tally {
	return &Tally{Done: make(chan struct{}), Changed: make(chan struct{}, 1)}
}

// Begin sets the targets. Wait says that unreachable targets are waited for.
func (t *Tally) Begin(targets []target.PeelID, wait bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.targets, t.wait = targets, wait
	t.progress = make([]Progress, len(targets))
	t.counts[Unsent] = len(targets)
	t.places = make(map[string]int, len(targets))
	for i, id := range targets {
		t.places[id.Wire()] = i
	}
}

// Errors of messages that do not count.
var (
	ErrStranger = errors.New("the sender is no target of the job")
	ErrRepeated = errors.New("the target has returned already")
	ErrLate     = errors.New("the job has ended")
)

// Place returns the place and the ID of the target that is the sender, a wire ID. The error is [ErrStranger].
func (t *Tally) Place(sender string) (int, target.PeelID, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	place, ok := t.places[sender]
	if !ok {
		return 0, "", ErrStranger
	}
	return place, t.targets[place], nil
}

// CountsReturn returns why a return of the target at place does not count, nil if it does.
func (t *Tally) CountsReturn(place int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.countsReturnLocked(place)
}

func (t *Tally) countsReturnLocked(place int) error {
	switch {
	case t.closed:
		return ErrLate
	case t.progress[place] == Returned:
		return ErrRepeated
	}
	return nil
}

func (t *Tally) setLocked(place int, p Progress) {
	t.counts[t.progress[place]]--
	t.counts[p]++
	t.progress[place] = p
}

// Advance sets the progress of those of the targets at places whose progress is one of from, and returns their places.
func (t *Tally) Advance(places []int, to Progress, from ...Progress) []int {
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

// At returns those of the places whose target has this progress.
func (t *Tally) At(stage Progress, places []int) []int {
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

// Acknowledge notes that the target at place has the request.
func (t *Tally) Acknowledge(place int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.progress[place]; p == Silent || p == Unreachable {
		t.setLocked(place, Acked)
	}
}

// MarkReturned counts the return of the target at place, once. sequence is the sequence of the return in its bucket.
func (t *Tally) MarkReturned(place int, sequence uint64, r *job.Receipt) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.countsReturnLocked(place); err != nil {
		return err
	}
	t.setLocked(place, Returned)
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

// Halt lets no further target be sent the request.
func (t *Tally) Halt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.halted, t.wait = true, false
	t.checkDoneLocked()
}

// GiveUpUnreachable ends the wait for unreachable targets, except those at places.
func (t *Tally) GiveUpUnreachable(places map[int]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wait = false
	for place, p := range t.progress {
		if p == Unreachable && !places[place] {
			t.setLocked(place, GivenUp)
		}
	}
	t.checkDoneLocked()
}

// Stop closes Done. Returns still count until [Tally.End].
func (t *Tally) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopLocked()
}

// checkDoneLocked closes Done if no target is waited for. Caller must hold mu.
func (t *Tally) checkDoneLocked() {
	if t.counts[Unsent] > 0 {
		t.Signal() // there may be room for more requests
	}
	awaited := t.counts[Silent] + t.counts[Unreachable] + t.counts[Acked]
	if awaited == 0 && (t.halted || t.counts[Unsent] == 0) {
		t.stopLocked()
	}
}

func (t *Tally) stopLocked() {
	select {
	case <-t.Done:
	default:
		close(t.Done)
	}
}

// Signal puts a token into Changed.
func (t *Tally) Signal() {
	select {
	case t.Changed <- struct{}{}:
	default:
	}
}

// Capacity returns how many more targets may be sent the request of a batch now, and how many targets have failed for
// good.
func (t *Tally) Capacity(b *job.Batch) (free, failures int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.halted {
		return 0, 0
	}
	failures = t.counts[Returned] - t.succeeded + t.counts[GivenUp]
	if !t.wait {
		failures += t.counts[Unreachable]
	}
	return b.Size - t.counts[Silent] - t.counts[Acked], failures
}

// Missing reports whether any target that was sent the request has not returned.
func (t *Tally) Missing() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[Returned]+t.counts[Unsent] < len(t.progress)
}

// Working reports whether a target that has the request, or may have it, is waited for, and how many have returned.
func (t *Tally) Working() (returns int, waits bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[Returned], t.counts[Silent]+t.counts[Acked] > 0
}

// End ends the counting and returns what has been counted.
func (t *Tally) End() job.End {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return job.End{
		Targets:    len(t.progress),
		Returned:   t.counts[Returned],
		Succeeded:  t.succeeded,
		Stopped:    t.stopped,
		LastReturn: t.last,
	}
}
