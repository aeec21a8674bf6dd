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
	// Args are plain values: nil, bool, int64, float64, string, []any, map[string]any. What was encrypted in its file is
	// the text that stands for it; [Entry.CallArgs] has the secrets.
	Args  map[string]any
	Clock Clock // when it runs
	Splay Splay
	// Timeout ends a run; 0 is no limit.
	Timeout time.Duration
	// RunOnStart asks for one more run, without splay, when the peel's process starts.
	RunOnStart bool
	ReturnJob  ReturnJob
	// Enabled is false for an entry that is kept but does not run. Such an entry may lack a module and a
	// timing, as its only purpose may be to mask the entry of the same name in peel.yaml.
	Enabled  bool
	Overlap  Overlap
	Windows  Windows
	Life     Life
	Missed   Missed
	Failures Failures
	Needs    Needs
	// Invalid says why the entry cannot be used. Such an entry has a name and nothing else; only [Set.Keep] makes it.
	Invalid string

	secretArgs map[string]any // Args with their secrets, nil if there are none
}

// CallArgs are Args with the secrets themselves. They are for the function that runs, and shown nowhere.
func (e *Entry) CallArgs() map[string]any {
	if e.secretArgs != nil {
		return e.secretArgs
	}
	return e.Args
}

// Clock is the timing of an entry. Exactly one of Interval, Cron, At and After is set, or none in an
// entry that is not enabled or that only Needs make run. A When is the phrase that Interval or Cron were
// made from, and decides nothing.
type Clock struct {
	Interval     Interval
	IntervalFrom Anchor
	Phase        time.Duration // of FromEpoch, below the interval
	Cron         []cron.Expr   // the entry fires when any of them does
	At           []time.Time   // in their order
	After        time.Duration // from when the entry was first seen, once
	When         string
	Zone         string // IANA name; empty is the peel's zone
	Changes      cron.Changes
}

// Interval is the time from one run to the next: a Duration, or calendar Months in the entry's zone.
// The zero Interval is none.
type Interval struct {
	Duration time.Duration
	Months   int
}

// Anchor is what an interval counts from.
type Anchor string

// The anchors: end or start of the run before, or a lattice on the Unix epoch.
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
	SplayRandom SplayMode = "random" // anew at each fire
	SplayHost   SplayMode = "host"   // always the same for one entry of one peel
)

// ReturnJob says which runs are reported as jobs.
type ReturnJob string

// Which runs are reported.
const (
	ReturnNever    ReturnJob = "false"
	ReturnAlways   ReturnJob = "true"
	ReturnFailures ReturnJob = "failures"
)

// Wants reports whether a run that has ended so is reported.
func (r ReturnJob) Wants(success bool) bool {
	return r == ReturnAlways || r == ReturnFailures && !success
}

// Overlap bounds how many runs of an entry there are at once. The entries of a set that name the same
// Group share the bound, and agree on MaxRunning and IfRunning.
type Overlap struct {
	MaxRunning int
	IfRunning  IfRunning
	Group      string
}

// IfRunning says what a fire does when MaxRunning runs are in flight.
type IfRunning string

// The ways to meet a run in flight.
const (
	IfRunningSkip   IfRunning = "skip"   // the fire is dropped and counted
	IfRunningQueue  IfRunning = "queue"  // one fire waits for the end, later ones join it
	IfRunningCancel IfRunning = "cancel" // the run is cancelled, and the fire waits for its end
	IfRunningAllow  IfRunning = "allow"  // the limit does not count
)

// Windows bound the times at which an entry may run. [Timing.Window] and [Timing.Opens] apply them.
type Windows struct {
	Rules   window.Rules
	Outside Outside
}

// Outside says what becomes of a fire outside the windows.
type Outside string

// What becomes of it.
const (
	OutsideSkip  Outside = "skip"  // dropped and counted
	OutsideDefer Outside = "defer" // all of them run once, when the window opens
)

// Life bounds an entry as a whole; zero values are no bounds. Fires are within [NotBefore, Until).
type Life struct {
	NotBefore, Until time.Time
	MaxRuns          int
	DeleteAfterRun   bool
}

// Missed says what becomes of fires that came late or not at all.
type Missed struct {
	CatchUp       CatchUp
	CatchUpMax    int
	StartDeadline time.Duration
	LateAfter     time.Duration // a run that starts later than this is marked late; 0 marks none
}

// CatchUp says what becomes of fires missed while the peel was down.
type CatchUp string

// What becomes of them.
const (
	CatchUpSkip    CatchUp = "skip"
	CatchUpRunOnce CatchUp = "run_once" // the newest
	CatchUpRunAll  CatchUp = "run_all"  // the newest CatchUpMax
)

// Failures says how an entry answers to runs that fail. Zero values are none of it.
type Failures struct {
	Retry      Retry
	Breaker    Breaker
	PauseAfter int // failures in a row until the entry is paused; 0 never pauses it, and so it is beside a Breaker
}

// Retry repeats a run that failed: up to Attempts more times, after Backoff each.
type Retry struct {
	Attempts int
	Backoff  time.Duration
}

// Breaker stops an entry after Threshold failures in a row until ResetAfter has passed.
type Breaker struct {
	Threshold  int
	ResetAfter time.Duration
}

// Needs makes an entry run when another one of the same set has ended, beside its own timing if it has
// one. The zero Needs are none.
type Needs struct {
	Entry string
	On    NeedsOn
}

// NeedsOn is how the other entry's run has to end.
type NeedsOn string

// The ends of a run.
const (
	NeedsSuccess NeedsOn = "success"
	NeedsFailure NeedsOn = "failure"
	NeedsDone    NeedsOn = "done" // either
)
