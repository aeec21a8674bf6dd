package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/why"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// reported returns the parts of a report with lists that a report without them has too.
func reported(r *ledger.Report) *wire.ScheduleState {
	return &wire.ScheduleState{
		Peel: r.Peel, Commit: r.Commit, Digest: r.Digest, Version: r.Version,
		Zone: r.Zone.Name, Time: r.Time, Started: r.Started,
	}
}

// findListed finds the entry in a report with lists.
func (q *question) findListed() {
	var names []string
	if q.Lists.Digest == string(q.Document.Digest) {
		names = q.Document.Places
	}
	e := q.Lists.Entry(q.Entry, names)
	if e == nil {
		return
	}
	q.listed = e
	q.report = &wire.EntryReport{
		Name: q.Entry, Local: e.Name != "" && e.State != "removed", State: e.State, Why: e.Why, Since: e.Since,
		Breaker: e.Breaker, Next: e.Next, Latest: e.Latest, Error: e.Error, Job: e.Job, Running: e.Running, InRow: e.InRow,
	}
	q.report.Started, q.report.Ended, q.report.Succeeded = e.Started, e.Ended, e.Succeeded
	for i := range e.Fires {
		if f := &e.Fires[i]; f.Class != ledger.Hand && !f.Hour && f.Last().After(q.report.Nominal) {
			q.report.Nominal = f.Last()
		}
	}
	for i := range e.Notes {
		if p := problemOf(&e.Notes[i], e.Fires); p.Result != "" {
			q.report.Problems = append(q.report.Problems, p)
		}
	}
}

// problemOf returns what a note says of a run that did not go well, and that no person asked for. Its result is empty
// otherwise.
func problemOf(n *ledger.Note, fires []ledger.Run) (p wire.FireReport) {
	p = wire.FireReport{
		Nominal: n.Nominal, Started: n.Started, Took: n.Took,
		Error: n.Error, Job: n.Job, Commit: n.Commit, Stopped: n.Stopped,
	}
	switch {
	case n.Class == ledger.Hand:
		return wire.FireReport{}
	case n.Outcome == ledger.Failed:
		p.Result = wire.FireFailed
	case n.Outcome == ledger.Interrupted:
		p.Result = wire.FireInterrupted
	}
	for i := range fires {
		f := &fires[i]
		if p.Result != "" || f.Era != n.Era || f.Class != n.Class || !f.Nominal.Equal(n.Nominal) {
			continue
		}
		if f.Late {
			p.Result = wire.FireLate
		}
		if f.Overran {
			p.Result = wire.FireOverran
		}
	}
	return p
}

// spans returns the verdicts on all fires of the list.
func (q *question) spans() (list []join.Span) {
	if q.listed == nil {
		return nil
	}
	e := join.Entry{
		IsActive: q.listed.State == "active", Marks: q.listed.Marks, From: q.listed.From, Fires: q.listed.Fires,
	}
	if d := q.Document.Entry; d != nil && ledger.TimingOf(d.TimingHash()) == q.listed.Timing {
		e.Plan, _ = join.NewPlan(d, q.zone) // the zone of the entry was found
		if needed := q.Lists.Entry(d.Needs.Entry, q.Document.Places); needed != nil && d.Needs.Entry != "" {
			e.Needed = &join.Entry{From: needed.From, Fires: needed.Fires, Marks: needed.Marks}
		}
	}
	arrived := q.Stored
	if arrived.IsZero() {
		arrived = q.Lists.Time
	}
	join.New(q.Lists.Marks, q.Lists.Time, arrived, nil).Join(&e, func(s join.Span) { list = append(list, s) })

	return list
}

// lookUp returns the fire of a nominal time in the list, one by a person only if there is no other; nil if it is not
// there.
func (q *question) lookUp(nominal time.Time) (found *join.Span) {
	for _, s := range q.spans() {
		isHand := s.Fire != nil && s.Fire.Class == ledger.Hand
		if s.Has(nominal) && (found == nil || !isHand && s.Verdict != join.Unexpected) {
			found = &s
		}
	}
	return found
}

// byList judges a fire by the list of the peel, beside the plan of the document.
func (q *question) byList(nominal time.Time) *judgement {
	s := q.lookUp(nominal)
	if s == nil {
		return nil
	}
	at := q.stamp(nominal)
	v := &judgement{source: q.reportSource()}
	v.fact = "the list of its fires: " + s.Verdict.String() + words(" (", s.Why, ")")
	switch s.Verdict {
	case join.Ran, join.Unexpected:
		q.ofRun(nominal, s, v)
	case join.Pending:
		q.ofPending(nominal, s, v)
	case join.Skipped:
		v.is, v.reason, v.answer = why.Skipped, s.Why, q.skipAnswer(nominal, ledger.Reason(s.Why))
	case join.Missed:
		if s.Fire != nil {
			return q.missed(nominal, v)
		}
		v.is, v.reason = why.Missed, "not_counted"
		v.answer = fmt.Sprintf("The fire of %s did not happen: %s has reported since, and lists neither a run nor a skip of it.",
			at, q.Peel)
	case join.Unknown:
		if s.Why == join.CutList {
			return nil // what masters have stored says more
		}
		v.is, v.reason = why.Unknown, s.Why
		v.answer = fmt.Sprintf("Nobody knows what became of the fire of %s: the clock of %s was wrong then, or was set near it.",
			at, q.Peel)
		if s.Why != join.WrongClock {
			v.answer = fmt.Sprintf("%s says of the fire of %s what this master does not know: it runs a newer version.",
				q.Peel, at)
		}
	}
	return v
}

