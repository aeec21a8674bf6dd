// File spent.go decides when an entry with delete_after_run has run and is to be removed from the config repo. It is
// pure: the loop in package propose calls [DecideSpent] with what the bucket, the repo and the reports of peels say,
// stores the record that it returns, and only then makes the commit.
//
// Guarantees:
//   - An entry is removed only after it ran on a peel, and after each other peel that has it ran it too or can no
//     longer start it.
//   - An entry that somebody changes once its time has come stays, and so does one that ran nowhere. The record says
//     why.
//
// Known gap: of an entry that makes up missed fires without start_deadline, and of one that waits for its windows, no
// time is known after which a peel cannot start it. Such an entry is removed when all of its peels ran it.

package propose

import (
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// A SpentState says what is done about an entry.
type SpentState string

// The states of an entry.
const (
	SpentWaiting  SpentState = "waiting"  // for its time, and for its peels
	SpentRemoving SpentState = "removing" // it ran, and the commit is to be made
	SpentProposed SpentState = "proposed" // it ran, and a pull request removes it
	SpentLeft     SpentState = "left"     // it stays in the repo
)

// A SpentRecord is what masters keep of an entry with delete_after_run until it is gone from the repo.
type SpentRecord struct {
	Entry string     `json:"entry"`
	File  string     `json:"file"`
	Hash  string     `json:"hash"` // of the entry
	State SpentState `json:"state"`
	Why   string     `json:"why,omitempty"` // in words, unless it waits
}

// A SpentPeel is what a peel that has the entry reports.
type SpentPeel struct {
	Reported time.Time // when its newest report was made, zero: it never reported
	Ran      bool      // the run at the entry's time has ended
	Running  bool      // a run is in flight, or waits to be tried again
}

// SpentConcerns reports whether an entry is removed when it has run: a request made it so, and it has times.
func SpentConcerns(e *schedule.Entry) bool {
	return e.API.ID > 0 && e.Life.DeleteAfterRun && len(e.Clock.At) > 0
}

// NeedsPeels reports whether [DecideSpent] looks at the peels of an entry.
func NeedsPeels(was *SpentRecord, e *schedule.Entry, now time.Time) bool {
	return was != nil && was.State == SpentWaiting && was.Hash == e.Hash() && !now.Before(e.Clock.At[0])
}

// DecideSpent returns the next record of an entry that [SpentConcerns] is true of. was is its present record, nil if
// there is none. peels are the peels that have the entry, if [NeedsPeels] is true.
func DecideSpent(was *SpentRecord, e *schedule.Entry, file string, peels []SpentPeel, now time.Time) SpentRecord {
	next := SpentRecord{Entry: e.Name, File: file, Hash: e.Hash(), State: SpentWaiting}
	switch {
	case was == nil:
		return next
	case was.Hash != next.Hash && now.Before(e.Clock.At[0]): // a new time
		return next
	case was.State == SpentLeft:
		next.State, next.Why = SpentLeft, was.Why
		return next
	case was.Hash != next.Hash:
		next.State, next.Why = SpentLeft, "somebody changed it after its time had come"
		return next
	case was.State != SpentWaiting || now.Before(e.Clock.At[0]):
		return *was
	}
	latest, bounded := latest(e)
	over := bounded && now.After(latest)
	ran, silent := 0, 0
	for _, p := range peels {
		switch {
		case p.Running:
			return next
		case p.Ran:
			ran++
		case !over:
			return next
		case !p.Reported.After(latest):
			silent++
		}
	}
	switch {
	case ran > 0:
		next.State, next.Why = SpentRemoving, fmt.Sprintf("delete_after_run: it ran on %d of %d peels.", ran,
			len(peels))
	case over && silent == 0:
		next.State, next.Why = SpentLeft, fmt.Sprintf("it ran on none of %d peels", len(peels))
	}
	return next
}

// margin is how long after its latest start a run may begin on a peel whose clock is wrong.
const margin = time.Minute

// latest returns the time after which no peel starts the entry, if there is one.
func latest(e *schedule.Entry) (at time.Time, bounded bool) {
	if e.Windows.Outside == schedule.OutsideDefer ||
		e.Missed.CatchUp != schedule.CatchUpSkip && e.Missed.StartDeadline == 0 {
		return time.Time{}, false
	}
	return e.Clock.At[len(e.Clock.At)-1].Add(e.Splay.Max + max(e.Missed.StartDeadline, time.Minute) + margin), true
}
