package join

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// An Hour has the verdicts on the fires of one entry whose nominal time is in one hour of UTC.
type Hour struct {
	Hour int64 // since the Unix epoch
	verdict.Counts
	Pending uint64   // fires that wait or run; none of Counts has them
	Reasons []Reason // sorted; nil: there are none
}

// A Reason is a number of fires of one verdict with one reason.
type Reason struct {
	Verdict Verdict
	Why     string
	N       uint64
}

// compare orders reasons.
func (r Reason) compare(o Reason) int {
	return cmp.Or(cmp.Compare(r.Verdict, o.Verdict), cmp.Compare(r.Why, o.Why))
}

// Equal reports whether two hours have the same fires, whichever hours they are.
func (h *Hour) Equal(o *Hour) bool {
	return h.Counts == o.Counts && h.Pending == o.Pending && slices.Equal(h.Reasons, o.Reasons)
}

// Known returns how many planned fires of the hour are accounted for.
func (h *Hour) Known() uint64 { return h.Ran + h.Skipped + h.Missed }

// Skips returns how many fires were skipped for a reason.
func (h *Hour) Skips(why string) uint64 {
	if i, found := slices.BinarySearchFunc(h.Reasons, Reason{Verdict: Skipped, Why: why}, Reason.compare); found {
		return h.Reasons[i].N
	}
	return 0
}

// add adds n fires of a span.
func (h *Hour) add(s *Span, n uint64) {
	switch s.Verdict {
	case Pending:
		h.Pending += n
		return
	case Ran:
		h.Ran += n
		if s.Fire.Outcome != ledger.Ran {
			h.Failed += n
		}
		if s.Fire.Late {
			h.Late += n
		}
		if s.Fire.Overran {
			h.Overran += n
		}
	case Skipped:
		h.Skipped += n
	case Missed:
		h.Missed += n
	case Unknown:
		h.Unknown += n
	case Unexpected:
		h.Unexpected += n
		h.reason(Reason{s.Verdict, s.Why, n})
		return
	}
	h.Expected += n
	if s.Verdict != Ran {
		h.reason(Reason{s.Verdict, s.Why, n})
	}
}

// maxReasons is the number of reasons of an hour from which on new ones count as other.
const maxReasons = 16

// reason adds a reason.
func (h *Hour) reason(r Reason) {
	i, found := slices.BinarySearchFunc(h.Reasons, r, Reason.compare)
	if !found && len(h.Reasons) >= maxReasons {
		r.Why = string(ledger.OtherReason)
		i, found = slices.BinarySearchFunc(h.Reasons, r, Reason.compare)
	}
	if !found {
		h.Reasons = slices.Insert(h.Reasons, i, r)
		return
	}
	h.Reasons[i].N += r.N
}

// hourLists are reused by [Report.Hours]: most entries have fires in few of the hours.
var hourLists = sync.Pool{New: func() any { return new([Kept + 2]Hour) }}

// Hours returns the verdicts on the fires of an entry by hour, the oldest first. Hours without fires are left out. It
// calls also, unless it is nil, with the fires.
func (r *Report) Hours(e *Entry, also func(Span)) []Hour {
	first := r.Oldest()
	list := hourLists.Get().(*[Kept + 2]Hour)
	defer func() {
		*list = [Kept + 2]Hour{}
		hourLists.Put(list)
	}()
	r.Join(e, func(s Span) {
		if also != nil {
			also(s)
		}
		for t := s.times; t.n > 0; {
			hour := hourOf(t.first)
			n := t.n
			if !s.Hour {
				n = t.before((hour + 1) * hourSeconds)
			}
			if i := hour - first; i >= 0 && i < int64(len(list)) {
				list[i].Hour = hour
				list[i].add(&s, uint64(n))
			}
			t = t.drop(n)
		}
	})
	n := 0
	for i := range list {
		if list[i].Expected+list[i].Unexpected+list[i].Pending > 0 {
			n++
		}
	}
	hours := make([]Hour, 0, n)
	for i := range list {
		if list[i].Expected+list[i].Unexpected+list[i].Pending > 0 {
			hours = append(hours, list[i])
		}
	}
	return hours
}

// HourOf returns the hour of UTC of an instant, counted since the Unix epoch.
func HourOf(at time.Time) int64 { return hourOf(at.Unix()) }

// StartOf returns the first instant of an hour of UTC.
func StartOf(hour int64) time.Time { return time.Unix(hour*hourSeconds, 0).UTC() }

