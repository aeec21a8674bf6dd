package judge

import (
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A Problem is what is wrong with an entry.
type Problem struct {
	Kind  verdict.Kind
	Since time.Time
	Text  string
	// Commit had last changed the entry when its run started that has the problem; empty: that is not known.
	Commit string
	// Explained says that no commit caused the problem: the peel was stopped or down, or a person ran the entry.
	Explained bool
}

// Problems returns what is wrong with an entry by its report. A problem with a run lasts until the next run.
func Problems(e *wire.EntryReport) []Problem {
	var list []Problem
	if p, is := missed(e); is {
		list = append(list, p)
	}
	if e.Error != "" || e.InRow > 0 {
		list = append(list, failed(e))
	}
	for _, f := range e.Problems {
		if f.Started.IsZero() || !f.Started.Equal(e.Started) {
			continue
		}
		switch f.Result {
		case wire.FireLate:
			text := fmt.Sprintf("the run started %s late", f.Started.Sub(f.Nominal).Round(time.Second))
			list = append(list, Problem{Kind: verdict.Late, Since: f.Nominal, Text: text, Commit: f.Commit})
		case wire.FireOverran:
			list = append(list, Problem{Kind: verdict.Overran, Since: f.Nominal, Text: "the run took " + f.Took.Round(time.Second).String(), Commit: f.Commit})
		}
	}
	if p, is := paused(e); is {
		list = append(list, p)
	}
	return list
}

// missed returns the first of the newest fires that were missed, if no run has started since.
func missed(e *wire.EntryReport) (p Problem, is bool) {
	for _, f := range e.Problems {
		if f.Result != wire.FireMissed || !f.Nominal.After(e.Started) {
			continue
		}
		p.Text = f.Error
		if !is {
			p.Kind, p.Since, is = verdict.Missed, f.Nominal, true
		}
	}
	p.Explained = is
	if is && p.Text == "" {
		p.Text = "the peel was down, suspended or too slow"
	}
	return p, is
}

// failed returns the first of the failures in a row. If the report does not have it any more, it is the first that the report has.
// The commit is that of the first run that failed by itself. If none did, the problem is explained: a run by hand is not in the report.
func failed(e *wire.EntryReport) Problem {
	p := Problem{Kind: verdict.Failed, Since: e.Fired, Text: e.Error, Explained: true}
	if p.Text == "" {
		p.Text = fmt.Sprintf("%d failures in a row", e.InRow)
	}
	first := true
	for _, f := range e.Problems {
		if f.Result != wire.FireFailed && f.Result != wire.FireInterrupted || !f.Nominal.After(e.Succeeded) {
			continue
		}
		if first {
			p.Since, first = f.Nominal, false
		}
		if f.Result == wire.FireFailed && !f.Stopped {
			p.Commit, p.Explained = f.Commit, false
			break
		}
	}
	if e.InRow > wire.MaxScheduleFires && !e.Succeeded.IsZero() {
		p.Since = e.Succeeded
	}
	return p
}

// paused returns what keeps an entry from firing, unless its settings do.
func paused(e *wire.EntryReport) (Problem, bool) {
	switch e.State {
	case "paused_manual", "paused_errors", "paused_invalid":
		text := e.Why
		if text == "" {
			text = e.State
		}
		return Problem{Kind: verdict.Paused, Since: e.Since, Text: text}, true
	}
	if e.Breaker == "open" {
		return Problem{Kind: verdict.Paused, Since: e.Since, Text: "the breaker is open"}, true
	}
	return Problem{}, false
}
