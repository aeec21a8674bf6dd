package scheduler

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// History is what is remembered of an entry, by its name. Times are zero for what has not happened.
type History struct {
	Identity
	Counts
	Nominal   time.Time   `json:"nominal,omitzero"`   // of the last fire, also of one that did not run
	Held      time.Time   `json:"held,omitzero"`      // nominal time of the next fire, if it is held until the windows open
	Waiting   *Waiting    `json:"waiting,omitempty"`  // the fire that waits for a run to end
	Owed      []time.Time `json:"owed,omitempty"`     // nominal times that were missed and will be made up, the oldest first
	Fired     time.Time   `json:"fired,omitzero"`     // of the last run
	Started   time.Time   `json:"started,omitzero"`   // of the last run
	Ended     time.Time   `json:"ended,omitzero"`     // of the last run that ended
	Succeeded time.Time   `json:"succeeded,omitzero"` // end of the last run that succeeded
	Job       string      `json:"job,omitempty"`      // of the last run that succeeded and was reported
	Error     string      `json:"error,omitempty"`    // of the last run that ended; empty if it succeeded
	Breaker   Breaker     `json:"breaker,omitzero"`
	Paused    *Override   `json:"paused,omitempty"`
	Skip      *Override   `json:"skip,omitempty"` // of the next fire
	Last      []RunRecord `json:"last,omitempty"` // runs that ended, the newest last
}

// Identity says which entry the rest of its history is of, and since when.
type Identity struct {
	Seen       time.Time `json:"seen,omitzero"`         // first active
	Left       time.Time `json:"left,omitzero"`         // removed from the schedule
	Hash       string    `json:"hash,omitempty"`        // of the entry
	TimingHash string    `json:"timing_hash,omitempty"` // of when it runs
	TimingSeen time.Time `json:"timing_seen,omitzero"`  // when it got that timing
	Active     time.Time `json:"active,omitzero"`       // since when without a break but those of the process
}

// Counts are numbers of runs and fires.
type Counts struct {
	TimingRuns    uint64            `json:"timing_runs,omitempty"` // since TimingSeen, without those that somebody asked for
	Runs          uint64            `json:"runs"`                  // that ended or were interrupted
	Failures      uint64            `json:"failures"`
	FailuresInRow uint64            `json:"failures_in_row"`       // without those canceled for the next run
	Interrupted   uint64            `json:"interrupted,omitempty"` // runs during which the peel died, neither successes nor failures
	Late          uint64            `json:"late,omitempty"`        // runs that started later than the entry wants
	Skips         map[Reason]uint64 `json:"skips,omitempty"`       // fires that did not run
}

// Waiting is a fire that if_running has wait for the end of a run. The entry's definition is taken when the wait ends.
type Waiting struct {
	Trigger Trigger   `json:"trigger"`
	Nominal time.Time `json:"nominal"`
	Fired   time.Time `json:"fired"`
	Held    bool      `json:"held,omitempty"` // it had waited for the windows to open
	Since   time.Time `json:"since"`

	from time.Duration // Since, as elapsed time of this process
}

// fire returns the fire that waits.
func (w *Waiting) fire(name string) Fire {
	return Fire{Name: name, Trigger: w.Trigger, Nominal: w.Nominal, Fired: w.Fired, held: w.Held}
}

// is reports whether the fire is the one that waits.
func (w *Waiting) is(f Fire) bool {
	return w != nil && w.Trigger == f.Trigger && w.Nominal.Equal(f.Nominal)
}

// A RunRecord is one run that has ended.
type RunRecord struct {
	Run     wire.JID  `json:"run,omitempty"`
	Trigger Trigger   `json:"trigger"`
	Nominal time.Time `json:"nominal"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"` // zero if it was interrupted
	Success bool      `json:"success"`
	// Interrupted marks a run during which the peel died: it is not known how far the run came.
	Interrupted bool   `json:"interrupted,omitempty"`
	Error       string `json:"error,omitempty"`
	Job         string `json:"job,omitempty"` // Run, once its report is stored
}

// maxRunRecords is how many runs of an entry are remembered one by one.
const maxRunRecords = 10

func (e *entry) remember(r *run, ended time.Time) {
	if len(e.Last) >= maxRunRecords {
		e.Last = slices.Delete(e.Last, 0, len(e.Last)-maxRunRecords+1)
	}
	e.Last = append(e.Last, RunRecord{
		Run: r.fire.JID, Trigger: r.fire.Trigger, Nominal: r.fire.Nominal, Started: r.fire.Started, Ended: ended,
		Success: r.result.Success, Interrupted: r.result.Outcome == wire.Interrupted, Error: e.Error,
	})
}

// clone copies what the owner changes in place.
func (h History) clone() History {
	h.Skips, h.Last, h.Owed = maps.Clone(h.Skips), slices.Clone(h.Last), slices.Clone(h.Owed)
	h.Breaker.Transitions = slices.Clone(h.Breaker.Transitions)
	return h
}

// why is the order in words.
func (o *Override) why() string {
	text := "paused"
	if o.By != "" {
		text += " by " + o.By
	}
	if !o.Until.IsZero() {
		text += " until " + o.Until.Format(time.RFC3339)
	}
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	return text
}

// record adds a run to the entry's history. An interrupted run has no end time and counts neither as a success nor as a
// failure.
func (e *entry) record(r *run) {
	var ended time.Time
	if r.result.Outcome != wire.Interrupted {
		ended = r.ended.wall.In(r.fire.Started.Location())
		if ended.Before(r.fire.Started) { // the wall clock was set back
			ended = r.fire.Started
		}
		e.Ended = ended
	}
	e.Runs++
	e.TimingRuns += r.counts()
	e.Error = ""
	if !r.result.Success {
		e.Error = cutError(r.result.Error)
	}
	e.remember(r, ended)
	switch {
	case r.result.Outcome == wire.Interrupted:
		e.Interrupted++
	case r.result.Success:
		e.Succeeded, e.Job, e.FailuresInRow = e.Ended, "", 0
	case r.yields:
		e.Failures++
	default:
		e.Failures++
		e.FailuresInRow++
	}
}

const maxError = 1024 // bytes of a run's error that are kept

func cutError(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxError)], "")
}
