package wire

import (
	"time"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// Bounds of what a scheduler counts of an entry.
const (
	MaxScheduleHours = 49 // hours
	MaxScheduleFires = 8  // single fires
)

// ScheduleInterval is the time between two reports on a schedule in which nothing else makes one due, ± 10 %.
const ScheduleInterval = 10 * time.Minute

// A ScheduleState is the state of each entry of a peel, and the counts of its fires. Peels report the lists of fires
// instead, see package ledger; masters make this form of them to explain one fire.
type ScheduleState struct {
	Peel    target.PeelID `json:"peel_id"`
	Commit  string        `json:"commit,omitempty"` // of the settings in force
	Digest  string        `json:"digest,omitempty"` // of the settings in force
	Version string        `json:"version,omitempty"`
	Zone    string        `json:"zone,omitempty"` // the zone of entries that name none, as the host has it
	Time    time.Time     `json:"time"`           // the peel's wall clock when the report was made
	Started time.Time     `json:"started"`        // when the process started
	// From is the first hour since the Unix epoch of which the entries have all fires that the peel remembers. Of an
	// earlier hour the report says nothing. It is at most 48 hours before Time; 0 stands for 11.
	From int64 `json:"from,omitempty"`
	// Entries are sorted by name. Entries that do not fit are only counted in More: the first ones by name are left out
	// of those that are well, then of the others.
	Entries []EntryReport `json:"entries,omitempty"`
	More    int           `json:"more,omitempty"`
	V       int           `json:"v"`
}

// An EntryReport is one entry in a ScheduleState. Times of events that have not happened are zero.
type EntryReport struct {
	Name  string `json:"name"`
	Local bool   `json:"local,omitempty"` // from peel.yaml, not from the settings
	State string `json:"state"`           // active, disabled, paused_manual, paused_errors, paused_invalid, exhausted
	Why   string `json:"why,omitempty"`
	// Since is when the entry became active with its present timing, or got its present state. Fires before it are not
	// accounted for by Hours as fires of this timing.
	Since   time.Time `json:"since,omitzero"`
	Breaker string    `json:"breaker,omitempty"` // open or half_open; empty: closed

	Next time.Time `json:"next,omitzero"` // next nominal time
	// Latest is when the run of Next must have started to be neither missed nor late: start_deadline (a minute at
	// least) after its splay and, with outside: defer, after the windows open; or late_after after the nominal time if
	// that is earlier.
	Latest time.Time `json:"latest,omitzero"`

	RunTimes
	Error   string `json:"error,omitempty"`   // head of the error of the last run; empty if it succeeded
	Job     JID    `json:"job,omitempty"`     // of the last run that was reported
	Running int    `json:"running,omitempty"` // runs in flight

	InRow    uint64            `json:"in_row,omitempty"` // failures in a row
	Counts   FireCounts        `json:"counts,omitzero"`  // since the entry was first seen on this host
	Median   time.Duration     `json:"median,omitempty"` // of the newest runs
	P95      time.Duration     `json:"p95,omitempty"`
	Skips    map[string]uint64 `json:"skips,omitempty"` // Counts.Skipped by reason
	Hours    []ScheduleHour    `json:"hours,omitempty"` // oldest first; see [ScheduleHour]
	Problems []FireReport      `json:"fires,omitempty"` // the newest fires that did not run, failed, were late or overran, oldest first
}

// RunTimes are the times of the last fire and the last run of an entry.
type RunTimes struct {
	Nominal   time.Time `json:"nominal,omitzero"` // of the last fire, also of one that did not run
	Fired     time.Time `json:"fired,omitzero"`   // of the last run
	Started   time.Time `json:"started,omitzero"`
	Ended     time.Time `json:"ended,omitzero"`
	Succeeded time.Time `json:"succeeded,omitzero"` // end of the last run that succeeded
}

// FireCounts are numbers of fires by what happened to them. A fire counts once in Ran, Skipped or Missed, when that is
// certain. Failed, Late and Overran are part of Ran.
type FireCounts struct {
	Ran     uint64 `json:"ran,omitempty"`     // runs that ended or were interrupted, of all triggers but manual ones
	Failed  uint64 `json:"failed,omitempty"`  // runs that failed or were interrupted
	Late    uint64 `json:"late,omitempty"`    // runs that started more than late_after late
	Overran uint64 `json:"overran,omitempty"` // runs that were in flight when the next fire was due, or ended by their timeout
	Skipped uint64 `json:"skipped,omitempty"` // fires that a rule or an operator kept from running
	Missed  uint64 `json:"missed,omitempty"`  // fires that did not start in time: the peel was down, suspended or too slow
	Manual  uint64 `json:"manual,omitempty"`  // runs that a person asked for
}

// A ScheduleHour has the counts of the fires whose nominal time is in one hour of UTC. A report has the hours of the
// last 12 h with fires, and earlier ones (48 h at most) since the last report that the stream confirmed; fewer if it
// would be too large.
type ScheduleHour struct {
	Hour int64 `json:"hour"` // hours since the Unix epoch
	FireCounts
	// Pending are fires whose nominal time has passed and that are not in another count yet: in flight, or waiting for
	// their splay, a slot, the windows, or their turn among the fires that are made up.
	Pending uint64            `json:"pending,omitempty"`
	Skips   map[string]uint64 `json:"skips,omitempty"`
}

// A FireReport is what happened to one fire.
type FireReport struct {
	Nominal time.Time     `json:"nominal"`
	Started time.Time     `json:"started,omitzero"`
	Took    time.Duration `json:"took,omitempty"`
	Result  string        `json:"result"` // as below, or the reason of a skip
	Error   string        `json:"error,omitempty"`
	Job     JID           `json:"job,omitempty"`
	Commit  string        `json:"commit,omitempty"`  // that had last changed the entry when the run started
	Stopped bool          `json:"stopped,omitempty"` // the run was canceled because the peel was stopped
}

// Results of a [FireReport].
const (
	FireFailed      = "failed"
	FireInterrupted = "interrupted" // the peel's process ended during the run
	FireLate        = "late"
	FireOverran     = "overran"
	FireMissed      = "missed"
)
