// File history.go keeps on disk what a schedule has done on a host: the history and the fires of each entry, and a
// record of each run in progress.
//
// Call [OpenStore], which returns what the last process left. [Store.Begin] writes the record of a run before it
// begins, [Store.End] adds its end, [History.Record] adds it to the history of its entry, and a [Saver] writes what has
// changed.
//
// All is in one file, to which records are appended; package journal says what a crash and a damage leave of it. An
// entry has several records, so that a run writes only what it has changed. The newest record of each kind counts;
// fires add up to the list of their entry, and those that it has forgotten to its past. A run that began has a record
// until the file has its end in the history.
//
// Known gap: the end of a run is written without a flush, so that a power cut may make a run that has just ended count
// as interrupted.

package scheduler

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// History is the stored state of an entry. Times of events that have not happened are zero.
type History struct {
	Identity
	Orders
	Progress
	Breaker Breaker     `json:"breaker,omitzero"`
	Last    []RunRecord `json:"last,omitempty"` // runs that ended, the newest last
	List    ledger.List `json:"-"`              // what became of each fire
}

// Orders are what operators have ordered.
type Orders struct {
	Paused *Override `json:"paused,omitempty"`
	Skip   *Override `json:"skip,omitempty"` // of the next fire
}

// Progress is how far the fires and runs of an entry have come.
type Progress struct {
	Counts
	Nominal time.Time `json:"nominal,omitzero"` // of the last fire, also of one that did not run
	// nominal time of the next fire, if it is held until the windows open
	Held time.Time `json:"held,omitzero"`
	// from when its interval counts, by the clock of the last record; zero: from its last run
	Anchored time.Time `json:"anchored,omitzero"`
	Delayed  *Delay    `json:"delayed,omitempty"` // the next fire, if it has a splay
	Waiting  *Waiting  `json:"waiting,omitempty"` // the fire that waits for a run to end
	// nominal times that were missed and will be made up, the oldest first
	Owed      []time.Time `json:"owed,omitempty"`
	Fired     time.Time   `json:"fired,omitzero"`     // of the last run
	Started   time.Time   `json:"started,omitzero"`   // of the last run
	Ended     time.Time   `json:"ended,omitzero"`     // of the last run that ended
	Succeeded time.Time   `json:"succeeded,omitzero"` // end of the last run that succeeded
	Job       string      `json:"job,omitempty"`      // of the last run that succeeded and was reported
	Error     string      `json:"error,omitempty"`    // of the last run that ended; empty if it succeeded
	Took      ledger.Took `json:"took,omitzero"`
}

// Identity has the definition to which the rest of the history belongs, and its times.
type Identity struct {
	Seen       time.Time `json:"seen,omitzero"`         // first active
	Left       time.Time `json:"left,omitzero"`         // removed from the schedule
	Hash       string    `json:"hash,omitempty"`        // of the entry
	TimingHash string    `json:"timing_hash,omitempty"` // of when it runs
	TimingSeen time.Time `json:"timing_seen,omitzero"`  // when it got that timing
	// since when it has been active; stops of the process do not count
	Active time.Time `json:"active,omitzero"`
	Since  time.Time `json:"since,omitzero"` // since when it has had its timing and been active, or not been active
}

// Counts are numbers of runs and fires.
type Counts struct {
	TimingRuns    uint64 `json:"timing_runs,omitempty"` // since TimingSeen, without manual runs
	Runs          uint64 `json:"runs"`                  // that ended or were interrupted
	Failures      uint64 `json:"failures"`
	FailuresInRow uint64 `json:"failures_in_row"` // without those canceled for the next run
	// runs during which the peel died, neither successes nor failures
	Interrupted uint64                   `json:"interrupted,omitempty"`
	Late        uint64                   `json:"late,omitempty"`  // runs that started later than the entry wants
	Skips       map[ledger.Reason]uint64 `json:"skips,omitempty"` // fires that did not run
}

// A Delay is a fire with the splay that was drawn for it.
type Delay struct {
	Nominal time.Time `json:"nominal"`
	At      time.Time `json:"at"` // splay included
}

// Waiting is a fire that if_running has wait for the end of a run. The entry's definition is taken when the wait ends.
type Waiting struct {
	Trigger wire.Trigger `json:"trigger"`
	Nominal time.Time    `json:"nominal"`
	Fired   time.Time    `json:"fired"`
	Held    bool         `json:"held,omitempty"` // it had waited for the windows to open
	Since   time.Time    `json:"since"`
	By      string       `json:"by,omitempty"`     // who ran it by hand
	Listed  *ledger.Fire `json:"listed,omitempty"` // as it is in the list
}

