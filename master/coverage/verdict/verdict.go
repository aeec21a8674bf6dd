// Package verdict has the types in which masters say what happened to the fires of schedules. It has no logic but their
// order, so that coverage, alerts and metrics share them without importing each other.
package verdict

import (
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Kind is a class of problems with schedules.
type Kind string

// The kinds of a [Problem].
const (
	Missed Kind = "missed" // a fire did not start in time on a peel
	Failed Kind = "failed" // the newest run failed
	Late   Kind = "late"   // the newest run started more than late_after late
	// the newest run was in flight when the next one was due, or was ended by its timeout
	Overran      Kind = "overran"
	Paused       Kind = "paused"        // failures, an operator or an error in the entry keep it from firing
	NotReporting Kind = "not_reporting" // a peel with a schedule is away; Problem.Entry is empty
	Disagrees    Kind = "disagrees"     // the clock, zone, document or disk of a peel is not what masters expect
)

// The kinds of problems with revisions, for alerts. Problem.Entry and Problem.Peel are empty.
const (
	Refused    Kind = "refused"     // the newest revision does not compile, or may not be served
	Stalled    Kind = "stalled"     // no revision can be published until a person changes something
	WaveFailed Kind = "wave_failed" // the newest revision was rolled back
	// the newest revision waits for a person or a date: an approval, gate, pin, pause or freeze
	Held Kind = "held"
)

// BreakGlass is the kind of the problem that the credential of a master's data directory was used in place of one of a
// person.
const BreakGlass Kind = "break_glass"

// The kinds of problems with states, for the console: what the newest run of all states of a peel has found.
const (
	StateFailed Kind = "state_failed" // a state failed
	Drifted     Kind = "drifted"      // the host was changed by hand
)

// A Problem is what is wrong with one entry on one peel now, or with a peel as a whole.
type Problem struct {
	Kind  Kind
	Entry string // empty: the peel as a whole
	Peel  target.PeelID
	Since time.Time // when it began, by the nominal time of the first fire concerned if there is one
	Text  string    // reason or head of the error
	// Commit had last changed the entry when the run started that has the problem; empty: that is not known.
	Commit string
	// Revision is the commit that a problem with revisions is about; empty: that is not known.
	Revision settings.Commit
	// Explained says that no commit caused the problem: the peel was stopped or down, or a person ran the entry.
	Explained bool
}

// A Run is what masters know of the runs of one entry on one peel, by its newest report. Times that are not known are
// zero.
type Run struct {
	Entry   string
	Peel    target.PeelID
	Started time.Time // of the run that started last
	Ended   time.Time // of the run that ended last; it may be another one
	Failed  bool      // the run that ended last failed
	Exit    int       // its exit code, from 1 to 254; 0: it succeeded, or failed without an exit code
	Running bool      // a run is in flight
	Before  []Ended   // runs that ended before Ended and that the report notes, the oldest first
}

// Ended is a run that has ended.
type Ended struct {
	At     time.Time // in whole seconds
	Failed bool
	Exit   int // as in [Run]
}

// Counts are numbers of fires by verdict. Every expected fire is in exactly one of Ran, Skipped, Missed and Unknown
// once it is judged. Failed, Late and Overran are part of Ran; Unexpected is not part of Expected.
type Counts struct {
	Expected   uint64 `json:"expected"`
	Ran        uint64 `json:"ran"`
	Failed     uint64 `json:"failed"`
	Late       uint64 `json:"late"`
	Overran    uint64 `json:"overran"`
	Skipped    uint64 `json:"skipped"`
	Missed     uint64 `json:"missed"`
	Unknown    uint64 `json:"unknown"`
	Unexpected uint64 `json:"unexpected"`
}

// Numbers returns the counts in the order of the fields, to be read or set.
func (c *Counts) Numbers() [9]*uint64 {
	return [9]*uint64{
		&c.Expected, &c.Ran, &c.Failed, &c.Late, &c.Overran, &c.Skipped, &c.Missed, &c.Unknown, &c.Unexpected,
	}
}

// Add adds the counts of other.
func (c *Counts) Add(other Counts) {
	to := c.Numbers()
	for i, n := range other.Numbers() {
		*to[i] += *n
	}
}

// A Summary is one entry over all peels that have it.
type Summary struct {
	Entry       string
	Counts      Counts            // since the master has read the stored reports; they never decrease
	Skips       map[string]uint64 // Counts.Skipped by reason
	States      map[string]int    // peels by state of the entry: active, disabled, paused_manual, …
	Problems    map[Kind]int      // peels by problem
	LastSuccess time.Time         // of the peel whose last success is the oldest; zero: one never succeeded
	NextFire    time.Time         // the earliest of all peels; zero: none
	// Durations are how many runs took at most each of [DurationBounds], and the sum and number of all runs.
	Durations []uint64
	Sum       time.Duration
	Runs      uint64
}

// DurationBounds are the upper bounds of the histogram in a [Summary].
var DurationBounds = []time.Duration{
	100 * time.Millisecond, time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute,
	15 * time.Minute, time.Hour, 6 * time.Hour,
}

// Health says how far the reports behind all verdicts are known. Verdicts of a table that is not ready, or that is
// behind, are not given.
type Health struct {
	Ready bool `json:"ready"` // all stored reports were read
	// since when the stream has had messages that were not read; zero: none
	Behind       time.Time `json:"behind,omitzero"`
	Peels        int       `json:"peels"`     // with a schedule
	Reporting    int       `json:"reporting"` // of them, whose newest report is not overdue
	Entries      int       `json:"entries"`   // on all peels
	Refused      uint64    `json:"refused"`   // messages that were not valid reports
	HistoryError string    `json:"history_error,omitempty"`
	// HistoryUnread is how many stored hours this master could not add to, because they are damaged or of a newer
	// version.
	HistoryUnread int `json:"history_unread,omitempty"`
}

// ranks are the kinds of problems, the worst first. The kinds state_failed and drifted are those of hosts and their
// states.
var ranks = []Kind{
	Failed, Missed, Refused, Stalled, WaveFailed, Paused, Late, Overran,
	StateFailed, Drifted, Disagrees, NotReporting, Held,
}

// Known reports whether problems of a kind exist.
func Known(k Kind) bool { return slices.Contains(ranks, k) }

// Kinds lists the kinds of problems for a message.
func Kinds() string {
	var names []string
	for _, k := range ranks {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// Rank orders problems: a lower number is worse. An entry that a person paused comes last.
func Rank(k Kind, byHand bool) int {
	i := slices.Index(ranks, k)
	if byHand || i < 0 {
		return len(ranks)
	}
	return i
}
