// Package schedule is the language of schedule entries: what a peel runs and when.
//
// [ParseSet] reads the map under the key `schedule`, from a file of the config repo, from peel.yaml or
// from a settings document that came over the bus, strictly and with positions. [Merge] lays settings
// over what peel.yaml has, [Diff] says what a reload has to do, and [Entry.Timing] gives the arithmetic
// of the next fire. All of it is pure: the peel, the plan, the linter and the command line call the
// same functions and get the same answers.
//
// Two entries are equal when their [Entry.Canonical] bytes are: comments, the order of keys, aliases,
// spelled-out defaults and the spelling of a cron expression make no difference.
//
// Cron expressions mean what they mean to the cronie daemon, daylight saving included: package cron tells
// the rule.
package schedule

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
)

// MaxEntries is how many entries one set may hold.
const MaxEntries = 1000

// Set is a schedule: entries by name.
type Set map[string]*Entry

// Entry is one schedule entry with aliases resolved and defaults filled. Entries are immutable once
// parsed. Fields that [ParseEntry] does not support yet hold their defaults.
type Entry struct {
	Name   string
	Module string         // the function to run, "cmd.run"
	Args   map[string]any // plain values: nil, bool, int64, float64, string, []any, map[string]any
	Clock  Clock          // when it runs
	Splay  Splay
	// Timeout ends a run; 0 is no limit.
	Timeout time.Duration
	// RunOnStart asks for one more run when the entry is first active in a process.
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
}

// Clock is the timing of an entry. Exactly one of Interval, Cron, At, After and When is set, or none in
// an entry that is not enabled.
type Clock struct {
	Interval     Interval
	IntervalFrom Anchor
	Phase        time.Duration
	Cron         []cron.Expr // the entry fires when any of them does
	At           []time.Time
	After        time.Duration
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

// SplayRandom draws anew at each fire.
const SplayRandom SplayMode = "random"

// ReturnJob says which runs are reported as jobs.
type ReturnJob string

// Which runs are reported.
const (
	ReturnNever  ReturnJob = "false"
	ReturnAlways ReturnJob = "true"
)

// Overlap bounds how many runs of an entry, or of a Group of entries, there are at once.
type Overlap struct {
	MaxRunning int
	IfRunning  IfRunning
	Group      string
}

// IfRunning says what a fire does when MaxRunning runs are in flight.
type IfRunning string

// IfRunningSkip drops the fire and counts it.
const IfRunningSkip IfRunning = "skip"

// Windows bound the times at which an entry may run.
type Windows struct {
	OnlyBetween, OnlyOn, NotOn, Blackout []string
	Outside                              Outside
}

// Outside says what becomes of a fire outside the windows.
type Outside string

// OutsideSkip drops the fire and counts it.
const OutsideSkip Outside = "skip"

// Life bounds an entry as a whole; zero values are no bounds.
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
	LateAfter     time.Duration
}

// CatchUp says what becomes of fires missed while the peel was down.
type CatchUp string

// CatchUpSkip drops them.
const CatchUpSkip CatchUp = "skip"

// Failures says how an entry answers to runs that fail. Zero values are none of it.
type Failures struct {
	Retry      Retry
	Breaker    Breaker
	PauseAfter int // failures in a row
}

// Retry repeats a run that failed.
type Retry struct {
	Attempts int
	Backoff  time.Duration
}

// Breaker stops an entry after Threshold failures in a row until ResetAfter has passed.
type Breaker struct {
	Threshold  int
	ResetAfter time.Duration
}

// Needs ties an entry to the end of another one.
type Needs struct {
	Entry string
	On    string
}

// Merge lays the entries from settings over those of peel.yaml. For an equal name the one from settings
// wins, also when it is not enabled. Neither argument is changed; the entries are shared.
func Merge(static, fromSettings Set) Set {
	out := maps.Clone(static)
	if out == nil {
		out = make(Set, len(fromSettings))
	}
	maps.Copy(out, fromSettings)
	return out
}

// Changes are the names of two sets' entries by what a reload does to them; each list is sorted.
type Changes struct {
	Added   []string
	Removed []string
	Retimed []string // the timing differs: the next fire is computed anew
	Swapped []string // anything else differs, Enabled included: the timer stays
	Kept    []string // equal
}

// Diff says what a reload from one set to another does.
func Diff(old, latest Set) Changes {
	var c Changes
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if latest[name] == nil {
			c.Removed = append(c.Removed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(latest)) {
		was, is := old[name], latest[name]
		switch {
		case was == nil:
			c.Added = append(c.Added, name)
		case was == is || bytes.Equal(was.Canonical(), is.Canonical()):
			c.Kept = append(c.Kept, name)
		case was.TimingEqual(is):
			c.Swapped = append(c.Swapped, name)
		default:
			c.Retimed = append(c.Retimed, name)
		}
	}
	return c
}
