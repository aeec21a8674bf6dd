package why

import (
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// A run is what the sources say about the run of a fire. What they do not say is zero.
type run struct {
	listed         *join.Span // nil: the list has no run that has ended
	job            *job.Job   // its record
	jid            wire.JID
	started, ended time.Time
	commit         string // that had last changed the entry when the run started
	generation     uint64 // of the settings then; 0: it is not known
	error, by      string
	trigger        wire.Trigger
	source         string
}

// runOf returns what is known of the run of a nominal time.
func (q *question) runOf(nominal time.Time) (r run) {
	s, source := q.lookUp(nominal)
	if s != nil && (s.Verdict == join.Ran || s.Verdict == join.Unexpected) {
		r.listed, r.source = s, source
	}
	if s != nil && s.Fire != nil {
		for i := range q.listed.Notes {
			n := &q.listed.Notes[i]
			if n.Era != s.Fire.Era || n.Class != s.Fire.Class || n.Nominal.Unix() != nominal.Unix() ||
				n.Started.IsZero() {
				continue
			}
			r.started, r.ended, r.jid = n.Started, n.Started.Add(n.Took), n.Job
			r.generation = n.Generation
			r.commit, r.error, r.by = n.Commit, oneLineFact(n.Error), oneLineFact(n.By)
		}
	}
	for i := range q.Jobs {
		j := &q.Jobs[i]
		trigger := wire.Trigger(j.Metadata[job.MetaTrigger])
		isOther := trigger == wire.TriggerManual && s != nil && (s.Fire == nil || s.Fire.Class != ledger.Hand)
		if nominalOf(j).Unix() != nominal.Unix() || isOther {
			continue
		}
		r.job, r.jid, r.trigger = j, j.JID, trigger
		r.source = "record of job " + string(j.JID)
		r.started, r.ended = timeOf(j, job.MetaStarted), timeOf(j, job.MetaFinished)
		r.commit = j.Metadata[job.MetaCommit]
		break
	}
	return r
}

// byRun judges a fire whose run has ended, by the list or by the record of its job.
func (q *question) byRun(nominal time.Time) *judgement {
	r := q.runOf(nominal)
	if r.listed == nil && r.job == nil {
		return nil
	}
	v := &judgement{is: api.WhyRan, source: r.source, answer: q.subject(nominal, &r)}
	hasFailed := r.job != nil && r.job.Status != job.Complete
	if s := r.listed; s != nil {
		v.fact = "the list of its fires: " + s.Fire.Outcome.String()
		hasFailed = s.Fire.Outcome != ledger.Ran
	}
	if r.job != nil {
		v.fact = fmt.Sprintf("started at %s, ended at %s", q.stamp(r.started), q.stamp(r.ended))
	}

	switch {
	case r.listed != nil && r.listed.Fire.Outcome == ledger.Interrupted:
		v.is, v.reason = api.WhyFailed, ledger.Interrupted.String()
		v.answer += " was interrupted: zester-peel ended during the run, and how far it got is not known."
	case hasFailed:
		v.is = api.WhyFailed
		v.answer += " ran and failed" + words(": ", r.error, "") + "."
	case r.listed != nil && r.listed.Fire.Overran:
		v.is, v.reason = api.WhyOverran, string(api.WhyOverran)
		v.answer += " overran: its run went on until the next fire was due, or its timeout ended it."
	case r.listed != nil && r.listed.Fire.Late:
		v.is, v.reason = api.WhyLate, string(api.WhyLate)
		v.answer += " ran late and succeeded" + q.lateAfter() + "."
	default:
		v.answer += " ran and succeeded."
	}
	v.answer += q.runWords(nominal, &r)

	return v
}

// subject names a fire, or the run of a person.
func (q *question) subject(nominal time.Time, r *run) string {
	isHand := r.trigger == wire.TriggerManual || r.listed != nil && r.listed.Fire.Class == ledger.Hand
	switch {
	case isHand && r.by != "":
		return fmt.Sprintf("The run that %s started by hand at %s", r.by, q.stamp(nominal))
	case isHand:
		return "The run that a person started by hand at " + q.stamp(nominal)
	}
	return "The fire of " + q.stamp(nominal)
}

// triggers are the triggers of runs in words; others need none.
var triggers = map[wire.Trigger]string{
	wire.TriggerStart:   " It ran because zester-peel had started (run_on_start).",
	wire.TriggerCatchUp: " It made up for the time at which it was missed (catch_up).",
	wire.TriggerNeeds:   " It ran because the entry that it needs had ended.",
}

// runWords has the sentences on the times of a run, and why it ran.
func (q *question) runWords(nominal time.Time, r *run) (text string) {
	if !r.started.IsZero() {
		text = fmt.Sprintf(" It started at %s and took %s.", q.started(nominal, r.started),
			took(r.ended.Sub(r.started)))
	}
	text += triggers[r.trigger]
	if s := r.listed; s != nil && s.Why == join.Repeated {
		text += " It is the second run of that time: the clock of the host was set back."
	} else if s != nil && s.Why == join.NotPlanned {
		text += " By the settings of the peel it was not due then."
	}
	if r.job != nil && r.job.Status != job.Complete {
		text += fmt.Sprintf(" zester job show %s shows what it printed.", r.jid)
	}
	return text
}

// started writes when a run started, and how long after its nominal time, if that is a second or more.
func (q *question) started(nominal, started time.Time) string {
	text := q.stamp(started)
	if d := started.Sub(nominal).Round(time.Second); d > 0 {
		text += ", " + strictyaml.FormatDuration(d) + " after it was due,"
	}
	return text
}

func (q *question) lateAfter() string {
	if e := q.Document.Entry; e != nil && e.Missed.LateAfter > 0 {
		return " (late_after is " + strictyaml.FormatDuration(e.Missed.LateAfter) + ")"
	}
	return ""
}
