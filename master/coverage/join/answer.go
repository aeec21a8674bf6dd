package join

import (
	"cmp"
	"maps"
	"slices"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

const hourSeconds = 3600

// say emits times with a verdict.
func (j *joiner) say(t times, v Verdict, why string, run *ledger.Run) {
	if t.n > 0 {
		j.emit(Span{times: t, Verdict: v, Why: why, Fire: run, Hour: run != nil && run.Hour})
	}
}

// alone emits fires that answer no planned time. Of those by hand only runs count.
func (j *joiner) alone(l listed) {
	l.times = l.drop(l.before(j.oldest))
	l.times = l.take(l.before(j.latest + 1))
	wrong, outcome := j.clocks[l.era].isWrong, l.run.Outcome
	if outcome == ledger.Missed {
		// A process that starts counts all times since its last record, also those before the entry began.
		l.times = l.drop(l.before(j.timedSince(j.Entry, l.era)))
	}
	switch {
	case l.run.Class == ledger.Hand && l.hasRun():
		j.say(l.times, Unexpected, ByHand, l.run)
	case l.run.Class == ledger.Hand:
	case wrong && (outcome == ledger.Missed || outcome == ledger.Skipped && j.Plan == nil):
		// A wrong clock does not show which time was missed or skipped.
	default:
		j.outcome(l, func(times) {})
	}
}

// outcome emits what the peel says of fires. It calls lacks with those that are missed by a peel that cannot know that.
func (j *joiner) outcome(l listed, lacks func(times)) {
	v, why := verdictOf(l.run)
	if v == Missed {
		j.missed(l, lacks)
		return
	}
	j.say(l.times, v, why, l.run)
}

// verdictOf returns what the peel says of fires, and why.
func verdictOf(run *ledger.Run) (v Verdict, why string) {
	switch run.Outcome {
	case ledger.Ran, ledger.Failed, ledger.Interrupted:
		v = Ran
	case ledger.Skipped:
		v = Skipped
	case ledger.Pending:
		v = Pending
	case ledger.Missed:
		v = Missed
	default:
		return Unknown, string(ledger.OtherReason)
	}
	return v, string(run.Why)
}

// Told returns the verdicts on fires that a peel has told outside of its reports. They are compared with no plan, and
// their clocks are not known.
func Told(runs []ledger.Run) (spans []Span) {
	for i := range runs {
		l := listed{times: timesOf(&runs[i]), run: &runs[i]}
		v, why := verdictOf(l.run)
		if l.run.Class == ledger.Hand {
			if !l.hasRun() {
				continue
			}
			v, why = Unexpected, ByHand
		}
		spans = append(spans, Span{times: l.times, Verdict: v, Why: why, Fire: l.run, Hour: l.run.Hour})
	}
	return spans
}

// missed emits fires that the peel gives as missed.
func (j *joiner) missed(l listed, lacks func(times)) {
	if l.run.Hour {
		if j.isMissedIn(l) {
			j.say(l.times, Missed, string(l.run.Why), l.run)
		}
		return
	}
	for l.n > 0 {
		isKnown, last := j.clocks.isMissed(l.era, l.first)
		n := l.before(last + 1)
		if isKnown {
			j.say(l.take(n), Missed, string(l.run.Why), l.run)
		} else {
			lacks(l.take(n))
		}
		l.times = l.drop(n)
	}
}

// isMissedIn reports whether the peel can know that fires of an hour were missed.
func (j *joiner) isMissedIn(l listed) bool {
	atFirst, _ := j.clocks.isMissed(l.era, l.first)
	atLast, _ := j.clocks.isMissed(l.era, l.first+hourSeconds-1)

	return atFirst || atLast
}

// planned joins the fires of the timer with the plan.
func (j *joiner) planned() {
	m := merger{joiner: j, plan: j.Plan.between(j.begins-1, j.latest), from: j.since}
	hours := m.sort(&j.timer)
	for len(hours) > 0 {
		n := 1
		for n < len(hours) && hours[n].first == hours[0].first {
			n++
		}
		m.until(hours[0].first)
		m.number(hours[:n])
		hours = hours[n:]
	}
	m.until(j.latest + 1)
}

// A merger goes through planned times and listed fires, oldest first.
type merger struct {
	*joiner
	plan  cursor[times]
	fires cursor[listed]
	from  int64 // the list is complete since
}

// sort prepares fires to be merged. Fires before the entry begins are emitted, and of a time that comes twice the worse
// one. It returns the hours whose fires the list only counts.
func (m *merger) sort(f *fires) (hours []listed) {
	if f.mixed || slices.ContainsFunc(f.list, func(l listed) bool { return l.run.Hour }) {
		hours = m.unmix(f)
	}
	m.fires.rest = f.list
	for {
		head, ok := m.fires.next()
		n := head.times.before(m.begins)
		if !ok || n == 0 {
			break
		}
		before := head.with(head.take(n))
		if e := &m.clocks[head.era]; e.isWrong {
			before.first = e.real(before.first)
			before.times = before.take(before.before(m.begins))
		}
		m.alone(before)
		m.fires.skip(n)
	}
	return slices.DeleteFunc(hours, func(l listed) bool {
		if isBefore := l.first+hourSeconds <= m.begins; isBefore {
			m.alone(l)
		}
		return l.first+hourSeconds <= m.begins || l.first > m.latest
	})
}

// unmix sorts fires one by one, and takes out the hours whose fires the list only counts.
func (m *merger) unmix(f *fires) (hours []listed) {
	var list []listed
	for _, l := range f.list {
		if l.run.Hour {
			hours = append(hours, l)
			continue
		}
		l.times = l.drop(l.before(m.oldest))
		l.times = l.take(l.before(m.latest + 1))
		for ; l.n > 0 && m.budget > 0; l.times = l.drop(1) {
			m.budget--
			list = append(list, l.with(l.take(1)))
		}
	}
	sorting.Stable(list, func(a, b listed) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(m.rank(&a), m.rank(&b)))
	})
	sorting.Stable(hours, func(a, b listed) int { return cmp.Compare(a.first, b.first) })
	f.list, f.mixed = f.list[:0], false
	for _, l := range list {
		if n := len(f.list); n > 0 && f.list[n-1].first == l.first {
			if l.hasRun() {
				m.say(l.times, Unexpected, Repeated, l.run)
			}
			continue
		}
		f.list = append(f.list, l)
	}
	return hours
}

