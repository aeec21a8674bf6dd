//go:build linux

package state

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/service"
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
	Changes  []host.Change    `json:"changes,omitempty"` // that were made, or would be
	Comment  string           `json:"comment,omitempty"` // an error, or output of a command
	Duration time.Duration    `json:"duration_ns"`
	Origin   *settings.Origin `json:"origin,omitempty"`

	tried []host.Change // that a step failed to make, or made in part
}

// Counts are how many states have each verdict. All verdicts are in it.
type Counts map[Verdict]int

// newCounts returns counts of nothing.
func newCounts() Counts {
	return Counts{Unchanged: 0, Changed: 0, Failed: 0, Skipped: 0, WouldChange: 0, Unknown: 0}
}

// A Result is what one run did, or would do.
type Result struct {
	Test     bool            `json:"test"`
	Commit   settings.Commit `json:"commit,omitempty"`
	Digest   settings.Digest `json:"digest,omitempty"`
	Time     time.Time       `json:"time"`
	Counts   Counts          `json:"counts"`
	Duration time.Duration   `json:"duration_ns"`
	States   []Outcome       `json:"states"` // in the order of the run
	// states that changed or failed and for which there was no room
	LeftOut int             `json:"states_left_out,omitempty"`
	Owed    []string        `json:"owed,omitempty"`
	Own     service.OwnCall `json:"-"` // to be made when the result is stored: it ends the peel
}

// Success reports whether no state failed.
func (r *Result) Success() bool { return r.Counts[Failed] == 0 }

// Brief returns the result without skipped states, and without those that are unchanged and have no comment.
func (r *Result) Brief() *Result {
	out := *r
	out.States = []Outcome{}
	for _, o := range r.States {
		if o.Result != Skipped && (o.Result != Unchanged || o.Comment != "") {
			out.States = append(out.States, o)
		}
	}
	return &out
}

// Fit makes the result smaller until its JSON has at most limit bytes: it removes diffs, shortens comments and other
// texts, and removes states that did not change, then others from the end. It marks what it removes.
func (r *Result) Fit(limit int) {
	for _, smaller := range []func(){r.cutDiffs, r.cutTexts, func() { *r = *r.Brief() }} {
		if r.size() <= limit {
			return
		}
		smaller()
	}
	for r.size() > limit && len(r.States) > 0 {
		kept := len(r.States) / 2
		r.LeftOut += len(r.States) - kept
		r.States = r.States[:kept]
	}
}

// size returns the bytes of the result as JSON. One that cannot be encoded has none.
func (r *Result) size() int {
	data, _ := json.Marshal(r)
	return len(data)
}

const (
	leftOut  = "(left out: the result is too large)"
	keptText = 200 // bytes of a text that is shortened
)

func (r *Result) cutDiffs() {
	for _, o := range r.States {
		for i := range o.Changes {
			if c := &o.Changes[i]; c.Diff != "" {
				c.Diff = leftOut
			}
		}
	}
}

func (r *Result) cutTexts() {
	shorten := func(text *string) {
		if len(*text) > keptText+len(leftOut) {
			*text = strings.ToValidUTF8((*text)[:keptText], "") + "… " + leftOut
		}
	}
	for i := range r.States {
		o := &r.States[i]
		shorten(&o.Comment)
		for j := range o.Changes {
			c := &o.Changes[j]
			shorten(&c.What)
			shorten(&c.Before)
			shorten(&c.After)
		}
	}
}
