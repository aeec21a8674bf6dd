// Package judge says what happened to the fires of one entry on one peel. [Judge] makes the verdicts of each hour from a report
// of the peel and the entry's document, [Away] those of a peel that does not report, and [Problems] says what is wrong now.
//
// A peel counts each of its fires by what happened to it, and that is believed. The document says how many there must be at
// least: a fire that the peel has not counted when its latest start has passed is missed if the peel had the document, its
// clock was right, and it reported all the time; else it is unknown. It is never missed because a report is late, because a
// clock was set, or because the peel has older settings.
//
// Fires of intervals that follow runs, of deferred windows and of needs cannot be computed exactly. Of these only the fire that
// the peel announced itself is checked: if nothing ran since, it is missed.
//
// Of an entry whose fires this master cannot compute, such as one in a zone that it does not know, only what the peel counts is known.
//
// Known gap: if an entry lost one fire and ran once too often in the same hour, the counts are as expected, and neither is found.
package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// MaxHours is how many hours of a peel are judged: those that a report has.
const MaxHours = wire.MaxScheduleHours

// An Hour has the verdicts on the fires whose nominal time is in one hour of UTC.
type Hour = join.Hour

// Facts are what is known of one entry on one peel when a report arrives.
type Facts struct {
	Entry *wire.EntryReport // nil: the report does not have it
	Plan  *Plan             // by the document; nil: the document does not have it, or its fires cannot be computed
	// Uncomputed says that the document has the entry, and this master cannot compute its fires.
	Uncomputed bool
	Time       time.Time // when the report was made
	From       int64     // the first hour of which the report has all fires; 0: see [wire.ScheduleState]
	// Steady is since when the peel has reported without a break, and with a right clock. Fires before it that are not
	// accounted for are unknown.
	Steady time.Time
	// Document is since when the peel should have the document. Fires before it are not expected by Plan.
	Document time.Time
	// Agrees reports whether the peel has the document, and its zone.
	Agrees bool
	// Announced is the next fire by the report before; zero: it announced none, or a run has started or ended since.
	Announced time.Time
	Before    []Hour // the verdicts until now
}

// isActive reports whether the entry must fire by its plan.
func (f *Facts) isActive() bool {
	return f.Plan != nil && (f.Entry == nil || f.Entry.State == Active && f.Entry.Breaker == "")
}

// Active is the state of an entry that fires.
const Active = "active"

// since returns from when on the peel accounts for the fires of the plan.
func (f *Facts) since() time.Time {
	since := f.Document
	if f.Entry != nil && f.Agrees {
		since = f.Entry.Since
	}
	return since
}

// Judge returns the verdicts on the fires of one entry, by hour, oldest first. They replace those in Facts.Before, but for hours that
// the report does not have any more, and for those of which it has fewer fires than the peel has reported before.
func Judge(f Facts) []Hour {
	oldest := HourOf(f.Time) - MaxHours + 1
	first := max(cmp.Or(f.From, HourOf(f.Time)-repeated+1), oldest)
	tally := f.tally(first)
	var list []Hour
	before := f.Before
	for ; len(before) > 0 && before[0].Hour < first; before = before[1:] {
		if before[0].Hour >= oldest {
			list = append(list, before[0])
		}
	}
	lacks := f.lacks(first, tally)
	for hour := first; hour <= HourOf(f.Time)+1; hour++ {
		t := find(tally, hour)
		h := f.hour(hour, t, lacks[hour])
		for len(before) > 0 && before[0].Hour < hour {
			before = before[1:]
		}
		if len(before) > 0 && before[0].Hour == hour && reported(&before[0]) > t.Ran+t.Skipped+t.Missed+t.Manual {
			h = before[0]
		}
		if h.Counts != (verdict.Counts{}) {
			list = append(list, h)
		}
	}
	return list
}

// reported returns how many fires of an hour the peel has certainly reported.
func reported(h *Hour) uint64 { return h.Ran + h.Skipped + h.Unexpected }

// repeated is how many hours a report has that does not say how many.
const repeated = 12

// tally returns the hours of the report that can be right: none is before first, or begins more than [Margin] after the report.
func (f *Facts) tally(first int64) []wire.ScheduleHour {
	if f.Entry == nil {
		return nil
	}
	from, _ := search(f.Entry.Hours, first)
	until, _ := search(f.Entry.Hours, HourOf(f.Time.Add(Margin))+1)
	return f.Entry.Hours[from:until]
}

