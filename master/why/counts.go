package why

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/peel/ledger"
)

// A Past is what masters have stored of one hour.
type Past struct {
	Hour     int64      // since the Unix epoch
	Stored   bool       // there are verdicts on the hour, if only on others
	Verdicts *join.Hour // on the fires of the entry on the peel; nil: masters knew of none
}

// isOlder reports whether the newest report does not go back to a time.
func (q *question) isOlder(at time.Time) bool { return q.listed == nil || at.Before(q.oldest()) }

// oldest returns since when the list has all fires of the entry.
func (q *question) oldest() time.Time {
	if oldest := q.Report.Time.Add(-ledger.Kept); oldest.After(q.listed.From) {
		return oldest
	}
	return q.listed.From
}

// verdictsOf returns the verdicts on the hour of a time: those of the list, if it has only the number of the fires, or
// those that masters have stored. They are nil if there are none.
func (q *question) verdictsOf(at time.Time) (h *join.Hour, source string) {
	hour := join.HourOf(at)
	if q.isOlder(at) {
		if q.Past == nil || q.Past.Hour != hour {
			return nil, ""
		}
		return q.Past.Verdicts, q.storedSource()
	}
	for i := range q.spans {
		if s := &q.spans[i]; !s.Hour || join.HourOf(s.At()) != hour {
			continue
		}
		for k := range q.hours {
			if q.hours[k].Hour == hour {
				return &q.hours[k], q.reportSource()
			}
		}
	}
	return nil, ""
}

// An end is what became of fires of an hour.
type end struct {
	is     api.WhyVerdict
	reason string
}

// byCounts judges a fire by the verdicts on its hour. They prove its end only if there are as many as the timing asks
// for, and all are equal.
func (q *question) byCounts(nominal time.Time) *judgement {
	h, source := q.verdictsOf(nominal)
	if h == nil {
		return nil
	}
	at := "the fire of " + q.stamp(nominal)
	v := &judgement{
		is:     api.WhyUnknown,
		source: source,
		fact:   fmt.Sprintf("fires of %s on %s in that hour: %s", q.Entry, q.Peel, countWords(h)),
	}
	ends, due := endsOf(h), q.dueIn(h.Hour)
	switch {
	case q.isOlder(nominal) && q.since().After(nominal):
		v.reason = "other_settings"
		v.answer = fmt.Sprintf("It is not known whether %s was due on %s at %s: "+
			"it has had its present timing and state since %s.",
			q.Entry, q.Peel, q.stamp(nominal), q.stamp(q.since()))
	case len(ends) == 0 || h.Expected+h.Pending < due:
		v.reason = "not_counted"
		v.answer = fmt.Sprintf(
			"It is not known what became of %s: %d were due in its hour, and masters have counted fewer.", at, due,
		)
	case len(ends) > 1:
		v.reason = "one_of_several"
		v.answer = fmt.Sprintf(
			"It is not known what became of %s alone: of its hour only numbers are kept, "+
				"and not all fires ended alike.",
			at,
		)
	default:
		v.is, v.reason = ends[0].is, ends[0].reason
		v.answer = q.endAnswer(nominal, ends[0], h)
	}
	v.answer += " The verdicts on its hour: " + countWords(h) + "."

	return v
}

// endAnswer says what became of a fire, as of all in its hour.
func (q *question) endAnswer(nominal time.Time, e end, h *join.Hour) string {
	at := "The fire of " + q.stamp(nominal)
	switch e.is {
	case api.WhyRan:
		return at + " ran and succeeded."
	case api.WhyLate:
		return at + " ran and succeeded, but started late."
	case api.WhyOverran:
		return at +
			" ran and succeeded, but took too long: it went on until the next one was due, or its timeout ended it."
	case api.WhyFailed:
		return at + " ran and failed. The error is not stored."
	case api.WhySkipped:
		return q.skipAnswer(nominal, ledger.Reason(e.reason))
	case api.WhyMissed:
		return q.missAnswer(nominal, e.reason)
	case api.WhyWaiting:
		return at + " had not ended."
	}
	return fmt.Sprintf("Nobody knows what became of the fire of %s: %s has never reported it.", q.stamp(nominal),
		q.Peel)
}

// endsOf returns the different ends of the fires of an hour.
func endsOf(h *join.Hour) (ends []end) {
	add := func(n uint64, e end) {
		if n > 0 {
			ends = append(ends, e)
		}
	}
	ran := end{is: api.WhyRan}
	switch well := h.Ran - min(h.Failed, h.Ran); {
	case well == 0:
	case h.Late == h.Ran:
		ran = end{api.WhyLate, string(api.WhyLate)}
	case h.Overran == h.Ran:
		ran = end{api.WhyOverran, string(api.WhyOverran)}
	}
	add(h.Ran-min(h.Failed, h.Ran), ran)
	add(h.Failed, end{is: api.WhyFailed})
	add(h.Pending, end{api.WhyWaiting, "pending"})
	is := map[join.Verdict]api.WhyVerdict{
		join.Skipped: api.WhySkipped,
		join.Missed:  api.WhyMissed,
		join.Unknown: api.WhyUnknown,
	}
	for _, r := range h.Reasons {
		if is[r.Verdict] != "" {
			add(r.N, end{is[r.Verdict], r.Why})
		}
	}
	return ends
}

// dueIn returns how many fires of an hour the timing asks for, 1 at least.
func (q *question) dueIn(hour int64) (n uint64) {
	start := join.StartOf(hour)
	if q.hasClock {
		for range q.timing.Between(start.Add(-1), start.Add(time.Hour-1)) {
			n++
		}
	}
	return max(n, 1)
}

func (q *question) storedSource() string {
	return "verdicts that masters have stored of the hour from " +
		join.StartOf(q.Past.Hour).In(q.zone).Format("2006-01-02 15:04 MST")
}

// countWords describes the verdicts on an hour.
func countWords(h *join.Hour) string {
	var parts []string
	add := func(n uint64, what, reason string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s%s", n, what, words(" (", reason, ")")))
		}
	}
	add(h.Expected, "expected", "")
	add(h.Ran, "ran", "")
	add(h.Failed, "of them failed", "")
	add(h.Late, "of them late", "")
	add(h.Overran, "of them overran", "")
	for _, r := range h.Reasons {
		add(r.N, r.Verdict.String(), r.Why)
	}
	add(h.Pending, "pending", "")
	return strings.Join(parts, ", ")
}

// addStored adds what masters have stored of the hour in question, unless the verdict says it.
func (q *question) addStored(v *judgement) {
	switch {
	case q.Past == nil || v.fact != "" && v.source == q.storedSource():
	case q.Past.Verdicts != nil:
		q.add("history", q.storedSource(), "%s", countWords(q.Past.Verdicts))
	case q.Past.Stored:
		q.add("history", q.storedSource(), "masters knew of no fire of %s on %s in that hour", q.Entry, q.Peel)
	default:
		q.add("history", q.storedSource(), "there are none: no master ran then, or the hour was removed to make room")
	}
}

// notStored says why no verdicts on the hour help.
func (q *question) notStored() string {
	switch {
	case q.isUnread(SourceHistory):
		return "what masters have stored of its hour could not be read"
	case q.Past != nil && q.Past.Stored:
		return "masters have stored its hour without a fire of the entry"
	}
	return "masters have stored nothing of its hour"
}
