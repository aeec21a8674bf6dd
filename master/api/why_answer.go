// File why_answer.go has the answer to the question what became of a fire of a schedule. It has no logic, so that
// clients and masters share it. Begin with [WhyAnswer].

package api

import (
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A WhyVerdict says what became of a fire.
type WhyVerdict string

// The verdicts of a [WhyAnswer]. All but Ran and Failed have a reason.
const (
	WhyRan     WhyVerdict = "ran"
	WhyLate    WhyVerdict = "late"    // it ran and started more than late_after late
	WhyOverran WhyVerdict = "overran" // it ran until the next fire was due, or its timeout ended it
	WhyRunning WhyVerdict = "running" // the run has not ended
	WhyFailed  WhyVerdict = "failed"
	WhySkipped WhyVerdict = "skipped" // a rule or an operator kept it from running
	WhyMissed  WhyVerdict = "missed"  // it did not start in time, for no rule
	WhyWaiting WhyVerdict = "waiting" // it is due, and may still start in time
	WhyUnknown WhyVerdict = "unknown" // no source can tell
	WhyNone    WhyVerdict = "none"    // there was no fire at that time
)

// A WhyAnswer is what became of one fire, with the facts that prove it.
type WhyAnswer struct {
	Peel    target.PeelID `json:"peel"`
	Entry   string        `json:"entry"`
	Asked   time.Time     `json:"asked,omitzero"` // the time in the request; zero: the last fire
	Verdict WhyVerdict    `json:"verdict"`
	Reason  string        `json:"reason,omitempty"` // in one word; of a skip as the counters of the peel have it
	Text    string        `json:"answer"`           // in a sentence or two
	Nominal time.Time     `json:"nominal,omitzero"` // when the entry was due; zero: there was no fire
	Started time.Time     `json:"started,omitzero"`
	Ended   time.Time     `json:"ended,omitzero"`
	Job     wire.JID      `json:"job,omitempty"`
	Next    time.Time     `json:"next,omitzero"` // when the entry is due next; zero: unknown or never
	Facts   []WhyFact     `json:"facts"`
	// Unread are the sources that could not be read, each with the reason. What they would say is not in the answer.
	Unread []string `json:"unread,omitempty"`
}

// A WhyFact is one fact about a fire.
type WhyFact struct {
	About  string `json:"about"` // such as timing or breaker
	Text   string `json:"text"`
	Source string `json:"source"` // such as "report of web-01 at 2026-11-23T02:40:00Z"
}