func search(tally []wire.ScheduleHour, hour int64) (int, bool) {
	return slices.BinarySearchFunc(tally, hour, func(h wire.ScheduleHour, hour int64) int { return cmp.Compare(h.Hour, hour) })
}

// find returns the tally of an hour, zero if there is none.
func find(tally []wire.ScheduleHour, hour int64) (t wire.ScheduleHour) {
	if i, found := search(tally, hour); found {
		t = tally[i]
	}
	return t
}

// A lack is how many fires of one hour the peel does not account for.
type lack struct{ missed, unknown uint64 }

// lacks returns the hours with fires that the peel does not account for.
func (f *Facts) lacks(first int64, tally []wire.ScheduleHour) map[int64]lack {
	if !f.isActive() {
		return nil
	}
	if !f.Plan.Exact() {
		return f.announcedLack(tally)
	}
	until, since := f.Time.Add(-f.Plan.Slack()), f.since()
	var all map[int64]lack
	for hour := HourOf(until); hour >= first; hour-- {
		t := find(tally, hour)
		required := uint64(f.Plan.Required(hour, since, until))
		missing := required - min(required, accounted(t))
		if missing == 0 {
			continue
		}
		missed, unknown := f.lackBefore(hour, t)
		if f.Agrees {
			missed = max(missed, uint64(f.Plan.Required(hour, later(since, f.Steady), until)))
		}
		missed = min(missed, missing-min(missing, unknown)) // what is unknown stays so until the peel accounts for it
		if all == nil {
			all = map[int64]lack{}
		}
		all[hour] = lack{missed, missing - missed}
	}
	return all
}

// lackBefore returns how many fires of an hour were found to be missed that the peel does not count as missed, and how many were
// unknown.
func (f *Facts) lackBefore(hour int64, t wire.ScheduleHour) (missed, unknown uint64) {
	for _, h := range f.Before {
		if h.Hour == hour {
			return h.Missed - min(h.Missed, t.Missed), h.Unknown
		}
	}
	return 0, 0
}

// announcedLack returns the lack of an entry whose fires cannot be computed: the one fire that the report before announced, if
// nothing has happened since.
func (f *Facts) announcedLack(tally []wire.ScheduleHour) map[int64]lack {
	at := f.Announced
	if f.Entry == nil || at.IsZero() || f.Entry.Running > 0 || at.Add(f.Plan.Slack()).After(f.Time) || at.Before(f.Entry.Since) ||
		!f.Entry.Nominal.Before(at) || f.Plan.entry.Windows.Outside == schedule.OutsideDefer {
		return nil
	}
	hour := HourOf(at)
	for _, t := range tally {
		if t.Hour >= hour && accounted(t) > 0 {
			return nil
		}
	}
	if f.Agrees && !at.Before(f.Steady) {
		return map[int64]lack{hour: {missed: 1}}
	}
	return map[int64]lack{hour: {unknown: 1}}
}

// accounted returns how many fires of an hour the peel knows of, also those that are in flight or wait.
func accounted(h wire.ScheduleHour) uint64 { return h.Ran + h.Skipped + h.Missed + h.Pending }

// hour returns the verdicts of one hour.
func (f *Facts) hour(hour int64, t wire.ScheduleHour, l lack) Hour {
	h := Hour{Hour: hour, Counts: verdict.Counts{
		Ran: t.Ran, Skipped: t.Skipped, Missed: t.Missed + l.missed, Unknown: l.unknown, Unexpected: t.Manual,
	}}
	excess := min(f.excess(hour, t.FireCounts), h.Ran)
	h.Ran -= excess
	h.Unexpected += excess
	h.Failed, h.Late, h.Overran = min(t.Failed, h.Ran), min(t.Late, h.Ran), min(t.Overran, h.Ran)
	h.Expected = h.Ran + h.Skipped + h.Missed + h.Unknown
	return h
}

