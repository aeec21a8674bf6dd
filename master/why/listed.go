package why

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

const (
	// reportDue is the reason why nobody knows yet what became of a fire whose time is over.
	reportDue = "report_due"

	stateRemoved = "removed" // of an entry that the schedule of the peel does not have any more

	// reportWait is how long after its due time a report may come: a tenth of the interval, and the way over the bus.
	reportWait = wire.ScheduleInterval/10 + 30*time.Second
)

// join finds the entry in the report, and joins its list with its plan.
func (q *question) join() {
	r := q.Report
	if r == nil {
		return
	}
	var names []string
	if r.Digest == string(q.Document.Digest) {
		names = q.Document.Places
	}
	if q.listed = r.Entry(q.Entry, names); q.listed == nil {
		return
	}

	e := join.Entry{
		IsActive: q.listed.State == "active", Marks: q.listed.Marks, From: q.listed.From, Fires: q.listed.Fires,
	}
	if d := q.Document.Entry; d != nil && ledger.TimingOf(d.TimingHash()) == q.listed.Timing {
		e.Plan, _ = join.NewPlan(d, q.zone) // the zone of the entry was found
		if needed := r.Entry(d.Needs.Entry, names); needed != nil && d.Needs.Entry != "" {
			e.Needed = &join.Entry{From: needed.From, Fires: needed.Fires, Marks: needed.Marks}
		}
	}
	arrived := q.Stored
	if arrived.IsZero() {
		arrived = r.Time
	}
	q.hours = join.New(r.Marks, r.Time, arrived, nil).Hours(&e, func(s join.Span) { q.spans = append(q.spans, s) })
}

// newest returns the nominal time of the newest fire in the list that no person asked for; zero if there is none.
func (q *question) newest() (at time.Time) {
	if q.listed == nil {
		return at
	}
	for i := range q.listed.Fires {
		if f := &q.listed.Fires[i]; f.Class != ledger.Hand && !f.Hour && f.Last().After(at) {
			at = f.Last()
		}
	}
	return at
}

// lookUp returns the verdict on the fire of a nominal time and its source, on one by a person only if there is no
// other; nil if there is none. What the peel was asked for counts for fires that its report lacks or calls pending.
func (q *question) lookUp(nominal time.Time) (found *join.Span, source string) {
	found = find(q.spans, nominal)
	if told := find(q.told, nominal); told != nil && (found == nil || found.Verdict == join.Pending) {
		return told, q.askedSource()
	}
	if found == nil {
		return nil, ""
	}
	return found, q.reportSource()
}

func find(spans []join.Span, nominal time.Time) (found *join.Span) {
	for i := range spans {
		s := &spans[i]
		isHand := s.Fire != nil && s.Fire.Class == ledger.Hand
		if s.Has(nominal) && (found == nil || !isHand && s.Verdict != join.Unexpected) {
			found = s
		}
	}
	return found
}

// byList judges a fire by the list of the peel, joined with the plan of the document.
func (q *question) byList(nominal time.Time) *judgement {
	s, source := q.lookUp(nominal)
	if s == nil {
		return nil
	}
	at := q.stamp(nominal)
	v := &judgement{reason: s.Why, source: source}
	v.fact = "the list of its fires: " + s.Verdict.String() + words(" (", s.Why, ")")
	switch s.Verdict {
	case join.Pending:
		q.ofPending(nominal, s, v)
	case join.Skipped:
		v.is, v.answer = api.WhySkipped, q.skipAnswer(nominal, ledger.Reason(s.Why))
	case join.Missed:
		v.is, v.answer = api.WhyMissed, q.missAnswer(nominal, s.Why)
	default:
		if s.Why == join.CutList {
			return nil // what masters have stored says more
		}
		v.is = api.WhyUnknown
		v.answer = fmt.Sprintf("Nobody knows what became of the fire of %s: the clock of %s was wrong then, "+
			"or was set about then.",
			at, q.Peel)
		if s.Why != join.WrongClock {
			v.answer = fmt.Sprintf("This master cannot read what became of the fire of %s:"+
				" %s runs a newer zester-peel.", at, q.Peel)
		}
	}
	return v
}

