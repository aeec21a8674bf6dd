package evidence

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/why"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/peel/scheduler/rules"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// Words of the results of single fires in reports, beside the reasons of skips.
const (
	resultFailed      = "failed"
	resultInterrupted = "interrupted"
	resultLate        = "late"
	resultOverran     = "overran"
	resultMissed      = "missed"
)

// reportWait is how long after its due time a report may come: a tenth of the interval, and the way over the bus.
const reportWait = wire.ScheduleInterval/10 + 30*time.Second

// judge returns what became of the fire of a nominal time. The sources count in this order: a record of its job, what the report
// says about this fire alone, a pause, the document, and the counts of its hour.
func (q *question) judge(nominal time.Time) *verdict {
	for _, f := range []func(time.Time) *verdict{q.byJob, q.byReport, q.byPause, q.byStart, q.byLife, q.byWindow, q.byAge, q.byHour} {
		if v := f(nominal); v != nil {
			return v
		}
	}
	return &verdict{is: why.Unknown, reason: "no_source", answer: fmt.Sprintf("No source says what became of the fire of %s.", q.stamp(nominal))}
}

// byJob reads the record of a run.
func (q *question) byJob(nominal time.Time) *verdict {
	for i := range q.Jobs {
		j := &q.Jobs[i]
		if nominalOf(j).Unix() != nominal.Unix() {
			continue
		}
		started, ended := timeOf(j, job.MetaStarted), timeOf(j, job.MetaFinished)
		v := &verdict{is: why.Ran, source: "record of job " + string(j.JID)}
		v.fact = fmt.Sprintf("started at %s, ended at %s", q.stamp(started), q.stamp(ended))
		v.answer = fmt.Sprintf("The fire of %s ran: it started at %s%s and took %s", q.stamp(nominal), q.stamp(started), delayed(nominal, started), took(ended.Sub(started)))
		if trigger := triggers[history.Trigger(j.Metadata[job.MetaTrigger])]; trigger != "" {
			v.fact += ", " + trigger
			v.answer += ", " + trigger
		}
		v.answer += "."
		if p := q.problem(nominal); p != nil && (p.Result == resultLate || p.Result == resultOverran) {
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
func (q *question) byReport(nominal time.Time) *verdict {
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
	v := &verdict{is: why.Ran, source: q.reportSource(), fact: "the last fire of the entry: " + strings.TrimSuffix(start, ",")}
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
func (q *question) ofProblem(nominal time.Time, p *wire.FireReport) *verdict {
	at := q.stamp(nominal)
	v := &verdict{is: why.Verdict(p.Result), source: q.reportSource(), fact: "the fire of " + at + ": " + p.Result}
	if !p.Started.IsZero() {
		v.fact += fmt.Sprintf(", started at %s, took %s", q.stamp(p.Started), took(p.Took))
	}
	switch p.Result {
	case resultFailed:
		v.answer = fmt.Sprintf("The fire of %s ran and failed%s.", at, q.errorOf(nominal))
	case resultInterrupted:
		v.is, v.reason = why.Failed, resultInterrupted
		v.answer = fmt.Sprintf("The fire of %s ran, and the peel's process ended during the run: how far it got is not known.", at)
	case resultLate:
		v.reason = resultLate
		v.answer = fmt.Sprintf("The fire of %s ran late: it started at %s%s%s.", at, q.stamp(p.Started), strings.TrimSuffix(delayed(nominal, p.Started), ","), q.lateAfter())
	case resultOverran:
		v.reason = resultOverran
		v.answer = fmt.Sprintf("The fire of %s overran: its run took %s, until the next fire was due or the timeout ended it.", at, took(p.Took))
	case resultMissed:
		return q.missed(nominal, v)
	default:
		v.is, v.reason = why.Skipped, p.Result
		v.answer = q.skipAnswer(nominal, history.Reason(p.Result))
	}
	return v
}

// missed completes the verdict on a fire that did not start in time for no rule.
func (q *question) missed(nominal time.Time, v *verdict) *verdict {
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

// skipAnswer says in words why a fire did not run.
func (q *question) skipAnswer(nominal time.Time, reason history.Reason) string {
	return fmt.Sprintf("The fire of %s was skipped: %s.", q.stamp(nominal), q.skipWords(nominal, reason))
}

func (q *question) skipWords(nominal time.Time, reason history.Reason) string {
	e := cmp.Or(q.Document.Entry, schedule.New(q.Entry))
	switch reason {
	case history.AlreadyRunning:
		if e.Overlap.MaxRunning == 1 {
			return "the run before was still in flight, and maxrunning is 1"
		}
		return fmt.Sprintf("%d runs were in flight, as many as maxrunning allows", e.Overlap.MaxRunning)
	case history.QueueFull:
		return "it waited for a run to end, and a later fire took its place (if_running is queue or cancel)"
	case history.DeadlineExceeded:
		return "it could not start within its start_deadline of " + strictyaml.FormatDuration(e.Missed.StartDeadline)
	case history.Superseded:
		return "a later fire, or the end of a run, took its place before it could start"
	case history.OutsideWindow, history.InBlackout:
		if line := q.closedBy(nominal); line != "" {
			return "its windows were closed (" + line + ")"
		}
		return map[history.Reason]string{history.OutsideWindow: "its windows were closed", history.InBlackout: "it was in a blackout"}[reason]
	case history.CircuitOpen:
		return "the breaker was open after failures in a row" + breakerWords(e)
	case history.NeedsUnmet:
		return fmt.Sprintf("%s did not end with %s, as needs wants", cmp.Or(e.Needs.Entry, "the other entry"), e.Needs.On)
	case history.SkippedOnce:
		return "an operator skipped it" + q.bywhom("schedule.skip", nominal)
	case history.MaxRuns:
		return "the entry had had all its runs" + runsWords(e)
	case history.Paused:
		return "the entry was paused while the fire waited" + q.bywhom("schedule.pause", nominal)
	case history.Disabled:
		return "the entry was disabled while the fire waited"
	case history.ClockSet:
		return "the clock of the host was set forward over it"
	case history.Removed:
		return "the entry was removed from the schedule while the fire waited"
	}
	return "the peel says " + oneLine(string(reason))
}

func breakerWords(e *schedule.Entry) string {
	if b := e.Failures.Breaker; b.Threshold > 0 {
		return fmt.Sprintf(": it opens for %s after %d", strictyaml.FormatDuration(b.ResetAfter), b.Threshold)
	}
	return ""
}

func runsWords(e *schedule.Entry) string {
	switch {
	case e.Life.DeleteAfterRun:
		return " (delete_after_run)"
	case e.Life.MaxRuns > 0:
		return fmt.Sprintf(" (max_runs is %d)", e.Life.MaxRuns)
	}
	return ""
}

// byPause judges a fire while an operator's pause lasted.
func (q *question) byPause(nominal time.Time) *verdict {
	if act := q.pauseAt(nominal); act != nil {
		return &verdict{
			is: why.None, reason: string(rules.StatePaused), source: auditSource(act), fact: actWords(act),
			answer: fmt.Sprintf("There was no fire at %s: %s had been paused by %s at %s%s.", q.stamp(nominal), q.Entry, act.User, q.stamp(act.Time), becauseOf(act)),
		}
	}
	return q.stopped(nominal)
}

// stopped returns the verdict for a time at which the entry had a state in which it does not fire; nil if it had not.
func (q *question) stopped(at time.Time) *verdict {
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
	v := &verdict{is: why.None, reason: q.report.State, source: q.reportSource(), fact: fmt.Sprintf("the entry is %s %s", q.report.State, since)}
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

func (q *question) disabled(source string) *verdict {
	return &verdict{
		is: why.None, reason: string(rules.StateDisabled), source: source, fact: "enabled is false",
		answer: fmt.Sprintf("%s does not fire: it is disabled by its field enabled.", q.Entry),
	}
}

// byStart judges a fire before the entry got its present timing.
func (q *question) byStart(nominal time.Time) *verdict {
	since := q.since()
	if since.IsZero() || !since.After(nominal) || q.hourOf(nominal) != nil {
		return nil
	}
	v := &verdict{is: why.None, reason: "not_in_schedule", source: q.documentSource(), fact: "the settings with this entry were written at " + q.stamp(since)}
	if q.report != nil {
		v.source, v.fact = q.reportSource(), "the entry has had its present timing and state since "+q.stamp(since)
	}
	v.answer = fmt.Sprintf("%s was not in the schedule of %s at %s as it is now: it has been so since %s.", q.Entry, q.Peel, q.stamp(nominal), q.stamp(since))
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
func (q *question) byWindow(nominal time.Time) *verdict {
	line, e := q.closedBy(nominal), q.Document.Entry
	if line == "" {
		return nil
	}
	v := &verdict{source: q.documentSource(), fact: fmt.Sprintf("its windows were closed at %s (%s)", q.stamp(nominal), line)}
	if e.Windows.Outside != schedule.OutsideDefer {
		v.is, v.reason = why.Skipped, string(q.timing.Window(nominal))
		v.answer = q.skipAnswer(nominal, history.Reason(v.reason))
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
func (q *question) byAge(nominal time.Time) *verdict {
	at := q.stamp(nominal)
	if q.isUnread(SourceReport) {
		return q.unreadReport("what became of the fire of " + at)
	}
	if q.Report == nil {
		return &verdict{
			is: why.Unknown, reason: "never_reported", source: "reports on schedules", fact: fmt.Sprintf("there is none of %s", q.Peel),
			answer: fmt.Sprintf("%s has never reported on its schedule, so nobody knows what became of the fire of %s: %s.", q.Peel, at, q.presence()),
		}
	}
	latest := q.latest(nominal)
	if !q.Report.Time.Before(latest) {
		return nil
	}
	v := &verdict{is: why.Unknown, source: q.reportSource(), fact: "it is older than the latest start of the fire, " + q.stamp(latest)}
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

// presence says whether the peel is connected.
func (q *question) presence() string {
	switch p := q.Presence; {
	case p.Online:
		return "it is connected"
	case p.Unknown:
		return "this master has just started, and has not heard of it yet"
	case p.LastSeen.IsZero():
		return "it is away, and has not been heard since this master started"
	default:
		return "it is away, and was last heard at " + q.stamp(p.LastSeen)
	}
}

// hourOf returns the counts of the hour of a nominal time; nil if the report does not have them.
func (q *question) hourOf(nominal time.Time) *wire.ScheduleHour {
	if q.report == nil {
		return nil
	}
	for i := range q.report.Hours {
		if q.report.Hours[i].Hour == nominal.Unix()/3600 {
			return &q.report.Hours[i]
		}
	}
	return nil
}

// byHour judges a fire by the counts of its hour. Fires that the report names are taken out of the counts; if all others came to the
// same end, this one did.
func (q *question) byHour(nominal time.Time) *verdict {
	hour, at := q.hourOf(nominal), q.stamp(nominal)
	if hour == nil {
		return q.notCounted(nominal)
	}
	v := &verdict{source: q.reportSource(), fact: "fires due in the hour from " + q.hourText(hour) + ": " + countWords(hour)}
	rest := q.rest(hour)
	var ends []string
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		if rest[name] > 0 {
			ends = append(ends, name)
		}
	}
	switch {
	case len(ends) == 0:
		v.is, v.reason = why.Unknown, "not_counted"
		v.answer = fmt.Sprintf("%s has not said what became of the fire of %s: it counts the fires of that hour without it.", q.Peel, at)
	case len(ends) > 1:
		v.is, v.reason = why.Unknown, "one_of_several"
		v.answer = fmt.Sprintf("The fire of %s is one of several in its hour that came to different ends: %s.", at, countWords(hour))
	case ends[0] == string(why.Ran):
		v.is = why.Ran
		v.answer = fmt.Sprintf("The fire of %s ran and succeeded: so did all fires of its hour that are not named as problems.", at)
	case ends[0] == resultFailed:
		v.is, v.answer = why.Failed, fmt.Sprintf("The fire of %s ran and failed.", at)
	case ends[0] == resultMissed:
		return q.missed(nominal, v)
	default:
		v.is, v.reason, v.answer = why.Skipped, ends[0], q.skipAnswer(nominal, history.Reason(ends[0]))
	}
	return v
}

// rest returns how many fires of an hour came to which end, without those that the report names.
func (q *question) rest(hour *wire.ScheduleHour) map[string]int64 {
	rest := map[string]int64{
		string(why.Ran): int64(hour.Ran) - int64(hour.Failed), resultFailed: int64(hour.Failed), resultMissed: int64(hour.Missed),
	}
	for reason, n := range hour.Skips {
		rest[reason] += int64(n)
	}
	for _, p := range q.report.Problems {
		if p.Nominal.Unix()/3600 != hour.Hour {
			continue
		}
		switch p.Result {
		case resultLate, resultOverran:
			rest[string(why.Ran)]--
		case resultInterrupted:
			rest[resultFailed]--
		default:
			rest[p.Result]--
		}
	}
	return rest
}

// notCounted judges a fire whose hour the report does not have.
func (q *question) notCounted(nominal time.Time) *verdict {
	at := q.stamp(nominal)
	v := &verdict{is: why.Unknown, source: q.reportSource(), fact: "it counts no fire that was due in that hour"}
	oldest := q.Report.Time.Add(-reportedHours)
	switch {
	case q.report == nil && q.Report.More > 0:
		v.reason, v.fact = "left_out", fmt.Sprintf("%d entries of the peel do not fit into it", q.Report.More)
		v.answer = fmt.Sprintf("The report of %s has no room for %s: masters know of its fires only from records of jobs.", q.Peel, q.Entry)
	case q.report == nil:
		v.is, v.reason, v.fact = why.None, "not_in_schedule", "it has no entry of this name"
		v.answer = fmt.Sprintf("%s is not in the schedule of %s: the peel reports its entries, and this is not one of them.", q.Entry, q.Peel)
	case nominal.Before(oldest):
		v.reason, v.fact = "too_old", "it counts the fires of the last 12 h"
		v.answer = fmt.Sprintf("The report of %s goes back to %s, and no job records the fire of %s.", q.Peel, q.stamp(oldest), at)
		if q.isUnread(SourceJobs) {
			v.answer = fmt.Sprintf("The report of %s goes back to %s, and the records of jobs could not be read.", q.Peel, q.stamp(oldest))
		}
	case q.Document.Digest != "" && q.Report.Digest != "" && string(q.Document.Digest) != q.Report.Digest:
		v.reason, v.fact = "other_settings", "the peel runs the settings of commit "+short(q.Report.Commit)
		v.answer = fmt.Sprintf("%s runs other settings than the masters have for it, and counts no fire at %s.", q.Peel, at)
	case q.isUnread(SourceAudit):
		v.reason = "unread"
		v.answer = fmt.Sprintf("%s counts no fire at %s, and the audit log, which would name a pause, could not be read.", q.Peel, at)
	default:
		v.is, v.reason = why.Missed, "not_counted"
		v.answer = fmt.Sprintf("The fire of %s did not happen: %s has reported since, and counts neither a run nor a skip of it.", at, q.Peel)
	}
	return v
}

// reportedHours is how far back every report has the counts of hours.
const reportedHours = 12 * time.Hour

// countWords describes the counts of an hour.
func countWords(h *wire.ScheduleHour) string {
	var parts []string
	add := func(n uint64, text string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, text))
		}
	}
	add(h.Ran, "ran")
	add(h.Failed, "of them failed")
	add(h.Late, "of them late")
	add(h.Overran, "of them overran")
	for _, reason := range slices.Sorted(maps.Keys(h.Skips)) {
		add(h.Skips[reason], "skipped ("+oneLine(reason)+")")
	}
	add(h.Missed, "missed")
	add(h.Manual, "run by hand")
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func (q *question) hourText(h *wire.ScheduleHour) string {
	return time.Unix(h.Hour*3600, 0).In(q.zone).Format("2006-01-02 15:04 MST")
}

// delayed says between commas how long after its nominal time a run started; empty below a second.
func delayed(nominal, started time.Time) string {
	if d := started.Sub(nominal).Round(time.Second); d > 0 {
		return fmt.Sprintf(", %s after it was due,", strictyaml.FormatDuration(d))
	}
	return ""
}

// took writes how long a run took.
func took(d time.Duration) string {
	if d < 0 {
		return "an unknown time"
	}
	if d < time.Second {
		return strictyaml.FormatDuration(d.Round(time.Millisecond))
	}
	return strictyaml.FormatDuration(d.Round(100 * time.Millisecond))
}

func short(commit string) string { return commit[:min(8, len(commit))] }