// rank orders fires of one time, the best answer first: runs by a right clock, and then those by a wrong one.
func (m *merger) rank(l *listed) int {
	order := []ledger.Outcome{
		ledger.Ran, ledger.Failed, ledger.Interrupted, ledger.Pending, ledger.Skipped, ledger.Missed,
	}
	rank := slices.Index(order, l.run.Outcome)
	switch {
	case rank < 0:
		return 2 * len(order)
	case l.hasRun() && !m.clocks[l.era].isWrong:
		return rank
	}
	return rank + len(order)
}

// until joins all times before the given one.
func (m *merger) until(end int64) {
	for {
		fire, fires := m.fires.next()
		due, plans := m.plan.next()
		fires, plans = fires && fire.first < end, plans && due.first < end
		switch {
		case !fires && !plans:
			return
		case !plans || fires && fire.first < due.first:
			limit := end
			if plans {
				limit = due.first
			}
			n := fire.times.before(limit)
			if fire.hasRun() {
				m.say(fire.take(n), Unexpected, NotPlanned, fire.run)
			}
			m.fires.skip(n)
		case !fires || due.first < fire.first:
			limit := end
			if fires {
				limit = fire.first
			}
			n := due.before(limit)
			m.lacks(due.take(n))
			m.plan.skip(n)
		default:
			n := int64(1)
			if fire.n > 1 && due.n > 1 && fire.step == due.step {
				n = min(fire.n, due.n, due.before(end))
			}
			m.outcome(fire.with(fire.take(n)), m.lacks)
			m.fires.skip(n)
			m.plan.skip(n)
		}
	}
}

