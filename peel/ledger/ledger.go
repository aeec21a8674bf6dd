// Package ledger lists what became of each fire of a schedule on one peel.
//
// A [List] has the fires of one entry in the last 48 hours, and a [Marks] the starts of the process and the steps of
// its clock. Call [List.Put] when a fire is decided and again when it ends; [List.Has] says whether a fire is in the
// list already. What the list has forgotten [List.Between] still tells for 7 days.
// [AppendRuns] and [ParseRuns] are its form on the wire and on the disk, [Report] is the message that has the lists of
// all entries.
//
// # Identity
//
// A fire is named by its era, its class and its nominal time in whole seconds. An era begins when a process starts and
// when the wall clock is set by a second or more. So 02:30 by a clock that was a day ahead and 02:30 of the next day
// are two fires. A nominal time that is in the list is never changed.
//
// # Bounds
//
// If more than 120 fires of an era have their nominal times in one hour, those that are decided are kept as numbers. A
// peel keeps at most 64 marks; the lists begin with the oldest of them. Forgotten fires of an entry take at most 8 KiB:
// the oldest go.
package ledger

import (
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
)

// A Class says what made an entry fire.
type Class uint8

// The classes. Only Timer answers a time of the entry's timing.
const (
	Timer      Class = iota // the timing, also if the fire was made up later
	Start                   // run_on_start
	Needs                   // the end of another entry's run
	Hand                    // a person
	OtherClass              // of a newer version
)

// ClassOf returns the class of the fires that a trigger makes.
func ClassOf(t wire.Trigger) Class {
	switch t {
	case wire.TriggerStart:
		return Start
	case wire.TriggerManual:
		return Hand
	case wire.TriggerNeeds:
		return Needs
	}
	return Timer
}

// String returns the word for the class.
func (c Class) String() string {
	return [...]string{"timer", "start", "needs", "hand", "other"}[min(c, OtherClass)]
}

// An Outcome is what became of a fire.
type Outcome uint8

// The outcomes.
const (
	Pending     Outcome = iota // it waits or runs, as its reason says
	Ran                        // it ran and succeeded
	Failed                     // it ran and failed
	Interrupted                // the process ended while it ran
	Skipped                    // a rule or an operator kept it from running
	Missed                     // it did not start in time
	Other                      // of a newer version
)

// String returns the word for the outcome.
func (o Outcome) String() string {
	return [...]string{"pending", "ran", "failed", "interrupted", "skipped", "missed", "other"}[min(o, Other)]
}

// A Reason says why a fire is pending, was skipped or was missed.
type Reason string

// Why a fire is pending.
const (
	Runs  Reason = "runs"  // it is in flight, or was when the process ended
	Splay Reason = "splay" // its splay has not passed
	Held  Reason = "held"  // the windows were closed at its nominal time
	Waits Reason = "waits" // for a slot
	Owed  Reason = "owed"  // catch_up makes it up
)

// Why a fire was skipped.
const (
	AlreadyRunning Reason = "already_running" // as many runs as maxrunning were in flight
	QueueFull      Reason = "queue_full"      // a later fire of the entry replaced it while it waited for a run to end
	Superseded     Reason = "superseded"      // a later fire, or the end of a run, replaced it while it waited
	OutsideWindow  Reason = Reason(window.Outside)
	InBlackout     Reason = Reason(window.Blackout)
	CircuitOpen    Reason = "circuit_open"
	NeedsUnmet     Reason = "needs_unmet"  // the entry that it needs ended otherwise
	SkippedOnce    Reason = "skipped_once" // an operator skipped it
	MaxRuns        Reason = "max_runs"     // the entry reached max_runs while the fire waited
	Paused         Reason = "paused"       // the entry was paused while the fire waited, as for the reasons below
	Disabled       Reason = "disabled"
	Removed        Reason = "removed"
)

// Why a fire was missed.
const (
	Down Reason = "down" // the process was down at its nominal time
	// it came, or its wait ended, later than the start deadline; the host may have been suspended
	DeadlineExceeded Reason = "deadline_exceeded"
	NotMadeUp        Reason = "catch_up" // catch_up allows no more
)

// IsMissed reports whether a fire that did not run for this reason was missed. For all others a rule or an operator
// kept it from running.
func (r Reason) IsMissed() bool { return r == Down || r == DeadlineExceeded || r == NotMadeUp }

// OtherReason is a reason of a newer version.
const OtherReason Reason = "other"

// reasons are numbered by their place. A number is never given to another reason; new ones are added at the end.
var reasons = []Reason{
	"", Runs, Splay, Held, Waits, Owed,
	AlreadyRunning, QueueFull, Superseded, OutsideWindow, InBlackout, CircuitOpen, NeedsUnmet, SkippedOnce, MaxRuns,
	Paused, Disabled, Removed,
	Down, DeadlineExceeded, NotMadeUp, OtherReason,
}

var reasonNumbers = func() map[Reason]uint16 {
	m := make(map[Reason]uint16, len(reasons))
	for i, r := range reasons {
		m[r] = uint16(i)
	}
	return m
}()

// A Fire is one fire of an entry.
type Fire struct {
	Era     uint32 // of the marks of the peel
	Class   Class
	Nominal time.Time // in whole seconds of UTC
	Outcome Outcome
	Why     Reason // empty if it ran or failed
	Late    bool   // it started more than late_after after its nominal time
	Overran bool   // it was in flight when the next fire was due, or ended by its timeout
}

// At returns a nominal time as fires have it.
func At(nominal time.Time) time.Time { return nominal.UTC().Truncate(time.Second) }

// A code packs what a [Fire] has besides era and nominal time, so that an ordinary one takes one byte on the wire. Bit
// 0 is free for the run-length code.
type code uint32

const (
	outcomeShift = 1
	classShift   = 4
	lateBit      = 1 << 7
	overranBit   = 1 << 8
	hourBit      = 1 << 9
	reasonShift  = 10
	eraMark      = 7 << outcomeShift // an outcome that no fire has: the runs of another era follow
)

func (f Fire) code() code {
	c := code(f.Outcome)<<outcomeShift | code(f.Class)<<classShift | code(reasonNumbers[f.Why])<<reasonShift
	if f.Late {
		c |= lateBit
	}
	if f.Overran {
		c |= overranBit
	}
	return c
}

// fire returns a fire with a code. What this version does not know becomes other.
func (c code) fire(era uint32, at int64) Fire {
	f := Fire{
		Era:     era,
		Class:   Class(c >> classShift & 7),
		Nominal: time.Unix(at, 0).UTC(),
		Outcome: Outcome(c >> outcomeShift & 7),
		Why:     OtherReason,
		Late:    c&lateBit != 0,
		Overran: c&overranBit != 0,
	}
	f.Class, f.Outcome = min(f.Class, OtherClass), min(f.Outcome, Other)
	if n := c >> reasonShift; int(n) < len(reasons) {
		f.Why = reasons[n]
	}
	return f
}
