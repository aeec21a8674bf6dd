package api

import (
	"time"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A PeelRequest requests one peel, with all that masters know about it.
type PeelRequest struct {
	Peel target.PeelID `json:"peel"`
}

// Bounds of a [PeelDetail].
const (
	MaxPeelRows  = 100 // entries, and settings
	MaxPeelJobs  = 20
	MaxPeelValue = 300 // characters of a value
)

// A PeelDetail is one peel with its facts and what masters know about it.
type PeelDetail struct {
	Peel
	Entries  PeelEntries  `json:"entries"`
	Settings PeelSettings `json:"settings"`
	// States are of the newest run of all its states; nil: it has none, or see Lacks.
	States *status.States    `json:"states,omitempty"`
	Report *PeelReport       `json:"report,omitempty"` // nil: none came, or see Lacks
	Jobs   []job.Job         `json:"jobs"`             // the newest 20, without targets and arguments
	Ends   time.Time         `json:"credential_ends,omitzero"`
	Joined time.Time         `json:"joined,omitzero"` // when it was accepted last
	Lacks  map[string]string `json:"lacks,omitempty" doc:"What is left out, with the reason."`
}

// Parts of a [PeelDetail] that [PeelDetail.Lacks] names.
const (
	PartEntries    = "entries"
	PartSettings   = "settings"
	PartStates     = "states"
	PartReport     = "report"
	PartJobs       = "jobs"
	PartCredential = "credential"
)

// PeelEntries are the schedule entries of a peel: those with a problem first, then by name.
type PeelEntries struct {
	Rows  []PeelEntry `json:"rows" doc:"At most 100."`
	Total int         `json:"total"`
}

// A PeelEntry is a schedule entry on one peel, with what became of its fires in the last 24 hours.
type PeelEntry struct {
	CoverageRow
	When    string       `json:"when,omitempty"`  // its timing in English; empty if the caller may not read settings
	Local   bool         `json:"local,omitempty"` // of the host's peel.yaml, not of the config repo
	Running bool         `json:"running,omitempty"`
	Started time.Time    `json:"started,omitzero"` // of the last run
	Ended   time.Time    `json:"ended,omitzero"`   // of the last run that ended
	Problem *PeelProblem `json:"problem,omitempty"`
}

// PeelSettings are the settings that were last written for a peel, with secrets masked.
type PeelSettings struct {
	Commit     settings.Commit `json:"commit,omitempty"` // of the write
	Generation uint64          `json:"generation,omitempty"`
	Rows       []PeelSetting   `json:"rows" doc:"At most 100, by key."`
	Total      int             `json:"total"`
}

// A PeelSetting is one setting of a peel.
type PeelSetting struct {
	// Key is schedule:NAME, states:NAME, or another key.
	Key    string           `json:"key"`
	Value  string           `json:"value" doc:"JSON with secrets masked, the first 300 characters."`
	Origin *settings.Origin `json:"origin,omitempty" doc:"Of an entry or a state."` // nil: it is not known
}

// A PeelReport is what a peel last reported of its settings and its schedule.
type PeelReport struct {
	status.Peel
	Schedule time.Time `json:"schedule_reported,omitzero"` // when its schedule was
	// ClockOffset is by how much its clock was ahead of the masters'.
	ClockOffset time.Duration `json:"clock_offset" doc:"Nanoseconds."`
}
