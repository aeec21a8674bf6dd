package schedule

import (
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
)

// Entry is one schedule entry with aliases resolved and defaults filled. Entries are immutable once
// parsed.
type Entry struct {
	Name   string
	Module string // the function to run, "cmd.run"
	// Args are plain values: nil, bool, int64, float64, string, []any, map[string]any. Encrypted values are masked;
	// [Entry.CallArgs] returns them in plain text.
	Args    map[string]any
	Clock   Clock // when it runs
	Splay   Splay
	Timeout time.Duration // longest run; 0 is no limit
	// RunOnStart adds one run, without splay, when the peel's process starts.
	RunOnStart bool
	ReturnJob  ReturnJob
	// Enabled is false for an entry that never runs. Such an entry may lack a module and a timing: it may only
	// disable the entry of the same name in peel.yaml.
	Enabled  bool
	Overlap  Overlap
	Windows  Windows
	Life     Life
	Missed   Missed
	Failures Failures
	Needs    Needs
	API      Made // of an entry that a program made
	// Invalid is the error for which the entry was refused, empty for a valid entry. A refused entry has no other
	// field than its name.
	Invalid string

	secretArgs map[string]any // Args in plain text, nil if no value is encrypted
}

// New returns an enabled entry with all defaults of the language.
func New(name string) *Entry {
	return &Entry{
		Name:      name,
		Clock:     Clock{IntervalFrom: FromEnd, Changes: cron.Changes{Gap: cron.GapRun, Repeat: cron.RepeatAuto}},
		Splay:     Splay{Mode: SplayRandom},
		ReturnJob: ReturnNever,
		Enabled:   true,
		Overlap:   Overlap{MaxRunning: 1, IfRunning: IfRunningSkip},
		Windows:   Windows{Outside: OutsideSkip},
		Missed:    Missed{CatchUp: CatchUpSkip, CatchUpMax: 100, StartDeadline: 3 * time.Hour},
		Needs:     Needs{On: NeedsSuccess},
	}
}

// SetArgs sets the arguments: masked has secrets masked, plain has them in plain text, or is nil if there are none.
func (e *Entry) SetArgs(masked, plain map[string]any) { e.Args, e.secretArgs = masked, plain }

// CallArgs returns the arguments with secrets in plain text. Pass them to the function that runs, and show them
// nowhere.
func (e *Entry) CallArgs() map[string]any {
	if e.secretArgs != nil {
		return e.secretArgs
	}
	return e.Args
}

// Made says which request made an entry. It is kept in the entry, so that the entry can be moved to another file. It
// does not change what runs: entries that differ only in it are equal.
type Made struct {
	ID   int       // number of the schedule in the REST API; 0: no request made the entry
	Name string    // as requested, for people
	By   string    // the person or token
	At   time.Time // when
}

// Clock is the timing of an entry. Exactly one of Interval, Cron, At and After is set, or none if the entry is
// disabled or runs only by its Needs. When is the phrase that Interval or Cron were parsed from, for display.
type Clock struct {
	Interval     Interval
	IntervalFrom Anchor
	Phase        time.Duration // for FromEpoch; below the interval
	Cron         []cron.Expr   // the entry fires when any of them does
	At           []time.Time   // sorted
	After        time.Duration // one fire, this long after the entry was first seen
	When         string
	Zone         string // IANA name; empty is the peel's zone
	Changes      cron.Changes
}

// IsZero reports whether the clock has no timing.
func (c Clock) IsZero() bool {
	return c.Interval == Interval{} && len(c.Cron) == 0 && len(c.At) == 0 && c.After == 0
}

// Interval is the time from one run to the next: a Duration, or calendar Months in the entry's zone.
// The zero Interval is no timing.
type Interval struct {
	Duration time.Duration
	Months   int
}

// Anchor is what an interval counts from.
type Anchor string