func hourOf(at int64) int64 {
	if at < 0 {
		at -= hourSeconds - 1
	}
	return at / hourSeconds
}

// Marked returns the hour in which an entry began or rested last. What was said of earlier hours was compared with a
// plan that the entry has no more.
func (r *Report) Marked(e *Entry) int64 {
	n := len(e.Marks)
	if n == 0 {
		return r.Oldest()
	}
	m := &e.Marks[n-1]

	return hourOf(r.clocks[r.clocks.find(m.Era)].real(m.At.Unix()))
}

// Bounds are the hours that a report replaces.
type Bounds struct {
	Oldest int64 // earlier ones are dropped
	Marked int64 // of earlier ones a report has no plan, see [Report.Marked]
}

// Replace returns the verdicts after a report: for each hour those of the report, unless earlier ones account for more
// fires, or for as many by the plan of that time.
func Replace(before, report []Hour, of Bounds) (list []Hour) {
	for len(before) > 0 || len(report) > 0 {
		var was, is Hour
		if len(before) > 0 && (len(report) == 0 || before[0].Hour <= report[0].Hour) {
			was, before = before[0], before[1:]
		}
		if len(report) > 0 && (was.Hour == 0 || was.Hour == report[0].Hour) {
			is, report = report[0], report[1:]
		}

		switch {
		case max(was.Hour, is.Hour) < of.Oldest:
		case was.Known() > is.Known()+is.Pending, is.Hour == 0 && was.Unexpected > 0:
			list = append(list, was)
		case was.Known() > 0 && was.Hour < of.Marked && was.Pending == 0 && was.Unexpected >= is.Unexpected &&
			was.Known() == is.Known()+is.Pending:
			list = append(list, was)
		case is.Hour != 0:
			list = append(list, is)
		}
	}
	return list
}

// An Absence is what is known of an entry of a peel that does not report.
type Absence struct {
	Next   int64 // Unix time of the next fire, as the peel has announced it; 0: it has not
	Judged int64 // Unix time up to which the fires are judged
	Now    int64 // Unix time
}

// Away returns the verdicts after a time in which a peel did not report: fires that were pending, and those that were
// planned in it, are unknown.
func (p *Plan) Away(before []Hour, a Absence) []Hour {
	list := make([]Hour, 0, len(before)+1)
	for _, h := range before {
		if h.Hour <= a.Now/hourSeconds-Kept {
			continue
		}
		if h.Pending > 0 {
			h.Reasons = slices.Clone(h.Reasons)
			h.add(&Span{Verdict: Unknown, Why: NoReport}, h.Pending)
			h.Pending = 0
		}
		list = append(list, h)
	}
	until := a.Now - int64(Margin.Seconds())
	from := max(a.Judged, (a.Now/hourSeconds-Kept)*hourSeconds)
	due := p.awaited(from, until, a.Next)
	for {
		t, ok := due.next()
		if !ok || t.first > until {
			return list
		}
		hour := hourOf(t.first)
		t = t.take(t.before(min((hour+1)*hourSeconds, until+1)))
		s := Span{times: t, Verdict: Unknown, Why: NoReport}
		if p.entry.Windows.Outside != schedule.OutsideDefer && !p.isOpen() {
			s.times = t.take(1)
			if rule := p.closed(t.first); rule != "" {
				s.Verdict, s.Why = Skipped, rule
			}
		}

		i, found := slices.BinarySearchFunc(list, hour, func(h Hour, hour int64) int {
			return cmp.Compare(h.Hour, hour)
		})
		if !found {
			list = slices.Insert(list, i, Hour{Hour: hour})
		}
		list[i].Reasons = slices.Clone(list[i].Reasons)
		list[i].add(&s, uint64(s.n))
		due.skip(s.n)
	}
}

// awaited returns the times in (from, until] at which an entry should fire and that no report has, and later
// ones. Those of an interval that follows runs are counted from the time that the peel has announced, one each
// interval.
func (p *Plan) awaited(from, until, next int64) (c cursor[times]) {
	switch p.kind() {
	case exact:
		return p.between(from, until)
	case fromEnd, fromStart:
		if step := p.interval(); step > 0 && next > 0 && next <= until {
			c.rest = []times{{next, step, (until-next)/step + 1}}
			c.skipTo(from + 1)
		}
	}
	return c
}