// excess returns how many runs of an hour the document does not ask for.
func (f *Facts) excess(hour int64, t wire.FireCounts) uint64 {
	start, _ := bounds(hour)
	switch {
	case f.Entry == nil || f.Entry.Local || f.Uncomputed:
		return 0
	case f.Plan == nil:
		if f.Document.IsZero() || start.Before(f.Document) || start.Before(f.Entry.Since) {
			return 0
		}
		return t.Ran
	case !f.Plan.Exact() || f.Plan.entry.RunOnStart || f.Plan.entry.Needs.Entry != "" || start.Before(f.since()):
		return 0
	}
	settled := t.Ran + t.Skipped + t.Missed
	return settled - min(settled, uint64(f.Plan.Most(hour)))
}

// An Absence is what is known of an entry of a peel that does not report.
type Absence struct {
	Since    time.Time // when the entry began to fire by its plan
	Reported time.Time // when the last report was made
	Judged   time.Time // up to when Away has judged before; zero: it has not
	Now      time.Time
}

// Away returns the verdicts on the fires of one entry up to now, of which the peel has not reported the newest: what it has not
// accounted for is unknown. before has the verdicts until then. Verdicts of an hour do not depend on how often Away was called.
func Away(p *Plan, before []Hour, a Absence) []Hour {
	oldest := HourOf(a.Now) - MaxHours + 1
	from, until := max(HourOf(later(a.Reported, a.Judged).Add(-p.Slack())), oldest), a.Now.Add(-p.Slack())
	list := slices.DeleteFunc(slices.Clone(before), func(h Hour) bool { return h.Hour < oldest })
	since := p.startAway(a, StartOf(from).Add(-1))
	if !until.After(since) {
		return list
	}
	for _, fires := range p.Fires(since, until) {
		if fires.Hour < from {
			continue
		}
		i, found := slices.BinarySearchFunc(list, fires.Hour, func(h Hour, hour int64) int { return cmp.Compare(h.Hour, hour) })
		if !found {
			list = slices.Insert(list, i, Hour{Hour: fires.Hour})
		}
		h := &list[i]
		known := h.Ran + h.Skipped + h.Missed
		unknown := fires.Expected
		if p.Exact() {
			unknown -= min(unknown, known) // else all these fires are after the last report
		}
		h.Unknown = max(h.Unknown, unknown)
		h.Expected = known + h.Unknown
	}
	return list
}

// startAway returns after which instant the fires of a peel that is away are counted. Those of an interval are counted from the last
// report, in whole intervals.
func (p *Plan) startAway(a Absence, start time.Time) time.Time {
	if p.Exact() {
		return later(a.Since, start)
	}
	since := later(a.Since, a.Reported)
	if step := p.entry.Clock.Interval.Duration; step > 0 && start.After(since) {
		since = since.Add(start.Sub(since) / step * step)
	}
	return since
}

// Lost returns the nominal time of the first fire that the peel does not account for and after which the entry has not fired. all
// are the verdicts of [Judge].
func (f *Facts) Lost(all []Hour) (time.Time, bool) {
	if f.Entry == nil || f.Plan == nil || !f.Agrees || len(all) == 0 {
		return time.Time{}, false
	}
	last := all[len(all)-1]
	if last.Missed <= find(f.Entry.Hours, last.Hour).Missed {
		return time.Time{}, false
	}
	if !f.Plan.Exact() {
		return f.Announced, f.Entry.Nominal.Before(f.Announced)
	}
	return f.Plan.First(later(f.Entry.Nominal, later(f.Entry.Since, f.Steady)), f.Time.Add(-f.Plan.Slack()))
}

// Disagreement returns why the fire that the peel announces is not one of its plan; empty if it is one. The zones of peel and
// master, or their rules for daylight saving, differ then. A fire of an entry that needs another one may follow the end of a run.
func (f *Facts) Disagreement() string {
	if f.Entry == nil || f.Plan == nil || !f.Plan.Exact() || f.Plan.entry.Needs.Entry != "" || !f.isActive() || f.Entry.Next.IsZero() {
		return ""
	}
	if at, is := f.Plan.timing.Next(f.Entry.Next.Add(-1)); is && at.Equal(f.Entry.Next) {
		return ""
	}
	text := "zone: the peel announces its next fire at " + f.Entry.Next.UTC().Format(time.RFC3339) + ", by its settings "
	if next, is := f.Plan.First(f.Time, f.Time.AddDate(1, 0, 0)); is {
		return text + "it is at " + next.UTC().Format(time.RFC3339)
	}
	return text + "there is none within a year"
}
