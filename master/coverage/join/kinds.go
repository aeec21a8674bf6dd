package join

import (
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// intervals checks the times between the fires of an entry whose next fire follows a run.
func (j *joiner) intervals() {
	interval := j.Plan.interval()
	if interval == 0 || interval > 24*hourSeconds {
		return // two fires are too far apart for one list
	}
	m := merger{joiner: j, from: j.since}
	if j.timer.mixed {
		m.order(&j.timer)
	}
	check := m.fromEnd
	if j.kind == fromStart {
		check = m.fromStart
	}
	last, isFire := max(j.begins-1, m.from), false
	for _, l := range j.timer.list {
		if end := l.first + hourSeconds - 1; l.run.Hour {
			last, isFire = max(last, min(end, j.latest)), true // which moments of the hour is not known
			continue
		}
		l.times = l.take(l.before(j.latest + 1)) // a peel may list any times
		l.times = l.drop(l.before(last + 1))
		if l.n == 0 {
			continue
		}
		check(last, l.first, isFire, true)
		for at := l.first; l.step > interval+1 && at < l.last(); at += l.step {
			check(at, at+l.step, true, true)
		}
		last, isFire = l.last(), true
	}
	check(last, j.until, isFire, false)
}

// order sorts fires one by one, and cuts those of no interest.
func (m *merger) order(f *fires) {
	hours := m.unmix(f)
	f.list = append(hours, f.list...)
}

// fromEnd checks that two successive fires, or the last one and the present, are as close as an interval that follows
// the end of runs allows: while a run is in flight, its entry goes on to have nominal times.
func (m *merger) fromEnd(from, to int64, _, _ bool) {
	longest := 2*m.Plan.interval() + m.Plan.slack()
	if to-from <= longest || m.doubt.meets(from, to) {
		return
	}
	if v, why, _ := m.lack(from + longest); v == Missed {
		m.say(one(from+longest), v, why, nil)
	}
}

// fromStart checks that two successive fires, or the last one and the present, are one interval apart.
func (m *merger) fromStart(from, to int64, fromFire, toFire bool) {
	step := m.Plan.interval()
	switch {
	case toFire && !fromFire: // the times lead to the first fire
		if n := (to - from - 2) / step; n > 0 {
			m.lacks(times{to - n*step, step, n})
		}
	case toFire:
		if n := (to-from+1)/step - 1; n > 0 {
			m.lacks(times{from + step, step, n})
		}
	default:
		if n := (to - from) / step; n > 0 {
			m.lacks(times{from + step, step, n})
		}
	}
}

// single checks that an entry that fires once has fired.
func (j *joiner) single() {
	for i := range j.Fires {
		if j.Fires[i].Class == ledger.Timer {
			return
		}
	}
	due := j.begins - 1 + int64(j.Plan.entry.Clock.After/time.Second)
	if m := (merger{joiner: j, from: j.since}); j.begins > j.oldest && due+j.Plan.slack() <= j.until {
		m.lacks(one(due))
	}
}

// followed joins the fires that follow the runs of the needed entry with these runs.
func (j *joiner) followed() {
	m := merger{joiner: j, from: max(j.since, j.completeSince(j.Needed))}
	j.begins = max(j.begins, m.from)
	var runs fires
	for i := range j.Needed.Fires {
		run := &j.Needed.Fires[i]
		era := j.clocks.find(run.Era)
		if j.isNeeded(run.Outcome) && !j.clocks[era].isWrong {
			runs.add(listed{timesOf(run), run, era}, false)
		}
	}
	if runs.mixed {
		(&merger{joiner: &joiner{Report: j.Report, Entry: j.Entry, emit: func(Span) {}}}).unmix(&runs)
	}
	for _, l := range runs.list {
		l.times = l.drop(l.before(j.begins))
		if l.times = l.take(l.before(j.latest + 1)); l.n > 0 {
			m.plan.rest = append(m.plan.rest, l.times)
		}
	}
	m.sort(&j.needs)
	m.until(j.latest + 1)
}

// isNeeded reports whether the end of a run fires the entry that needs it. An interrupted run has no end.
func (j *joiner) isNeeded(o ledger.Outcome) bool {
	on := j.Plan.entry.Needs.On

	return o == ledger.Ran && on != schedule.NeedsFailure || o == ledger.Failed && on != schedule.NeedsSuccess
}

// starts checks that each process has run an entry that runs at its start. The fires themselves count alone.
func (j *joiner) starts() {
	fired := make([]bool, len(j.clocks))
	for i := range j.Fires {
		if j.Fires[i].Class == ledger.Start {
			fired[j.clocks.process(j.clocks.find(j.Fires[i].Era))] = true
		}
	}
	m := merger{joiner: j, from: j.since}
	for i := range j.clocks {
		e := &j.clocks[i]
		at := e.real(e.first)
		if !e.process || fired[i] || at <= j.begins || at > j.until {
			continue
		}
		if i+1 < len(j.clocks) && j.clocks[i+1].real(j.clocks[i+1].first)-at <= int64(Margin/time.Second) {
			continue // it may not have come to its schedule
		}
		m.lacks(one(at))
	}
}