// The anchors: end or start of the run before, or multiples of the interval since the Unix epoch.
const (
	FromEnd   Anchor = "end"
	FromStart Anchor = "start"
	FromEpoch Anchor = "epoch"
)

// Splay is a delay added to each fire: at least Min, less than Max.
type Splay struct {
	Min, Max time.Duration
	Mode     SplayMode
}

// SplayMode says how a delay is chosen.
type SplayMode string

// The ways to choose a delay.
const (
	SplayRandom SplayMode = "random" // a new delay at each fire
	SplayHost   SplayMode = "host"   // one fixed delay for each peel and entry
)

// ReturnJob says which runs are reported as jobs.
type ReturnJob string

// Which runs are reported.
const (
	ReturnNever    ReturnJob = "false"
	ReturnAlways   ReturnJob = "true"
	ReturnFailures ReturnJob = "failures"
)

// Wants reports whether a run with this result is reported as a job.
func (r ReturnJob) Wants(success bool) bool {
	return r == ReturnAlways || r == ReturnFailures && !success
}

// Overlap limits the concurrent runs of an entry. The entries of a set with the same Group share the limit and have the
// same MaxRunning and IfRunning.
type Overlap struct {
	MaxRunning int
	IfRunning  IfRunning
	Group      string
}

// IfRunning says what a fire does while MaxRunning runs are in flight.
type IfRunning string

// What a fire does at the limit.
const (
	IfRunningSkip   IfRunning = "skip"   // the fire is dropped and counted
	IfRunningQueue  IfRunning = "queue"  // one fire waits for the end of a run; later fires replace it
	IfRunningCancel IfRunning = "cancel" // the run is cancelled, and the fire waits for its end
	IfRunningAllow  IfRunning = "allow"  // the fire runs; there is no limit
)

// Windows limit the times at which an entry may run. [Timing.Window] and [Timing.Opens] apply them.
type Windows struct {
	Rules   window.Rules
	Outside Outside
}

// Outside says what happens to a fire outside the windows.
type Outside string

// What happens to a fire outside the windows.
const (
	OutsideSkip  Outside = "skip"  // the fire is dropped and counted
	OutsideDefer Outside = "defer" // one run for all such fires, when the window opens
)

// Life limits when and how often an entry runs at all; zero values are no limits. Fires are within [NotBefore, Until).
type Life struct {
	NotBefore, Until time.Time
	MaxRuns          int
	DeleteAfterRun   bool
}

// Missed says what happens to fires that are late or were missed.
type Missed struct {
	CatchUp       CatchUp
	CatchUpMax    int
	StartDeadline time.Duration
	LateAfter     time.Duration // a run that starts later than this is marked late; 0 marks none
}

// CatchUp says which fires run that were missed while the peel was down.
type CatchUp string

// The missed fires that run.
const (
	CatchUpSkip    CatchUp = "skip"     // none
	CatchUpRunOnce CatchUp = "run_once" // the newest
	CatchUpRunAll  CatchUp = "run_all"  // the newest CatchUpMax
)

// Failures says what happens after a run fails. Zero values do nothing.
type Failures struct {
	Retry      Retry
	Breaker    Breaker
	PauseAfter int // pause the entry after this many failures in a row; 0 never does, and is required beside a Breaker
}

// Retry repeats a failed run up to Attempts times, each after Backoff.
type Retry struct {
	Attempts int
	Backoff  time.Duration
}

// Breaker stops an entry for ResetAfter after Threshold failures in a row.
type Breaker struct {
	Threshold  int
	ResetAfter time.Duration
}

// Needs makes an entry run when another entry of the same set has ended, in addition to its own timing. The zero
// Needs has no effect.
type Needs struct {
	Entry string
	On    NeedsOn
}

// NeedsOn is the required result of the other entry's run.
type NeedsOn string

// The results of a run.
const (
	NeedsSuccess NeedsOn = "success"
	NeedsFailure NeedsOn = "failure"
	NeedsDone    NeedsOn = "done" // either
)
