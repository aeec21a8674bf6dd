package wire

import "time"

// ScheduleInterval is the time between two reports on a schedule in which nothing else makes one due, ± 10 %.
const ScheduleInterval = 10 * time.Minute

// FireCounts are numbers of fires by what happened to them. A fire counts once in Ran, Skipped or Missed, when that is
// certain. Failed, Late and Overran are part of Ran.
type FireCounts struct {
	Ran    uint64 `json:"ran,omitempty"`    // runs that ended or were interrupted, of all triggers but manual ones
	Failed uint64 `json:"failed,omitempty"` // runs that failed or were interrupted
	Late   uint64 `json:"late,omitempty"`   // runs that started more than late_after late
	// runs that were in flight when the next fire was due, or ended by their timeout
	Overran uint64 `json:"overran,omitempty"`
	Skipped uint64 `json:"skipped,omitempty"` // fires that a rule or an operator kept from running
	// fires that did not start in time: the peel was down, suspended or too slow
	Missed uint64 `json:"missed,omitempty"`
	Manual uint64 `json:"manual,omitempty"` // runs that a person asked for
}

// A ScheduleHour has the counts of the fires whose nominal time is in one hour of UTC.
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
