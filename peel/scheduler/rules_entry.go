// File rules_entry.go decides for one entry of a schedule: when its next fire comes, which fires it has missed, and
// which rules keep a fire from running. It starts no run and writes no file; only [NewClock] reads a clock.
//
// Call [NewEntry] for a name, then set Spec, Timing and Rhythm (by [RhythmOf]). [Rhythm.Next] returns the next nominal
// time and [Entry.Draw] its splay; call [Entry.MayFire], [Entry.ClosedBy] and [Entry.BreakerAllows] before a run.
// [Entry.State] returns the state that people see. Methods of one Entry must not be called at the same time.
//
// # Two clocks
//
// An interval counts elapsed time, which includes suspends of the host and cannot be set. Cron follows the wall clock.
// A delay (after) is stored as a time of the wall clock, for the next process, and moves when the wall clock is set.
// Fires of the two clocks are in separate queues: setting the wall clock changes only the bounds of the life of
// intervals. After a suspend, or when the wall clock was set forward, an entry fires once for all times that it missed;
// a cron time further back than the start deadline is dropped. When the wall clock was set back, cron times do not run
// again that have run, unless that was by a clock of more than three hours from the present one. Cron that follows
// elapsed time runs again at once, as it does in the hour that daylight saving repeats.
//
// # Intervals
//
// The first fire of an interval comes one interval after the entry became active, or after its last run if that is
// remembered. It counts from the end of the last run in flight; while one is in flight a fire comes every interval
// after the previous one, so that maxrunning decides. An interval from start to start counts from nominal time to
// nominal time.
//
// # Known gap
//
// Runs in flight are not known here, so the caller counts them towards [Entry.MaxRuns].

package scheduler

import (
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// An Entry is one name of the schedule, with its timing and its history.
type Entry struct {
	Name    string
	Spec    *schedule.Entry // nil: it was removed from the schedule, and its history is kept
	Timing  schedule.Timing
	Rhythm  Rhythm // of Timing
	Invalid string // why it cannot run, whatever Spec says; empty if it can
	// Anchor is the elapsed time from which an interval counts: the activation, the end of the last run, or the last
	// fire while a run is in flight. It is kept for every entry, because its timing may change.
	Anchor  time.Duration
	Next    Pending
	Peel    ledger.Marks      // of the peel
	Unsaved []ledger.Fire     // what was written into the list since the last save
	Past    [][]byte          // what the list has forgotten since the last save
	Wrote   func(ledger.Fire) // is told what is written into the list; nil: nobody is
	newest  Newest            // of this process
	History
}

// A Newest is what became of the newest fire that ran or was missed.
type Newest struct {
	Outcome       ledger.Outcome
	Late, Overran bool
}

// NewEntry returns an entry without a timing.
func NewEntry(name string) Entry { return Entry{Name: name, Rhythm: wall{}} }

// TriggerResume is not a fire, but the end of a pause.
const TriggerResume wire.Trigger = "resume"

// Pending is the next fire of an entry. The zero value is none.
type Pending struct {
	Trigger wire.Trigger
	OnWall  bool // its times are Unix times, else they are elapsed ones
	Nominal int64
	At      int64       // splay included
	Listed  ledger.Fire // as it is in the list; without an era if it is not there yet
	Held    bool        // windows were closed at its nominal time, and open at the time that its splay is added to
}

// Clock returns the reading of the clock of the fire.
func (p Pending) Clock(now Instant) int64 {
	if p.OnWall {
		return now.Wall.UnixNano()
	}
	return int64(now.Up)
}

// Splaying reports whether the nominal time of the fire has passed: it waits for its splay or for the windows.
func (p Pending) Splaying(now Instant) bool {
	return p.Trigger != "" && p.Trigger != TriggerResume && (p.Listed.Era > 0 || p.Nominal <= p.Clock(now))
}

// LongAgo is longer than any interval, and short enough for sums of durations.
const LongAgo = 100 * 366 * 24 * time.Hour

// CountFrom makes the interval of the entry count from a time of the wall clock.
func (e *Entry) CountFrom(at time.Time, now Instant) {
	e.Anchor = now.Up - min(max(0, now.Wall.Sub(at)), LongAgo)
}

// CountFromLastRun makes the interval of the entry count from its last run, or from now. The wall clock was set by step
// since that run.
func (e *Entry) CountFromLastRun(step time.Duration, now Instant) {
	e.Anchor = now.Up
	if last := later(e.Ended, e.Started); !last.IsZero() {
		e.CountFrom(last.Add(step), now)
	}
}

// IsActive reports whether the entry may fire: it is enabled and not paused by failures.
func (e *Entry) IsActive() bool {
	return e.IsEnabled() && !e.Failing()
}

// IsEnabled reports whether the schedule has the entry and enables it, this host can run it, and no operator has paused
// it.
func (e *Entry) IsEnabled() bool {
	return e.Spec != nil && e.Spec.Enabled && e.Invalid == "" && e.Paused == nil
}

// ClockOf returns the reading of the clock that the entry follows.
func (e *Entry) ClockOf(now Instant) int64 { return Pending{OnWall: e.Rhythm.OnWall()}.Clock(now) }
