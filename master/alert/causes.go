package alert

import (
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/reconciler/notify/outbound"
)

const (
	causeLasts = time.Minute // how long a cause is kept: to find one takes the runs of all peels
	causesEach = 5           // that are found in one step
	maxReason  = 110         // bytes of a reason or error beside a cause, so that both fit into the text of an alert
)

// causes has the commits that problems followed.
type causes struct {
	of    func(verdict.Kind, string) cause.Finding
	known map[subject]known
}

// A subject is what a cause is of. The entry is empty for peels as a whole.
type subject struct {
	kind  verdict.Kind
	entry string
}

type known struct {
	text string // empty: no commit is worth a word
	at   time.Time
}

// tell adds the commit that each problem followed to its text. It changes the problems.
func (c *causes) tell(problems []verdict.Problem, now time.Time) {
	found, was := 0, c.known
	c.known = map[subject]known{}
	for i := range problems {
		p := &problems[i]
		s := subject{p.Kind, p.Entry}
		k, ok := c.known[s]
		if !ok {
			k, ok = was[s]
			if (!ok || now.Sub(k.at) >= causeLasts) && found < causesEach {
				found++
				k, ok = known{c.text(s), now}, true
			}
			if !ok {
				continue
			}
			c.known[s] = k
		}
		switch {
		case k.text == "":
		case p.Text == "":
			p.Text = k.text
		default:
			p.Text = outbound.Line(p.Text, maxReason) + "; " + k.text
		}
	}
}

// text returns which commit explains a problem, or why the one that seems to does not; empty if no commit is known.
func (c *causes) text(s subject) string {
	switch s.kind {
	case verdict.Failed, verdict.Missed, verdict.Late, verdict.Overran, verdict.NotReporting:
		if f := c.of(s.kind, s.entry); f.Commit != "" {
			return f.Text
		}
	}
	return ""
}
