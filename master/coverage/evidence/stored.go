package evidence

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/coverage/why"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A Past is what masters have stored of one hour. The counts are those of the entry on the peel: what the peel reported of the fires
// due in the hour, and how many of those that masters expected it did not account for. They have no times, reasons or errors.
type Past struct {
	Hour   int64           // since the Unix epoch
	Stored bool            // there are counts of the hour, if only of others
	Counts *verdict.Counts // nil: masters knew of no fire of the entry on the peel
}

// stored returns the counts that masters have stored of the hour of a time; nil if there are none.
func (q *question) stored(at time.Time) *verdict.Counts {
	if q.Past == nil || q.Past.Hour != at.Unix()/3600 {
		return nil
	}
	return q.Past.Counts
}

// needsStored reports whether the newest report does not have the hour of a time any more.
func (q *question) needsStored(at time.Time) bool {
	return q.hourOf(at) == nil && (q.report == nil || at.Before(q.oldest()))
}

// byStored judges a fire by the counts that masters have stored of its hour. They prove its end only if there are as many fires as
// the timing asks for, and all of them came to the same end.
func (q *question) byStored(nominal time.Time) *judgement {
	c := q.stored(nominal)
	if c == nil || !q.needsStored(nominal) {
		return nil
	}
	v := &judgement{is: why.Unknown, source: q.storedSource(), fact: q.storedFact(c)}
	at := "The fire of " + q.stamp(nominal)
	switch ends, due := q.storedEnds(c), q.dueIn(q.Past.Hour); {
	case len(ends) == 0:
		v.reason, v.answer = "not_counted", at+" is not among those that masters have counted."
	case c.Expected < due:
		v.reason, v.answer = "not_counted", fmt.Sprintf("%s may not be among those that masters have counted: %d were due in its hour.", at, due)
	case len(ends) > 1:
		v.reason, v.answer = "one_of_several", at+" is one of several in its hour that came to different ends."
	case ends[0] == string(why.Ran):
		v.is, v.answer = why.Ran, at+" ran and succeeded."
		switch {
		case c.Late == c.Ran:
			v.is, v.reason, v.answer = why.Late, wire.FireLate, at+" ran late and succeeded."
		case c.Overran == c.Ran:
			v.is, v.reason, v.answer = why.Overran, wire.FireOverran, at+" overran and succeeded."
		case c.Late+c.Overran > 0:
			v.answer += " It is not stored which of the runs were late or overran."
		}
	case ends[0] == wire.FireFailed:
		v.is, v.answer = why.Failed, at+" ran and failed. The error is not stored."
	case ends[0] == wire.FireMissed:
		v.is, v.reason, v.answer = why.Missed, "not_stored", at+" did not start in time. It is not stored why."
	case ends[0] == string(why.Skipped):
		v.is, v.reason, v.answer = why.Skipped, "not_stored", at+" was skipped. It is not stored by which rule."
	case q.Report == nil:
		return nil // that there is no report says more
	default:
		v.reason, v.answer = "not_reported", fmt.Sprintf("Nobody knows what became of the fire of %s: %s has never accounted for it.", q.stamp(nominal), q.Peel)
	}
	v.answer += storedAnswer(c)
	return v
}

// storedEnds returns the ends that the fires of the stored hour came to, without those that the report names.
func (q *question) storedEnds(c *verdict.Counts) []string {
	rest := map[string]int64{
		string(why.Ran): int64(c.Ran) - int64(c.Failed), wire.FireFailed: int64(c.Failed), wire.FireMissed: int64(c.Missed),
		string(why.Skipped): int64(c.Skipped), string(why.Unknown): int64(c.Unknown),
	}
	for _, end := range q.named(q.Past.Hour) {
		if _, counted := rest[end]; !counted {
			end = string(why.Skipped) // end is the reason
		}
		rest[end]--
	}
	return positive(rest)
}

func (q *question) storedSource() string {
	return "counts that masters have stored of the hour from " + q.hourText(q.Past.Hour)
}

func (q *question) storedFact(c *verdict.Counts) string {
	return fmt.Sprintf("fires of %s on %s in that hour: %s", q.Entry, q.Peel, storedWords(c))
}

// storedAnswer is the sentence with the stored counts.
func storedAnswer(c *verdict.Counts) string {
	return " Masters have stored of its hour: " + storedWords(c) + "."
}

// storedWords describes stored counts.
func storedWords(c *verdict.Counts) string {
	return listed([]number{
		{c.Expected, "expected"},
		{c.Ran, "ran"},
		{c.Failed, "of them failed"},
		{c.Late, "of them late"},
		{c.Overran, "of them overran"},
		{c.Skipped, "skipped"},
		{c.Missed, "missed"},
		{c.Unknown, "unknown"},
		{c.Unexpected, "unexpected"},
	})
}

// notStored says why the stored counts do not help.
func (q *question) notStored() string {
	switch {
	case q.isUnread(SourceHistory):
		return "what masters have stored of its hour could not be read"
	case q.Past != nil && q.Past.Stored:
		return "masters have stored its hour without a fire of the entry"
	}
	return "masters have stored nothing of its hour"
}

// addStored adds what masters have stored of the hour in question, unless the verdict says it.
func (q *question) addStored(v *judgement) {
	switch {
	case q.Past == nil || v.fact != "" && v.source == q.storedSource():
	case q.Past.Counts != nil:
		q.add("history", q.storedSource(), "%s", q.storedFact(q.Past.Counts))
	case q.Past.Stored:
		q.add("history", q.storedSource(), "masters knew of no fire of %s on %s in that hour", q.Entry, q.Peel)
	default:
		q.add("history", q.storedSource(), "there are none: no master ran then, or the hour was removed to make room")
	}
}

// causeOf returns the cause if the fire is part of the problem that the peel has now.
func (q *question) causeOf(nominal time.Time) *Cause {
	if q.Cause == nil || nominal.IsZero() || nominal.Before(q.Cause.Since.Truncate(time.Second)) {
		return nil
	}
	return q.Cause
}

// addCause adds which commit the problem followed, or that none explains it.
func (q *question) addCause(nominal time.Time) {
	if c := q.causeOf(nominal); c != nil {
		q.add("cause", fmt.Sprintf("reports and settings of all peels with %s", q.Entry), "%s; on %s the problem began at %s", oneLine(c.Text), q.Peel, q.stamp(c.Since))
	}
}

// causeWords is the sentence with the commit that the problem followed; empty if none is likely or possible.
func (q *question) causeWords(nominal time.Time) string {
	c := q.causeOf(nominal)
	if c == nil || c.Word == cause.None {
		return ""
	}
	text := oneLine(c.Text)
	return " " + strings.ToUpper(text[:1]) + text[1:] + "."
}
