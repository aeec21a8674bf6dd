package evidence

import (
	"cmp"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/why"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler/rules"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// reportWait is how long after its due time a report may come: a tenth of the interval, and the way over the bus.
const reportWait = wire.ScheduleInterval/10 + 30*time.Second

// judge returns what became of the fire of a nominal time. The sources count in this order: a record of its job, what the report
// says about this fire alone, the list of the peel's fires, a pause, the document, the counts of its hour that masters have stored if the report does not go back so
// far, and those of the report.
func (q *question) judge(nominal time.Time) *judgement {
	for _, f := range []func(time.Time) *judgement{q.byJob, q.byReport, q.byList, q.byPause, q.byStart, q.byLife, q.byWindow, q.byStored, q.byAge, q.byHour} {
		if v := f(nominal); v != nil {
			return v
		}
	}
	return &judgement{is: why.Unknown, reason: "no_source", answer: fmt.Sprintf("No source says what became of the fire of %s.", q.stamp(nominal))}
}

// byPause judges a fire while an operator's pause lasted.
func (q *question) byPause(nominal time.Time) *judgement {
	if act := q.pauseAt(nominal); act != nil && act.Unsure == "" {
		return &judgement{
			is: why.None, reason: string(rules.StatePaused), source: act.Source(), fact: act.String(),
			answer: fmt.Sprintf("There was no fire at %s: %s had been paused by %s at %s%s.", q.stamp(nominal), q.Entry, act.User, q.stamp(act.Time), act.Because()),
		}
	}
	return q.stopped(nominal)
}

// stopped returns the verdict for a time at which the entry had a state in which it does not fire; nil if it had not.
func (q *question) stopped(at time.Time) *judgement {
	if q.report == nil {
		if e := q.Document.Entry; e != nil && !e.Enabled && !q.Document.Written.After(at) {
			return q.disabled(q.documentSource())
		}
		return nil
	}
	if q.report.Since.After(at) {
		return nil
	}
	since := "since " + q.stamp(q.report.Since)
	v := &judgement{is: why.None, reason: q.report.State, source: q.reportSource(), fact: fmt.Sprintf("the entry is %s %s", q.report.State, since)}
	cause := oneLine(q.report.Why)
	switch rules.State(q.report.State) {
	case rules.StateDisabled:
		return q.disabled(q.reportSource())
	case rules.StatePaused:
		v.answer = fmt.Sprintf("%s does not fire: it is %s, %s. zester schedule resume %s %[1]s ends the pause.", q.Entry, cmp.Or(cause, "paused by an operator"), since, q.Peel)
	case rules.StateFailing:
		v.answer = fmt.Sprintf("%s does not fire: %s, and pause_after_errors has paused it %s. zester schedule resume %s %[1]s lets it fire again.", q.Entry, cmp.Or(cause, "its runs failed"), since, q.Peel)
	case rules.StateInvalid:
		v.answer = fmt.Sprintf("%s does not fire: this host cannot run it: %s.", q.Entry, cmp.Or(cause, "the entry is invalid"))
	case rules.StateExhausted:
		v.answer = fmt.Sprintf("%s does not fire any more: %s.", q.Entry, cmp.Or(cause, "it has no fire ahead"))
	default:
		return nil
	}
	return v
}

func (q *question) disabled(source string) *judgement {
	return &judgement{
		is: why.None, reason: string(rules.StateDisabled), source: source, fact: "enabled is false",
		answer: fmt.Sprintf("%s does not fire: it is disabled by its field enabled.", q.Entry),
	}
}

// byStart judges a fire before the entry got its present timing.
func (q *question) byStart(nominal time.Time) *judgement {
	since := q.since()
	if since.IsZero() || !since.After(nominal) || q.hourOf(nominal) != nil {
		return nil
	}
	v := &judgement{is: why.None, reason: "not_in_schedule", source: q.documentSource(), fact: "the settings with this entry were written at " + q.stamp(since)}
	if q.report != nil {
		v.source, v.fact = q.reportSource(), "the entry has had its present timing and state since "+q.stamp(since)
	}
	v.answer = fmt.Sprintf("%s was not in the schedule of %s at %s as it is now: it has been so since %s.", q.Entry, q.Peel, q.stamp(nominal), q.stamp(since))
	if pause := q.pauseAt(nominal); pause != nil { // an unsure one, which may be why the present state is so young
		v.is, v.reason, v.source, v.fact = why.Unknown, "unread", pause.Source(), pause.String()
		v.answer = fmt.Sprintf("It is not known whether %s was paused on %s at %s: %s had run %s on %s, and whether that selected %[2]s cannot be told: %[7]s.",
			q.Entry, q.Peel, q.stamp(nominal), pause.User, pause.Function, oneLine(pause.Target), oneLine(pause.Unsure))
		return v
	}
	if c := q.stored(nominal); c != nil {
		v.is, v.reason = why.Unknown, "other_settings"
		v.answer = fmt.Sprintf("It is not known whether %s was due on %s at %s: it has had its present timing and state since %s.%s", q.Entry, q.Peel, q.stamp(nominal), q.stamp(since), storedAnswer(c))
	}
	return v
}

// closedBy returns the line of the entry's windows that closes them at a time; empty if they are open or unknown.
func (q *question) closedBy(at time.Time) string {
	if q.Document.Entry == nil {
		return ""
	}
	return q.Document.Entry.Windows.Rules.ClosedBy(at, q.zone)
}

// byWindow judges a fire at a time at which the windows of the document were closed.
func (q *question) byWindow(nominal time.Time) *judgement {
	line, e := q.closedBy(nominal), q.Document.Entry
	if line == "" {
		return nil
	}
	v := &judgement{source: q.documentSource(), fact: fmt.Sprintf("its windows were closed at %s (%s)", q.stamp(nominal), line)}
	if e.Windows.Outside != schedule.OutsideDefer {
		v.is, v.reason = why.Skipped, string(q.timing.Window(nominal))
		v.answer = q.skipAnswer(nominal, ledger.Reason(v.reason))
		return v
	}
	opens, ok := q.timing.Opens(nominal)
	if ok && opens.After(q.Now) {
		v.is, v.reason = why.Waiting, "held"
		v.answer = fmt.Sprintf("The fire of %s is held until the windows open at %s: they are closed now (%s).", q.stamp(nominal), q.stamp(opens), line)
		return v
	}
	return nil
}

// byAge judges a fire that the newest report cannot know of.
func (q *question) byAge(nominal time.Time) *judgement {
	at := q.stamp(nominal)
	if q.isUnread(SourceReport) {
		return q.unreadReport("what became of the fire of " + at)
	}
	if q.Report == nil {
		return &judgement{
			is: why.Unknown, reason: "never_reported", source: "reports on schedules", fact: fmt.Sprintf("there is none of %s", q.Peel),
			answer: fmt.Sprintf("%s has never reported on its schedule, so nobody knows what became of the fire of %s: %s.", q.Peel, at, q.presence()),
		}
	}
	latest := q.latest(nominal)
	if !q.Report.Time.Before(latest) {
		return nil
	}
	v := &judgement{is: why.Unknown, source: q.reportSource(), fact: "it is older than the latest start of the fire, " + q.stamp(latest)}
	due := q.Report.Time.Add(wire.ScheduleInterval + reportWait)
	switch {
	case q.Now.Before(latest) && q.Now.Before(due):
		v.is, v.reason = why.Waiting, "may_start"
		v.answer = fmt.Sprintf("The fire of %s may still start, until %s.", at, q.stamp(latest))
	case q.Now.Before(due):
		v.reason = "report_due"
		v.answer = fmt.Sprintf("The newest report of %s is older than the fire of %s. A failure or miss would have been reported at once; the next report is due by %s.", q.Peel, at, q.stamp(due))
	default:
		v.reason = "not_reporting"
		v.answer = fmt.Sprintf("%s has not reported since %s, so nobody knows what became of the fire of %s: %s. Its next report says what it ran and missed.", q.Peel, q.stamp(q.Report.Time), at, q.presence())
	}
	return v
}

// latest returns the latest time at which the run of a fire must have started: the peel says so for its next fire.
func (q *question) latest(nominal time.Time) time.Time {
	if q.report != nil && q.report.Next.Unix() == nominal.Unix() && !q.report.Latest.IsZero() {
		return q.report.Latest
	}
	if q.Document.Entry == nil {
		return nominal
	}
	return nominal.Add(q.timing.SplayBound(nominal, q.Document.Entry.Splay.Max))
}
