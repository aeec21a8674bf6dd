package why

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// noFire says why there was no fire at a moment: neither the timing gives one, nor does any source name one.
func (q *question) noFire(m Moment) *judgement {
	at := m.First()
	if v := q.byPause(at); v != nil {
		return v
	}
	e := q.Document.Entry
	if e == nil {
		return q.noEntry(at)
	}
	v := &judgement{is: api.WhyNone, source: q.documentSource()}
	switch {
	case e.Clock.IsZero() && e.Needs.Entry != "":
		v.reason, v.fact = "needs", "it runs when "+e.Needs.Entry+" has ended, and has no timing of its own"
		v.answer = fmt.Sprintf("There was no fire at %s: %s runs only after %s, and no source names a run then.",
			m.Wall, q.Entry, e.Needs.Entry)
	case !q.hasClock:
		return q.byStartOr(at, q.followsRuns(m, e))
	case len(m.At) == 0:
		v.reason, v.fact = "clock_gap", fmt.Sprintf("the clocks of %s skip %s, and dst_gap is %s", q.zoneName, m.Wall,
			e.Clock.Changes.Gap)
		v.answer = fmt.Sprintf("There was no fire at %s: the clocks of %s skip that time. %s", m.Wall, q.zoneName,
			q.around(at))
	case q.isOtherOf(m):
		v.reason, v.fact = "clock_repeat", fmt.Sprintf("the clocks of %s show %s twice, and dst_overlap is %s",
			q.zoneName, m.Wall, e.Clock.Changes.Repeat)
		v.answer = fmt.Sprintf(
			"There was no fire at %s: that time comes twice, and the entry fires only at the other one. %s",
			q.stamp(at), q.around(at),
		)
	default:
		v.reason, v.fact = "not_due", "not due at "+q.stamp(at)
		v.answer = fmt.Sprintf("There was no fire at %s: %s is due %s. %s", q.stamp(at), q.Entry, q.clockWords(e),
			q.around(at))
	}
	return v
}

// byStartOr returns v, unless the entry got its present timing after a time.
func (q *question) byStartOr(at time.Time, v *judgement) *judgement {
	if start := q.byStart(at); start != nil {
		return start
	}
	return v
}

// noEntry judges a time at which no source names a fire of an entry that the document does not have.
func (q *question) noEntry(at time.Time) *judgement {
	if q.listed != nil {
		return &judgement{
			is:     api.WhyNone,
			reason: "not_due",
			source: q.reportSource(),
			fact:   "no fire at " + q.stamp(at) + " is named",
			answer: fmt.Sprintf(
				"No source names a fire of %s at %s. The entry is not in Git, so masters do not know its timing.",
				q.Entry, q.stamp(at),
			),
		}
	}
	if h, source := q.verdictsOf(at); h != nil {
		return &judgement{
			is: api.WhyUnknown, reason: "other_settings", source: source, fact: countWords(h),
			answer: fmt.Sprintf("%s is not in the schedule of %s now, so it is not known when it was due then. "+
				"The verdicts on its hour: %s.",
				q.Entry, q.Peel, countWords(h)),
		}
	}
	if len(q.Unread) > 0 {
		return &judgement{
			is:     api.WhyUnknown,
			reason: "unread",
			answer: fmt.Sprintf("Not all sources could be read, so it is not known whether %s has %s.", q.Peel,
				q.Entry),
		}
	}
	v := &judgement{
		is:     api.WhyNone,
		reason: "not_in_schedule",
		answer: fmt.Sprintf("%s is not in the schedule of %s now; only records of earlier runs name it.", q.Entry,
			q.Peel),
	}
	if q.Document.Commit != "" {
		v.source, v.fact = q.documentSource(), "the newest settings do not have it"
	}
	return v
}

// followsRuns judges a time at which an entry was not due whose fires count from its runs.
func (q *question) followsRuns(m Moment, e *schedule.Entry) *judgement {
	v := &judgement{is: api.WhyNone, reason: "not_due", source: q.documentSource(), fact: e.Clock.String()}
	v.answer = fmt.Sprintf(
		"There was no fire at %s: no list and no job names one. %s is due %s, so its times follow from its runs.",
		m.Wall, q.Entry, q.clockWords(e),
	)
	if at := q.newest(); !at.IsZero() {
		v.answer += fmt.Sprintf(" It was last due at %s.", q.stamp(at))
	}
	return v
}

// isOtherOf reports whether the clocks of the zone show the time twice, and the entry fires only at the other of the
// two.
func (q *question) isOtherOf(m Moment) bool {
	twin, twice := Twin(m.At[0], q.zone)
	if !twice {
		return false
	}
	_, fires := FireIn(q.timing, twin, m.Span)
	return fires
}

// clockWords returns the timing of an entry in words.
func (q *question) clockWords(e *schedule.Entry) string {
	bare := schedule.New(e.Name)
	bare.Clock = e.Clock
	text := bare.Explain()
	const limit = ", at most one at a time" // which every entry has by default
	return strings.TrimSuffix(text, limit)
}

// around names the fires before and after a time, and when the life of the entry excludes it.
func (q *question) around(at time.Time) string {
	life, text := q.Document.Entry.Life, ""
	if previous, ok := Before(q.timing, at); ok && !previous.Before(life.NotBefore) {
		text = "The fire before was at " + q.stamp(previous)
	}
	if next, ok := q.timing.Next(at); ok && (life.Until.IsZero() || next.Before(life.Until)) {
		if text != "" {
			text += ", the "
		} else {
			text = "The "
		}
		text += "next one after it at " + q.stamp(next)
		if wait := next.Sub(at).Round(time.Second); wait > 0 {
			text += ", " + strictyaml.FormatDuration(wait) + " later"
		}
	}
	if text != "" {
		text += "."
	}
	return text
}