// lacks emits planned times that nothing answers.
func (m *merger) lacks(t times) {
	m.explain(t, func(t times, v Verdict, why string) { m.say(t, v, why, nil) })
}

// explain calls say with planned times that nothing answers, in pieces that have the same verdict.
func (m *merger) explain(t times, say func(times, Verdict, string)) {
	t = t.take(t.before(m.Report.until + 1))
	for t.n > 0 {
		v, why, last := m.lack(t.first)
		n := t.n
		if t.last() > last {
			n = t.before(last + 1)
		}
		say(t.take(n), v, why)
		t = t.drop(n)
	}
}

// lack returns the verdict on a planned time that no fire answers, and why. The answer holds for all times up to last.
func (m *merger) lack(at int64) (v Verdict, why string, last int64) {
	in, last := m.doubt.split(at)
	if !m.Plan.isOpen() {
		last = at
	}
	switch rule := m.Plan.closed(at); {
	case rule != "":
		return Skipped, rule, last
	case at < m.from:
		return Unknown, CutList, min(last, m.from-1)
	case in:
		isDown, end := m.clocks.isDown(at)
		if isDown {
			return Missed, string(ledger.Down), min(last, end)
		}
		return Unknown, WrongClock, min(last, end)
	}
	return Missed, Unaccounted, last
}

// number compares the fires of an hour with the number of planned times. The list has only the numbers of those in
// hours. If there are too few, it is not known which ones lack: those that may be unknown or skipped are taken first.
func (m *merger) number(hours []listed) {
	first := hours[0].first
	end := first + hourSeconds
	lacks := map[Span]int64{} // times by verdict and reason
	planned := int64(0)
	for {
		due, ok := m.plan.next()
		n := due.before(end)
		if !ok || n == 0 {
			break
		}
		planned += n
		m.explain(due.take(n), func(t times, v Verdict, why string) { lacks[Span{Verdict: v, Why: why}] += t.n })
		m.plan.skip(n)
	}
	for {
		fire, ok := m.fires.next()
		n := fire.times.before(end)
		if !ok || n == 0 {
			break
		}
		planned -= n
		m.outcome(fire.with(fire.take(n)), func(t times) { planned += t.n })
		m.fires.skip(n)
	}
	for _, l := range hours {
		planned -= m.numbered(l, max(planned, 0), m.begins <= first)
	}
	spans := sorting.Values(maps.Keys(lacks), func(a, b Span) int {
		harm := func(s Span) int { return slices.Index(lackOrder, s.Verdict) }
		return cmp.Or(cmp.Compare(harm(a), harm(b)), cmp.Compare(a.Why, b.Why))
	})
	for _, s := range spans {
		s.times, s.Hour = times{first: first, n: min(max(planned, 0), lacks[s])}, true
		planned -= s.n
		if s.n > 0 {
			m.emit(s)
		}
	}
}

// lackOrder has the verdicts on fires that lack, the least harmful one first.
var lackOrder = []Verdict{Unknown, Skipped, Missed}

// numbered emits the fires of an hour that the list only counts, and returns their number. Of runs, only
// as many as are planned are expected, if the entry was active in the whole hour.
func (m *merger) numbered(l listed, planned int64, isWhole bool) int64 {
	if n := l.n; l.hasRun() && isWhole && n > planned {
		m.say(l.with(l.drop(planned)).times, Unexpected, NotPlanned, l.run)
		l.times = l.take(planned)
		m.outcome(l, func(times) {})
		return n
	}
	if l.run.Outcome == ledger.Missed && !m.isMissedIn(l) {
		return 0
	}
	m.outcome(l, func(times) {})

	return l.n
}
