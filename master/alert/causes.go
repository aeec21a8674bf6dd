package alert

import (
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/reconciler/notify/outbound"
)

const (
	causeLasts = time.Minute // after which a cause is found again: to find one takes the runs of all peels
	causesEach = 5           // that are found in one step
	maxReason  = 110         // bytes of a reason or error beside a cause, so that both fit into the text of an alert
)

// causes has the commits that problems followed. Each step finds those that have been due for the longest time, so that each is
// found in its turn however many problems there are, and however many begin in each step.
type causes struct {
	of    func(verdict.Kind, string) cause.Finding
	known map[subject]*known
}

// A subject is what a cause is of. The entry is empty for peels as a whole.
type subject struct {
	kind  verdict.Kind
	entry string
}

// known is what is known of a cause: its text, which is empty if no commit is worth a word, and when it is to be found again.
type known struct {
	text string
	due  time.Time
}

// tell adds the commit that each problem followed to its text. It changes the problems.
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
	slices.SortStableFunc(due, func(a, b subject) int { return c.known[a].due.Compare(c.known[b].due) })
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
	return slices.Contains([]verdict.Kind{verdict.Failed, verdict.Missed, verdict.Late, verdict.Overran, verdict.NotReporting}, kind)
}

// text returns which commit explains a problem, or why the one that seems to does not; empty if no commit is known.
func (c *causes) text(s subject) string {
	if f := c.of(s.kind, s.entry); f.Commit != "" {
		return f.Text
	}
	return ""
}