// words puts a text between others, unless it is empty.
func words(before, text, after string) string {
	if text == "" {
		return ""
	}
	return before + text + after
}

// note returns what the peel says more about a run; nil if it does not.
func (q *question) note(s *join.Span, nominal time.Time) *ledger.Note {
	for i := range q.listed.Notes {
		n := &q.listed.Notes[i]
		if s.Fire != nil && n.Era == s.Fire.Era && n.Class == s.Fire.Class && n.Nominal.Unix() == nominal.Unix() {
			return n
		}
	}
	return nil
}

// ofRun completes the verdict on a run.
func (q *question) ofRun(nominal time.Time, s *join.Span, v *judgement) {
	v.is, v.answer = why.Ran, fmt.Sprintf("The fire of %s ran", q.stamp(nominal))
	n := q.note(s, nominal)
	if n != nil && !n.Started.IsZero() {
		v.answer += fmt.Sprintf(": it started at %s%s", q.stamp(n.Started), delayed(nominal, n.Started))
	}
	if s.Fire.Class == ledger.Hand {
		v.answer = fmt.Sprintf("A person ran it at %s%s", q.stamp(nominal), words(" (", byOf(n), ")"))
	}
	switch {
	case s.Fire.Outcome == ledger.Interrupted:
		v.is, v.reason = why.Failed, wire.FireInterrupted
		v.answer += ", and the peel's process ended during the run: how far it got is not known."
	case s.Fire.Outcome == ledger.Failed:
		v.is, v.answer = why.Failed, strings.TrimSuffix(v.answer, ",")+" and failed"+words(": ", errorIn(n), "")+"."
	case s.Fire.Overran:
		v.is, v.reason, v.answer = why.Overran, wire.FireOverran, v.answer+" and overran."
	case s.Fire.Late:
		v.is, v.reason, v.answer = why.Late, wire.FireLate, v.answer+" late and succeeded."
	case n != nil && !n.Started.IsZero():
		v.answer += " and took " + took(n.Took) + "."
	default:
		v.answer += " and succeeded."
	}
	switch s.Why {
	case join.Repeated:
		v.answer += " The time had come before, by another clock."
	case join.NotPlanned:
		v.answer += " The settings of the peel do not ask for it."
	}
}

func byOf(n *ledger.Note) string {
	if n == nil {
		return ""
	}
	return oneLine(n.By)
}

func errorIn(n *ledger.Note) string {
	if n == nil {
		return ""
	}
	return oneLine(n.Error)
}

// ofPending completes the verdict on a fire that had not ended when the peel reported.
func (q *question) ofPending(nominal time.Time, s *join.Span, v *judgement) {
	at, then := q.stamp(nominal), q.stamp(q.Report.Time)
	if q.Now.After(q.Report.Time.Add(2*wire.ScheduleInterval + reportWait)) {
		v.is, v.reason = why.Unknown, "not_reporting"
		v.answer = fmt.Sprintf("The fire of %s had not ended at %s, and %s has not reported since: %s.",
			at, then, q.Peel, q.presence())
		return
	}
	v.is, v.reason = why.Waiting, "pending"
	switch ledger.Reason(s.Why) {
	case ledger.Runs:
		v.is, v.reason = why.Running, "in_flight"
		start := "it"
		if e := q.listed; e.Ended.Before(e.Started) {
			start = fmt.Sprintf("it started at %s%s", q.stamp(e.Started), delayed(nominal, e.Started))
			start = strings.TrimSuffix(start, ",") + " and"
		}
		v.answer = fmt.Sprintf("The fire of %s runs: %s had not ended at %s.", at, start, then)
	case ledger.Splay:
		v.answer = fmt.Sprintf("The fire of %s waited for its splay at %s.", at, then)
	case ledger.Held:
		v.answer = fmt.Sprintf("The fire of %s is held until the windows open: it was at %s.", at, then)
	case ledger.Owed:
		v.answer = fmt.Sprintf("The fire of %s was missed at its time, and waited at %s to be made up (catch_up).",
			at, then)
	default:
		v.answer = fmt.Sprintf("The fire of %s waited at %s for a run to end.", at, then)
	}
}

// maxTraces bounds the fires of a list that a time is compared with.
const maxTraces = 20_000

// traces returns the fires of the list, and when those started that the peel says more about; those by a person last.
func (q *question) traces() (list []trace) {
	if q.listed == nil {
		return nil
	}
	byClass := slices.SortedStableFunc(slices.Values(q.listed.Notes), func(a, b ledger.Note) int {
		return cmp.Compare(a.Class, b.Class)
	})
	for _, n := range byClass {
		list = append(list, trace{n.Nominal, n.Started})
	}
	for i := range q.listed.Fires {
		f := &q.listed.Fires[i]
		for k := 0; k < f.Count && !f.Hour && len(list) < maxTraces; k++ {
			list = append(list, trace{nominal: f.Nominal.Add(time.Duration(k) * f.Step)})
		}
	}
	return list
}