// missAnswer says why a fire did not start in time.
func (q *question) missAnswer(nominal time.Time, reason string) string {
	at, text, made := q.stamp(nominal), "", ""
	if e := q.Document.Entry; e != nil && e.Missed.CatchUp == schedule.CatchUpSkip {
		made = " It is not made up, because catch_up is skip."
	}
	switch ledger.Reason(reason) {
	case ledger.Down:
		text = "zester-peel was not running"
		if up := q.startAfter(nominal); !up.IsZero() {
			text += " until " + q.stamp(up)
		}
	case ledger.DeadlineExceeded:
		text = "zester-peel was running, but the host was suspended, too slow, or its clock was set forward"
	case ledger.NotMadeUp:
		return fmt.Sprintf("The fire of %s did not start in time, and is not made up: catch_up allows no more fires.",
			at)
	default:
		return fmt.Sprintf("The fire of %s did not happen: %s has reported since, "+
			"and lists neither a run nor a skip of it.",
			at, q.Peel)
	}
	return fmt.Sprintf("The fire of %s did not start in time: %s.%s", at, text, made)
}

// startAfter returns when the peel's process started next after a time; zero if it is not known.
func (q *question) startAfter(at time.Time) time.Time {
	if q.Report == nil || len(q.Report.Marks) == 0 || q.Report.Marks[0].At.After(at) {
		return time.Time{}
	}
	for _, m := range q.Report.Marks {
		if m.Kind == ledger.Starts && m.At.After(at) {
			return m.At
		}
	}
	return time.Time{}
}

// ofPending completes the verdict on a fire that had not ended when the peel reported or was asked.
func (q *question) ofPending(nominal time.Time, s *join.Span, v *judgement) {
	told := q.Report.Time
	if q.Asked != nil && v.source == q.askedSource() {
		told = q.Now
	}
	at, then := q.stamp(nominal), q.stamp(told)
	if q.Now.After(told.Add(2*wire.ScheduleInterval + reportWait)) {
		v.is, v.reason = api.WhyUnknown, "not_reporting"
		v.answer = fmt.Sprintf("Nobody knows how the fire of %s ended: %s has not reported since %s, "+
			"when the fire had not ended; %s.",
			at, q.Peel, then, q.presence())
		return
	}
	v.is = api.WhyWaiting
	switch ledger.Reason(s.Why) {
	case ledger.Runs:
		v.is, v.reason = api.WhyRunning, "in_flight"
		v.answer = fmt.Sprintf("The fire of %s is running: it had not ended at %s.", at, then)
		if e := q.listed; e.Ended.Before(e.Started) {
			v.answer = fmt.Sprintf("The fire of %s is running: it started at %s and had not ended at %s.",
				at, q.started(nominal, e.Started), then)
		}
	case ledger.Splay:
		v.answer = fmt.Sprintf("The fire of %s has not started yet: at %s it waited for its splay, a random delay.",
			at, then)
	case ledger.Held:
		v.answer = fmt.Sprintf("The fire of %s has not started yet: it waits until its windows open (outside: defer).",
			at)
		if opens, ok := q.timing.Opens(nominal); ok {
			v.answer = strings.TrimSuffix(v.answer, ".") + ", at " + q.stamp(opens) + "."
		}
	case ledger.Owed:
		v.answer = fmt.Sprintf("The fire of %s was missed, and will be made up (catch_up): "+
			"at %s it had not started yet.",
			at, then)
	default:
		v.answer = fmt.Sprintf("The fire of %s has not started yet: at %s it waited for another run to end.", at, then)
	}
}

// maxTraces bounds the fires of a list that a time is compared with.
const maxTraces = 20_000

// traces returns the fires of the list, and when those started that the peel says more about; those by a person last.
func (q *question) traces() (list []trace) {
	if q.listed == nil {
		return nil
	}
	var byHand []trace
	for i := range q.listed.Notes {
		n := &q.listed.Notes[i]
		if t := (trace{n.Nominal, n.Started}); n.Class == ledger.Hand {
			byHand = append(byHand, t)
		} else {
			list = append(list, t)
		}
	}
	for i := range q.told {
		if s := &q.told[i]; s.Fire.Class == ledger.Hand {
			byHand = append(byHand, tracesOf(s.Fire, maxTraces)...)
		} else {
			list = append(list, tracesOf(s.Fire, maxTraces-len(list))...)
		}
	}
	list = append(list, byHand...)
	for i := range q.listed.Fires {
		list = append(list, tracesOf(&q.listed.Fires[i], maxTraces-len(list))...)
	}
	return list
}

// tracesOf returns the fires of a run, the first ones of more than most.
func tracesOf(run *ledger.Run, most int) (list []trace) {
	for k := 0; k < min(run.Count, most) && !run.Hour; k++ {
		list = append(list, trace{nominal: run.Nominal.Add(time.Duration(k) * run.Step)})
	}
	return list
}
