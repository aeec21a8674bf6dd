package evidence

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/why"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

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
// same end, and as many are counted as were due, this one did.
func (q *question) byHour(nominal time.Time) *judgement {
	hour, at := q.hourOf(nominal), q.stamp(nominal)
	if hour == nil {
		return q.notCounted(nominal)
	}
	v := &judgement{source: q.reportSource(), fact: "fires due in the hour from " + q.hourText(hour.Hour) + ": " + countWords(hour)}
	ends, counted, due := q.ends(hour), hour.Ran+hour.Skipped+hour.Missed+hour.Pending, q.dueIn(hour.Hour)
	switch {
	case len(ends) == 0:
		v.is, v.reason = why.Unknown, "not_counted"
		v.answer = fmt.Sprintf("%s has not said what became of the fire of %s: it counts the fires of that hour without it.", q.Peel, at)
	case counted < due:
		v.is, v.reason = why.Unknown, "not_counted"
		v.answer = fmt.Sprintf("%s may not have counted the fire of %s: %d were due in its hour, and the report counts these: %s.", q.Peel, at, due, countWords(hour))
	case len(ends) > 1:
		v.is, v.reason = why.Unknown, "one_of_several"
		v.answer = fmt.Sprintf("The fire of %s is one of several in its hour that came to different ends: %s.", at, countWords(hour))
	case ends[0] == string(why.Waiting):
		v.is, v.reason = why.Waiting, "pending"
		v.answer = fmt.Sprintf("The fire of %s was in flight, or waited for its turn, at %s.", at, q.stamp(q.Report.Time))
	case ends[0] == string(why.Ran):
		v.is = why.Ran
		v.answer = fmt.Sprintf("The fire of %s ran and succeeded: so did all fires of its hour that are not named as problems.", at)
	case ends[0] == wire.FireFailed:
		v.is, v.answer = why.Failed, fmt.Sprintf("The fire of %s ran and failed.", at)
	case ends[0] == wire.FireMissed:
		return q.missed(nominal, v)
	default:
		v.is, v.reason, v.answer = why.Skipped, ends[0], q.skipAnswer(nominal, ledger.Reason(ends[0]))
	}
	return v
}

// ends returns the ends that fires of an hour came to, without those that the report names.
func (q *question) ends(hour *wire.ScheduleHour) []string {
	rest := map[string]int64{
		string(why.Ran): int64(hour.Ran) - int64(hour.Failed), wire.FireFailed: int64(hour.Failed), wire.FireMissed: int64(hour.Missed),
		string(why.Waiting): int64(hour.Pending),
	}
	for reason, n := range hour.Skips {
		rest[reason] += int64(n)
	}
	for _, end := range q.named(hour.Hour) {
		rest[end]--
	}
	return positive(rest)
}

// named returns the end of each fire of an hour that the report names.
func (q *question) named(hour int64) (ends []string) {
	if q.report == nil {
		return nil
	}
	for _, p := range q.report.Problems {
		if p.Nominal.Unix()/3600 != hour {
			continue
		}
		switch p.Result {
		case wire.FireLate, wire.FireOverran:
			ends = append(ends, string(why.Ran))
		case wire.FireInterrupted:
			ends = append(ends, wire.FireFailed)
		default:
			ends = append(ends, p.Result)
		}
	}
	return ends
}

// dueIn returns how many fires of an hour the timing asks for that the newest report must know of: one at least. It counts only what
// depends on nothing but the clock and the settings.
func (q *question) dueIn(hour int64) (n uint64) {
	e := q.Document.Entry
	if !q.hasClock || e.Windows.Outside == schedule.OutsideDefer || e.Life.MaxRuns > 0 || e.Life.DeleteAfterRun {
		return 1
	}
	start := time.Unix(hour*3600, 0)
	for at := range q.timing.Between(start.Add(-1), start.Add(time.Hour-1)) {
		known := q.Report == nil || !q.latest(at).After(q.Report.Time)
		if known && !at.Before(q.since()) && q.closedBy(at) == "" && !at.Before(e.Life.NotBefore) && (e.Life.Until.IsZero() || at.Before(e.Life.Until)) {
			n++
		}
	}
	return max(n, 1)
}

