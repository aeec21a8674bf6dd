package coverage

import (
	"cmp"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/ledger"
)

// problemsOf returns what is wrong with an entry by the verdicts on its fires. A problem with a run lasts until the
// next run. Runs by hand make and end none.
func problemsOf(e *ledger.EntryReport, spans []join.Span) (list []verdict.Problem) {
	newest := newestOf(spans, func(s *join.Span) bool {
		return s.Verdict == join.Ran || s.Verdict == join.Pending && s.Fire.Why == ledger.Runs
	})
	if p, is := lostSince(newest.at, spans); is {
		list = append(list, p)
	}
	if p, is := failing(e, spans); is {
		list = append(list, p)
	}
	if newest.fire != nil {
		list = append(list, slowness(e, newest)...)
	}
	if p, is := resting(e); is {
		list = append(list, p)
	}
	return list
}

// A newest is the newest fire of a kind that no person asked for.
type newest struct {
	at   time.Time   // its nominal time; zero: there is none
	fire *ledger.Run // nil: there is none
}

// newestOf returns the newest of the fires in spans that is accepts.
func newestOf(spans []join.Span, is func(*join.Span) bool) (n newest) {
	for i := range spans {
		s := &spans[i]
		if s.Fire != nil && s.Fire.Class != ledger.Hand && is(s) && !s.Last().Before(n.at) {
			n = newest{s.Last(), s.Fire}
		}
	}
	return n
}

// firstAfter returns the oldest fire after a time in the spans that is accepts; nil if there is none.
func firstAfter(after time.Time, spans []join.Span, is func(*join.Span) bool) (at time.Time, first *join.Span) {
	for i := range spans {
		s := &spans[i]
		if !is(s) || !s.Last().After(after) {
			continue
		}
		if next := s.After(after); first == nil || next.Before(at) {
			at, first = next, s
		}
	}
	return at, first
}

// lostSince returns the problem of the fires that were missed after the newest run.
func lostSince(newest time.Time, spans []join.Span) (p verdict.Problem, is bool) {
	at, first := firstAfter(newest, spans, func(s *join.Span) bool { return s.Verdict == join.Missed })
	if first == nil {
		return p, false
	}
	p = verdict.Problem{Kind: verdict.Missed, Since: at, Text: "the peel does not account for the fire"}
	if first.Fire != nil {
		p.Text, p.Explained = "the peel was down, suspended or too slow", true
	}
	return p, true
}

// failing returns the problem of the failures since the last success. The commit is the one of the first run that
// failed by itself.
func failing(e *ledger.EntryReport, spans []join.Span) (p verdict.Problem, is bool) {
	hasFailed := func(s *join.Span) bool {
		return s.Verdict == join.Ran && s.Fire.Class != ledger.Hand && s.Fire.Outcome != ledger.Ran
	}
	good := newestOf(spans, func(s *join.Span) bool { return s.Verdict == join.Ran && s.Fire.Outcome == ledger.Ran })
	bad := newestOf(spans, hasFailed)
	switch {
	case bad.fire == nil && good.fire == nil:
		bad.at, is = failedBefore(e)
	case bad.fire != nil:
		is = bad.at.After(good.at)
	}
	if !is {
		return p, false
	}
	p = verdict.Problem{Kind: verdict.Failed, Since: bad.at, Text: "the run failed", Explained: true}
	if at, first := firstAfter(good.at, spans, hasFailed); first != nil {
		p.Since = at
	}
	if bad.fire != nil && bad.fire.Outcome == ledger.Interrupted {
		p.Text = "interrupted: the process of the peel ended"
	}

	oldest, _ := firstAfter(good.at, spans, func(s *join.Span) bool {
		return hasFailed(s) && s.Fire.Outcome == ledger.Failed
	})
	var cause *ledger.Note // the first run that failed by itself, as far as the peel says more about it
	isStopped := false     // the first run that failed did not by itself
	for i := range e.Notes {
		n := &e.Notes[i]
		if !isBad(n) || !n.Nominal.After(good.at) {
			continue
		}
		if n.Nominal.Equal(bad.at) {
			p.Text = cmp.Or(n.Error, p.Text)
		}
		isStopped = isStopped || n.Stopped && n.Nominal.Equal(oldest)
		if n.Outcome == ledger.Failed && !n.Stopped && (cause == nil || n.Nominal.Before(cause.Nominal)) {
			cause = n
		}
	}
	switch {
	case cause == nil:
	case isStopped || oldest.IsZero() || cause.Nominal.Equal(oldest):
		p.Commit, p.Explained = cause.Commit, false
	default: // a later failure may have another commit than the first one
		p.Explained = false
	}
	return p, true
}

// failedBefore returns the newest run of before the list begins if it failed, and no run has succeeded since.
func failedBefore(e *ledger.EntryReport) (at time.Time, is bool) {
	for i := range e.Notes {
		n := &e.Notes[i]
		if isBad(n) && n.Nominal.After(at) && !n.Started.Add(n.Took).Before(e.Succeeded) {
			at = n.Nominal
		}
	}
	return at, !at.IsZero()
}

// isBad reports whether a note is of a run that failed, and that no person asked for.
func isBad(n *ledger.Note) bool {
	return n.Class != ledger.Hand && (n.Outcome == ledger.Failed || n.Outcome == ledger.Interrupted)
}

// slowness returns the problems of a run that started late or overran.
func slowness(e *ledger.EntryReport, run newest) (list []verdict.Problem) {
	late, overran, commit := "the run started late", "the run was still in flight when the next one was due", ""
	for i := range e.Notes {
		n := &e.Notes[i]
		if !n.Nominal.Equal(run.at) || n.Class != run.fire.Class {
			continue
		}
		commit = n.Commit
		if !n.Started.IsZero() {
			late = fmt.Sprintf("the run started %s late", n.Started.Sub(n.Nominal).Round(time.Second))
		}
		if n.Took > 0 {
			overran = "the run took " + n.Took.Round(time.Second).String()
		}
	}
	if run.fire.Late {
		list = append(list, verdict.Problem{Kind: verdict.Late, Since: run.at, Text: late, Commit: commit})
	}
	if run.fire.Overran {
		list = append(list, verdict.Problem{Kind: verdict.Overran, Since: run.at, Text: overran, Commit: commit})
	}
	return list
}

// resting returns what keeps an entry from firing, unless its settings do.
func resting(e *ledger.EntryReport) (p verdict.Problem, is bool) {
	p = verdict.Problem{Kind: verdict.Paused, Since: e.Since, Text: cmp.Or(e.Why, e.State)}
	switch e.State {
	case "paused_manual", "paused_errors", "paused_invalid":
		return p, true
	}
	if e.Breaker == "open" {
		p.Text = "the breaker is open"
		return p, true
	}
	return p, false
}
