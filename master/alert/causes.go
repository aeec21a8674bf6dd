package alert

import (
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

const (
	// age at which a cause is computed again; that takes time, as it compares the runs of all peels
	causeLasts = time.Minute
	causesEach = 5   // causes computed in one step
	maxReason  = 110 // bytes of the reason or error in a text that has a cause as well, so that both fit
)

// causes adds to each problem the commit that explains it. A step computes the causes that have been due for the
// longest time, so every cause is computed in its turn, however many problems there are and however many begin in each
// step.
type causes struct {
	of    func(verdict.Kind, string) cause.Finding
	known map[subject]*known // one for each problem of the last step that may have a cause
}

// A subject is the problems of one kind with one entry, or with whole peels if entry is empty. They have one cause.
type subject struct {
	kind  verdict.Kind
	entry string
}

// known is a cause: the text about a commit, empty if no commit is known, and when the cause has to be computed again.
type known struct {
	text string
	due  time.Time
}

// tell appends the text of its cause to the text of each problem, in place.
func (c *causes) tell(problems []verdict.Problem, now time.Time) {
	before := c.known
	c.known = map[subject]*known{}
	var due []subject
	for _, p := range problems {
		s := subject{p.Kind, p.Entry}
		if c.known[s] != nil || !hasCause(p.Kind) {
			continue
		}
		k := before[s]
		if k == nil {
			k = &known{due: now}
		}
		if c.known[s] = k; !k.due.After(now) {
			due = append(due, s)
		}
	}
	sorting.Stable(due, func(a, b subject) int { return c.known[a].due.Compare(c.known[b].due) })
	for _, s := range due[:min(causesEach, len(due))] {
		*c.known[s] = known{c.text(s), now.Add(causeLasts)}
	}
	for i := range problems {
		p := &problems[i]
		k := c.known[subject{p.Kind, p.Entry}]
		switch {
		case k == nil || k.text == "":
		case p.Text == "":
			p.Text = k.text
		default:
			p.Text = outbound.Line(p.Text, maxReason) + "; " + k.text
		}
	}
}

// hasCause reports whether a commit may explain a kind of problem.
func hasCause(kind verdict.Kind) bool {
	return slices.Contains([]verdict.Kind{
		verdict.Failed, verdict.Missed, verdict.Late, verdict.Overran, verdict.NotReporting,
	}, kind)
}

// text returns a sentence about the commit that explains a problem, or about one that seems to and does not, and what
// silent peels have in common. It is empty if neither is known.
func (c *causes) text(s subject) string {
	f := c.of(s.kind, s.entry)
	if f.Commit != "" {
		return f.Text
	}
	return f.Common
}