// positive returns the names of numbers above zero, sorted.
func positive(numbers map[string]int64) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		if numbers[name] > 0 {
			names = append(names, name)
		}
	}
	return names
}

// notCounted judges a fire whose hour the report does not have.
func (q *question) notCounted(nominal time.Time) *judgement {
	at := q.stamp(nominal)
	v := &judgement{is: why.Unknown, source: q.reportSource(), fact: "it counts no fire that was due in that hour"}
	oldest := q.oldest()
	isOther := q.Document.Digest != "" && q.Report.Digest != "" && string(q.Document.Digest) != q.Report.Digest
	switch {
	case q.report == nil && q.Lists != nil && isOther:
		v.reason, v.fact = "other_settings", "the peel runs the settings of commit "+short(q.Report.Commit)
		v.answer = fmt.Sprintf("%s runs other settings than the masters have for it, and lists no fire at %s.", q.Peel, at)
	case q.report == nil && q.Report.More > 0:
		v.reason, v.fact = "left_out", fmt.Sprintf("%d entries of the peel do not fit into it", q.Report.More)
		v.answer = fmt.Sprintf("The report of %s has no room for %s: masters know of its fires only from records of jobs.", q.Peel, q.Entry)
	case q.report == nil:
		v.is, v.reason, v.fact = why.None, "not_in_schedule", "it has no entry of this name"
		v.answer = fmt.Sprintf("%s is not in the schedule of %s: the peel reports its entries, and this is not one of them.", q.Entry, q.Peel)
	case nominal.Before(oldest):
		v.reason, v.fact = "too_old", fmt.Sprintf("it has the fires since %s", q.stamp(oldest))
		if q.listed == nil {
			v.fact = "it counts the fires of the last 12 h"
		}
		records := "no job records the fire of " + at
		if q.isUnread(SourceJobs) {
			records = "the records of jobs could not be read"
		}
		v.answer = fmt.Sprintf("The report of %s goes back to %s, %s, and %s.", q.Peel, q.stamp(oldest), records, q.notStored())
	case isOther:
		v.reason, v.fact = "other_settings", "the peel runs the settings of commit "+short(q.Report.Commit)
		v.answer = fmt.Sprintf("%s runs other settings than the masters have for it, and counts no fire at %s.", q.Peel, at)
	case q.isUnread(SourceAudit):
		v.reason = "unread"
		v.answer = fmt.Sprintf("%s counts no fire at %s, and the audit log, which would name a pause, could not be read.", q.Peel, at)
	case q.listed != nil:
		v.reason, v.fact = "not_counted", "it lists no fire of that time"
		v.answer = fmt.Sprintf("%s does not list a fire at %s.", q.Peel, at)
	default:
		v.is, v.reason = why.Missed, "not_counted"
		v.answer = fmt.Sprintf("The fire of %s did not happen: %s has reported since, and counts neither a run nor a skip of it.", at, q.Peel)
	}
	return v
}

// reportedHours is how far back every report has the counts of hours.
const reportedHours = 12 * time.Hour

// oldest returns since when the report has all fires of the entry.
func (q *question) oldest() time.Time {
	if q.listed == nil {
		return q.Report.Time.Add(-reportedHours)
	}
	if oldest := q.Report.Time.Add(-ledger.Kept); oldest.After(q.listed.From) {
		return oldest
	}
	return q.listed.From
}

// countWords describes the counts of an hour by the report.
func countWords(h *wire.ScheduleHour) string {
	list := []number{{h.Ran, "ran"}, {h.Failed, "of them failed"}, {h.Late, "of them late"}, {h.Overran, "of them overran"}}
	for _, reason := range slices.Sorted(maps.Keys(h.Skips)) {
		list = append(list, number{h.Skips[reason], "skipped (" + oneLine(reason) + ")"})
	}
	return listed(append(list, number{h.Missed, "missed"}, number{h.Pending, "pending"}, number{h.Manual, "run by hand"}))
}

// hourText writes an hour since the Unix epoch.
func (q *question) hourText(hour int64) string {
	return time.Unix(hour*3600, 0).In(q.zone).Format("2006-01-02 15:04 MST")
}
