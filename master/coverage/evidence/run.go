package evidence

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/why"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// byJob reads the record of a run.
func (q *question) byJob(nominal time.Time) *judgement {
	for i := range q.Jobs {
		j := &q.Jobs[i]
		if nominalOf(j).Unix() != nominal.Unix() || q.isOther(j, nominal) {
			continue
		}
		started, ended := timeOf(j, job.MetaStarted), timeOf(j, job.MetaFinished)
		v := &judgement{is: why.Ran, source: "record of job " + string(j.JID)}
		v.fact = fmt.Sprintf("started at %s, ended at %s", q.stamp(started), q.stamp(ended))
		v.answer = fmt.Sprintf("The fire of %s ran: it started at %s%s and took %s", q.stamp(nominal), q.stamp(started), delayed(nominal, started), took(ended.Sub(started)))
		if trigger := triggers[history.Trigger(j.Metadata[job.MetaTrigger])]; trigger != "" {
			v.fact += ", " + trigger
			v.answer += ", " + trigger
		}
		v.answer += "."
		if p := q.problem(nominal); p != nil && (p.Result == wire.FireLate || p.Result == wire.FireOverran) {
			v.is, v.reason = why.Verdict(p.Result), p.Result
		}
		if j.Status != job.Complete {
			v.is = why.Failed
			v.answer = fmt.Sprintf("The fire of %s ran and failed%s: zester job show %s shows what it printed.", q.stamp(nominal), q.errorOf(nominal), j.JID)
		}
		return v
	}
	return nil
}

// isOther reports whether a job is a run by a person at the second at which another fire was due.
func (q *question) isOther(j *job.Job, nominal time.Time) bool {
	if j.Metadata[job.MetaTrigger] != string(history.TriggerManual) {
		return false
	}
	s := q.lookUp(nominal)

	return s != nil && (s.Fire == nil || s.Fire.Class != ledger.Hand)
}

// triggers are the triggers of runs in words; a timer needs none.
var triggers = map[history.Trigger]string{
	history.TriggerStart:   "because the peel's process started (run_on_start)",
	history.TriggerCatchUp: "to make up for the time at which it was missed (catch_up)",
	history.TriggerManual:  "because a person ran it",
	history.TriggerNeeds:   "because the entry that it needs had ended",
}

// errorOf returns the head of the error of a run, after ": ", empty if it is unknown.
func (q *question) errorOf(nominal time.Time) string {
	if p := q.problem(nominal); p != nil && p.Error != "" {
		return ": " + oneLine(p.Error)
	}
	if q.report != nil && q.report.Error != "" && q.report.Nominal.Unix() == nominal.Unix() && q.ranLast() {
		return ": " + oneLine(q.report.Error)
	}
	return ""
}

// problem returns what the report says about one fire that did not run, failed, was late or overran.
func (q *question) problem(nominal time.Time) *wire.FireReport {
	if q.report == nil {
		return nil
	}
	for i := range q.report.Problems {
		if q.report.Problems[i].Nominal.Unix() == nominal.Unix() {
			return &q.report.Problems[i]
		}
	}
	return nil
}

// byReport reads what the report says about this fire alone.
func (q *question) byReport(nominal time.Time) *judgement {
	if q.report == nil {
		return nil
	}
	if p := q.problem(nominal); p != nil {
		return q.ofProblem(nominal, p)
	}
	e := q.report
	if e.Nominal.Unix() != nominal.Unix() || !q.ranLast() {
		return nil
	}
	start := fmt.Sprintf("it started at %s%s", q.stamp(e.Started), delayed(nominal, e.Started))
	v := &judgement{is: why.Ran, source: q.reportSource(), fact: "the last fire of the entry: " + strings.TrimSuffix(start, ",")}
	switch {
	case e.Running > 0 && e.Ended.Before(e.Started):
		v.is, v.reason = why.Running, "in_flight"
		v.answer = fmt.Sprintf("The fire of %s runs: %s and had not ended at %s.", q.stamp(nominal), start, q.stamp(q.Report.Time))
	case e.Error != "":
		v.is = why.Failed
		v.answer = fmt.Sprintf("The fire of %s ran and failed%s.", q.stamp(nominal), q.errorOf(nominal))
	default:
		v.answer = fmt.Sprintf("The fire of %s ran: %s and took %s.", q.stamp(nominal), start, took(e.Ended.Sub(e.Started)))
	}
	return v
}

// ofProblem returns the verdict on a fire that the report names.
func (q *question) ofProblem(nominal time.Time, p *wire.FireReport) *judgement {
	at := q.stamp(nominal)
	v := &judgement{is: why.Verdict(p.Result), source: q.reportSource(), fact: "the fire of " + at + ": " + p.Result}
	if !p.Started.IsZero() {
		v.fact += fmt.Sprintf(", started at %s, took %s", q.stamp(p.Started), took(p.Took))
	}
	switch p.Result {
	case wire.FireFailed:
		v.answer = fmt.Sprintf("The fire of %s ran and failed%s.", at, q.errorOf(nominal))
	case wire.FireInterrupted:
		v.is, v.reason = why.Failed, wire.FireInterrupted
		v.answer = fmt.Sprintf("The fire of %s ran, and the peel's process ended during the run: how far it got is not known.", at)
	case wire.FireLate:
		v.reason = wire.FireLate
		v.answer = fmt.Sprintf("The fire of %s ran late: it started at %s%s%s.", at, q.stamp(p.Started), strings.TrimSuffix(delayed(nominal, p.Started), ","), q.lateAfter())
	case wire.FireOverran:
		v.reason = wire.FireOverran
		v.answer = fmt.Sprintf("The fire of %s overran: its run took %s, until the next fire was due or the timeout ended it.", at, took(p.Took))
	case wire.FireMissed:
		return q.missed(nominal, v)
	default:
		v.is, v.reason = why.Skipped, p.Result
		v.answer = q.skipAnswer(nominal, ledger.Reason(p.Result))
	}
	return v
}

// missed completes the verdict on a fire that did not start in time for no rule.
func (q *question) missed(nominal time.Time, v *judgement) *judgement {
	v.is, v.reason = why.Missed, "not_started"
	text := "the peel's process was running, but the host was suspended, or too slow, or its clock was set forward"
	if q.Report.Started.After(nominal) {
		v.reason = "down"
		text = fmt.Sprintf("the peel's process was not running; the present one started at %s", q.stamp(q.Report.Started))
	}
	v.answer = fmt.Sprintf("The fire of %s did not start in time: %s.", q.stamp(nominal), text)
	if e := q.Document.Entry; e != nil && e.Missed.CatchUp == schedule.CatchUpSkip {
		v.answer += " catch_up is skip, so it is not made up."
	}
	return v
}

func (q *question) lateAfter() string {
	if e := q.Document.Entry; e != nil && e.Missed.LateAfter > 0 {
		return ", and late_after is " + strictyaml.FormatDuration(e.Missed.LateAfter)
	}
	return ""
}
