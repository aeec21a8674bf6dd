package why

import (
	"cmp"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// judge returns what became of the fire of a nominal time, by the first source that says it.
func (q *question) judge(nominal time.Time) *judgement {
	for _, f := range []func(time.Time) *judgement{
		q.byRun, q.byList, q.byPause, q.byCounts, q.byStart, q.byLife, q.byWindow, q.byAge,
	} {
		if v := f(nominal); v != nil {
			return v
		}
	}
	return q.notListed(nominal)
}

// byPause judges a fire while an operator's pause lasted.
func (q *question) byPause(nominal time.Time) *judgement {
	if act := q.pauseAt(nominal); act != nil && act.Unsure == "" {
		return &judgement{
			is: api.WhyNone, reason: string(scheduler.StatePaused), source: act.Source(), fact: act.String(),
			answer: fmt.Sprintf("There was no fire at %s: %s had been paused by %s at %s%s.", q.stamp(nominal),
				q.Entry, act.User, q.stamp(act.Time), act.Because()),
		}
	}
	return q.stopped(nominal)
}

// stopped returns the verdict for a time at which the entry had a state in which it does not fire; nil if it had not.
func (q *question) stopped(at time.Time) *judgement {
	if q.listed == nil {
		if e := q.Document.Entry; e != nil && !e.Enabled && !q.Document.Written.After(at) {
			return q.disabled(q.documentSource())
		}
		return nil
	}
	if q.listed.Since.After(at) {
		return nil
	}
	since := "since " + q.stamp(q.listed.Since)
	v := &judgement{
		is:     api.WhyNone,
		reason: q.listed.State,
		source: q.reportSource(),
		fact:   fmt.Sprintf("the entry is %s %s", q.listed.State, since),
	}
	cause := oneLineFact(q.listed.Why)
	switch scheduler.State(q.listed.State) {
	case scheduler.StateDisabled:
		return q.disabled(q.reportSource())
	case scheduler.StatePaused:
		v.answer = fmt.Sprintf("%s does not fire: it is %s, %s. zester schedule resume %s %[1]s ends the pause.",
			q.Entry, cmp.Or(cause, "paused by an operator"), since, q.Peel)
	case scheduler.StateFailing:
		v.answer = fmt.Sprintf(
			"%s does not fire: %s, and pause_after_errors has paused it %s. "+
				"zester schedule resume %s %[1]s lets it fire again.",
			q.Entry, cmp.Or(cause, "its runs failed"), since, q.Peel,
		)
	case scheduler.StateInvalid:
		v.answer = fmt.Sprintf("%s does not fire: this host cannot run it: %s.", q.Entry,
			cmp.Or(cause, "the entry is invalid"))
	case scheduler.StateExhausted:
		v.answer = fmt.Sprintf("%s does not fire any more: %s.", q.Entry, cmp.Or(cause, "it has no fire ahead"))
	default:
		return nil
	}
	return v
}

func (q *question) disabled(source string) *judgement {
	return &judgement{
		is: api.WhyNone, reason: string(scheduler.StateDisabled), source: source, fact: "enabled is false",
		answer: fmt.Sprintf("%s does not fire: its settings have enabled: false.", q.Entry),
	}
}

// byStart judges a fire before the entry got its present timing.
func (q *question) byStart(nominal time.Time) *judgement {
	since := q.since()
	if since.IsZero() || !since.After(nominal) {
		return nil
	}
	v := &judgement{
		is:     api.WhyNone,
		reason: "not_in_schedule",
		source: q.documentSource(),
		fact:   "the settings with this entry were written at " + q.stamp(since),
	}
	if q.listed != nil {
		v.source, v.fact = q.reportSource(), "the entry has had its present timing and state since "+q.stamp(since)
	}
	v.answer = fmt.Sprintf("%s was not in the schedule of %s at %s as it is now: it has been so since %s.", q.Entry,
		q.Peel, q.stamp(nominal), q.stamp(since))
	if pause := q.pauseAt(nominal); pause != nil { // an unsure one, which may be why the present state is so young
		v.is = api.WhyUnknown
		v.reason = "unread"
		v.source = pause.Source()
		v.fact = pause.String()
		v.answer = fmt.Sprintf("It is not known whether %s was paused on %s at %s: %s had run %s on %s, "+
			"and whether that selected %[2]s cannot be told: %[7]s.",
			q.Entry, q.Peel, q.stamp(nominal), pause.User, pause.Function, oneLineFact(pause.Target),
			oneLineFact(pause.Unsure))
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
	v := &judgement{
		source: q.documentSource(),
		fact:   fmt.Sprintf("its windows were closed at %s (%s)", q.stamp(nominal), line),
	}
	if e.Windows.Outside != schedule.OutsideDefer {
		v.is, v.reason = api.WhySkipped, string(q.timing.Window(nominal))
		v.answer = q.skipAnswer(nominal, ledger.Reason(v.reason))
		return v
	}
	opens, ok := q.timing.Opens(nominal)
	if ok && opens.After(q.Now) {
		v.is, v.reason = api.WhyWaiting, "held"
		v.answer = fmt.Sprintf("The fire of %s is held until the windows open at %s: they are closed now (%s).",
			q.stamp(nominal), q.stamp(opens), line)
		return v
	}
	return nil
}

// byLife judges a fire before not_before, or at until or later.
func (q *question) byLife(nominal time.Time) *judgement {
	if q.Document.Entry == nil {
		return nil
	}
	life := q.Document.Entry.Life
	v := &judgement{is: api.WhyNone, source: q.documentSource()}
	switch {
	case nominal.Before(life.NotBefore):
		v.reason, v.fact = "not_before", "not_before is "+q.stamp(life.NotBefore)
	case !life.Until.IsZero() && !nominal.Before(life.Until):
		v.reason, v.fact = "until", "until is "+q.stamp(life.Until)
	default:
		return nil
	}
	v.answer = fmt.Sprintf("There was no fire at %s: %s.", q.stamp(nominal), v.fact)
	return v
}

// byAge judges a fire that the newest report cannot know of.
func (q *question) byAge(nominal time.Time) *judgement {
	at := q.stamp(nominal)
	if q.isUnread(SourceReport) {
		return q.unreadReport("what became of the fire of " + at)
	}
	if q.Report == nil {
		return &judgement{
			is:     api.WhyUnknown,
			reason: "never_reported",
			source: "reports on schedules",
			fact:   fmt.Sprintf("there is none of %s", q.Peel),
			answer: fmt.Sprintf(
				"%s has never reported on its schedule, so nobody knows what became of the fire of %s; %s.", q.Peel,
				at, q.presence(),
			),
		}
	}
	latest, isAsked := q.latest(nominal), q.Asked.has(nominal)
	if !q.Report.Time.Before(latest) || isAsked && !q.Now.Before(latest) {
		return nil
	}
	v := &judgement{
		is:     api.WhyUnknown,
		source: q.reportSource(),
		fact:   "it is older than the latest start of the fire, " + q.stamp(latest),
	}
	due := q.Report.Time.Add(wire.ScheduleInterval + reportWait)
	switch {
	case isAsked:
		v.is, v.reason = api.WhyWaiting, "may_start"
		v.source, v.fact = q.askedSource(), "it lists no fire of that time yet"
		v.answer = fmt.Sprintf("The fire of %s has not started yet. It may start until %s.", at, q.stamp(latest))
	case q.Now.Before(latest) && q.Now.Before(due):
		v.is, v.reason = api.WhyWaiting, "may_start"
		v.answer = fmt.Sprintf("It is not known yet whether the fire of %s has started: the newest report of %s is "+
			"older. It may start until %s; the next report is due by %s.",
			at, q.Peel, q.stamp(latest), q.stamp(due))
	case q.Now.Before(due):
		v.reason = reportDue
		v.answer = fmt.Sprintf("It is not known yet what became of the fire of %s: the newest report of %s is older. "+
			"A failure or miss would have been reported at once; the next report is due by %s.",
			at, q.Peel, q.stamp(due))
	default:
		v.reason = "not_reporting"
		v.answer = fmt.Sprintf("Nobody knows what became of the fire of %s: %s has not reported since %s; %s. "+
			"Its next report says what it ran and missed.",
			at, q.Peel, q.stamp(q.Report.Time), q.presence())
	}
	return v
}

// latest returns the latest time at which the run of a fire must have started. A report has it for the next fire.
func (q *question) latest(nominal time.Time) time.Time {
	if q.listed != nil && q.listed.Next.Unix() == nominal.Unix() && !q.listed.Latest.IsZero() {
		return q.listed.Latest
	}
	if q.Document.Entry == nil {
		return nominal
	}
	return nominal.Add(q.timing.SplayBound(nominal, q.Document.Entry.Splay.Max))
}

// notListed judges a fire that the newest report should list but does not.
func (q *question) notListed(nominal time.Time) *judgement {
	at := q.stamp(nominal)
	v := &judgement{is: api.WhyUnknown, source: q.reportSource(), fact: "it lists no fire of that time"}
	isOther := q.Document.Digest != "" && q.Report.Digest != "" && string(q.Document.Digest) != q.Report.Digest
	switch {
	case q.listed == nil && !isOther:
		v.is, v.reason, v.fact = api.WhyNone, "not_in_schedule", "it has no entry of this name"
		v.answer = fmt.Sprintf(
			"%s is not in the schedule of %s: the peel reports its entries, and this is not one of them.", q.Entry,
			q.Peel,
		)
	case q.Asked.has(nominal):
		v.reason, v.source = "not_counted", q.askedSource()
		v.answer = fmt.Sprintf("%s did not fire at %s, as far as %s knows: it keeps fires since %s, and has none then.",
			q.Entry, at, q.Peel, q.stamp(q.Asked.Since))
	case q.listed != nil && nominal.Before(q.oldest()):
		v.reason, v.fact = "too_old", "it has the fires since "+q.stamp(q.oldest())
		records := "no job records it"
		if q.isUnread(SourceJobs) {
			records = "the records of jobs could not be read"
		}
		v.answer = fmt.Sprintf("Nobody knows what became of the fire of %s: "+
			"the report of %s goes back to %s, %s, and %s.",
			at, q.Peel, q.stamp(q.oldest()), records, q.notStored())
	case isOther:
		v.reason, v.fact = "other_settings", "the peel runs the settings of commit "+short(q.Report.Commit)
		v.answer = fmt.Sprintf("It is not known whether %s was due at %s: %s runs other settings than masters"+
			" have for it, and lists no fire then.", q.Entry, at, q.Peel)
	case q.isUnread(SourceAudit):
		v.reason = "unread"
		v.answer = fmt.Sprintf(
			"It is not known why %s did not fire at %s: %s lists no fire then, and the audit log, which would name a "+
				"pause, could not be read.", q.Entry, at, q.Peel,
		)
	default:
		v.reason, v.answer = "not_counted", fmt.Sprintf("%s does not list a fire at %s.", q.Peel, at)
	}
	return v
}
