//go:build linux

package state

import (
	"time"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/settings"
)

// A Verdict is what became of one state.
type Verdict string

// The verdicts. Unknown and WouldChange occur in test mode alone.
const (
	Unchanged   Verdict = "unchanged"
	Changed     Verdict = "changed"
	Failed      Verdict = "failed"
	Skipped     Verdict = "skipped"
	WouldChange Verdict = "would_change"
	Unknown     Verdict = "unknown"
)

// A Reason says why a state was skipped.
type Reason string

// The reasons.
const (
	RequireFailed  Reason = "require_failed"
	OnChangesUnmet Reason = "onchanges_unmet"
	OnFailUnmet    Reason = "onfail_unmet"
	OnlyIf         Reason = "onlyif"
	Unless         Reason = "unless"
	FailHard       Reason = "failhard"
	Canceled       Reason = "canceled"
	Disabled       Reason = "disabled"
)

// A Cause says why a state changes the host.
type Cause string

// The causes.
const (
	Drift    Cause = "drift"    // the host changed: the state held before, with the same arguments
	Intended Cause = "intended" // the state is new or its arguments changed
)

// An Outcome is the result of one state.
type Outcome struct {
	State    string           `json:"state"`
	Function string           `json:"function"`
	Result   Verdict          `json:"result"`
	Reason   Reason           `json:"reason,omitempty"`
	Cause    Cause            `json:"cause,omitempty"`
	Changes  []host.Change    `json:"changes,omitempty"`
	Comment  string           `json:"comment,omitempty"` // an error, or output of a command
	Duration time.Duration    `json:"duration_ns"`
	Origin   *settings.Origin `json:"origin,omitempty"`
}

// Counts are how many states have each verdict.
type Counts map[Verdict]int

// A Result is what one run did, or would do.
type Result struct {
	Test     bool            `json:"test"`
	Commit   settings.Commit `json:"commit,omitempty"`
	Digest   settings.Digest `json:"digest,omitempty"`
	Time     time.Time       `json:"time"`
	Counts   Counts          `json:"counts"`
	Duration time.Duration   `json:"duration_ns"`
	States   []Outcome       `json:"states"` // in the order of the run
	Owed     []string        `json:"owed,omitempty"`
}

// Success reports whether no state failed.
func (r *Result) Success() bool { return r.Counts[Failed] == 0 }

// Brief returns the result without unchanged and skipped states.
func (r *Result) Brief() *Result {
	out := *r
	out.States = []Outcome{}
	for _, o := range r.States {
		if o.Result != Unchanged && o.Result != Skipped {
			out.States = append(out.States, o)
		}
	}
	return &out
}

// Fit removes diffs and then comments until the result has at most limit bytes of them. It marks what it removes.
func (r *Result) Fit(limit int) {
	size := func() (n int) {
		for _, o := range r.States {
			n += len(o.Comment)
			for _, c := range o.Changes {
				n += len(c.Diff) + len(c.Before) + len(c.After)
			}
		}
		return n
	}
	if size() <= limit {
		return
	}
	for i := range r.States {
		for j := range r.States[i].Changes {
			if c := &r.States[i].Changes[j]; c.Diff != "" {
				c.Diff = "(left out: the result is too large)"
			}
		}
	}
	if size() <= limit {
		return
	}
	for i := range r.States {
		if o := &r.States[i]; len(o.Comment) > 200 {
			o.Comment = o.Comment[:200] + "… (left out: the result is too large)"
		}
	}
}