// Fire returns the fire as it is in the list.
func (w *Waiting) Fire() ledger.Fire {
	if w.Listed != nil {
		return *w.Listed
	}
	return ledger.Fire{Class: ledger.ClassOf(w.Trigger), Nominal: ledger.At(w.Nominal)}
}

// A RunRecord is one run that has ended.
type RunRecord struct {
	Run     wire.JID     `json:"run,omitempty"`
	Trigger wire.Trigger `json:"trigger"`
	Nominal time.Time    `json:"nominal"`
	Started time.Time    `json:"started"`
	Ended   time.Time    `json:"ended,omitzero"` // zero if it was interrupted
	Success bool         `json:"success"`
	// Interrupted marks a run during which the peel died: it is not known how far the run came.
	Interrupted bool      `json:"interrupted,omitempty"`
	Era         uint32    `json:"era,omitempty"`   // of the fire in the list
	Listed      time.Time `json:"listed,omitzero"` // its nominal time in the list
	By          string    `json:"by,omitempty"`    // who ran it by hand
	Late        bool      `json:"late,omitempty"`  // it started later than the entry wants
	// it was in flight when the next fire was due, or ended by its timeout
	Overran    bool   `json:"overran,omitempty"`
	Stopped    bool   `json:"stopped,omitempty"`    // it was canceled because the peel was stopped
	Commit     string `json:"commit,omitempty"`     // that had last changed the entry when it started
	Generation uint64 `json:"generation,omitempty"` // of the settings then
	Error      string `json:"error,omitempty"`
	Job        string `json:"job,omitempty"` // Run, once its report is stored
}

// maxRunRecords is how many runs of an entry are remembered one by one.
const maxRunRecords = 10

// Clone returns a copy whose lists and maps are its own.
func (h History) Clone() History {
	h.Skips, h.Last, h.Owed = maps.Clone(h.Skips), slices.Clone(h.Last), slices.Clone(h.Owed)
	h.Breaker.Transitions = slices.Clone(h.Breaker.Transitions)
	h.List = h.List.Clone()
	return h
}

// Record adds a run that has ended or was interrupted. timed says that the run counts towards max_runs, replaced that
// it was canceled for the next run and does not count towards failures in a row.
func (h *History) Record(r RunRecord, timed, replaced bool) {
	r.Error = CutError(r.Error)
	h.Runs++
	if timed {
		h.TimingRuns++
	}
	h.Error = r.Error
	h.keep(r)
	if r.Interrupted {
		h.Interrupted++
		return
	}
	h.Took.Add(r.Ended.Sub(r.Started))
	h.Ended = r.Ended
	if r.Success {
		h.Succeeded, h.Job, h.FailuresInRow = h.Ended, "", 0
		return
	}
	h.Failures++
	if !replaced {
		h.FailuresInRow++
	}
}

const maxError = 1024 // bytes of a run's error that are kept

// CutError shortens the error of a run to 1,024 bytes of valid UTF-8.
func CutError(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxError)], "")
}

// Move moves the times since which something lasts by a step of the wall clock, so that they are as long ago as before
// it, and the time until which a fire waits for its splay. Nothing has lasted since a time after now. A timing that was
// seen at a time ahead of the clock is not moved: the host has booted with a clock that showed less.
func (h *History) Move(step time.Duration, now time.Time) {
	for _, since := range []*time.Time{&h.Active, &h.Since, &h.Left, &h.Anchored} {
		if !since.IsZero() {
			*since = earlier(since.Add(step), now)
		}
	}
	if old := now.Add(-step); !h.TimingSeen.IsZero() && !h.TimingSeen.After(old) {
		h.TimingSeen = h.TimingSeen.Add(step)
	}
	if h.Waiting != nil {
		moved := *h.Waiting
		moved.Since = earlier(moved.Since.Add(step), now)
		h.Waiting = &moved
	}
	if h.Skip != nil {
		moved := *h.Skip
		moved.At = earlier(moved.At.Add(step), now)
		h.Skip = &moved
	}
	if h.Delayed != nil {
		h.Delayed = &Delay{Nominal: h.Delayed.Nominal, At: h.Delayed.At.Add(step)}
	}
	h.Breaker.move(step, now)
}
