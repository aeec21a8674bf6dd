// Package join says what became of each fire of an entry on one peel. [New] takes what a report says about the clocks
// of the peel, and [Report.Join] compares the list of an entry's fires with the times at which the entry was due, by
// its [Plan].
//
// # Which clock
//
// The clock of a peel may have been set, so a list has eras. An era is right if its clock was at most two minutes
// wrong: the newest by the arrival of the report, an earlier one by the steps of the clock since. A fire of a right era
// answers the planned time that is its nominal time. Of a wrong era only a run answers one, if no right era has the
// time: a fixed time does not repeat.
//
// # Verdicts
//
// What is listed is believed. A planned time that nothing answers is skipped if the windows were closed. It is unknown
// if the list begins later, or if a clock was wrong or was set near it. Else it is missed: the peel does not account
// for it.
//
// Each planned time of a right era has one verdict, whatever a report says. The functions are pure, and their time is
// bounded by the size of the report.
//
// # Known gaps
//
// A change of an entry's life (not_before, until) counts for times before it too, until the timing changes. An interval
// in months that follows runs is not checked.
package join

import (
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
)

// A Verdict says what became of a fire.
type Verdict uint8

// The verdicts.
const (
	Pending    Verdict = iota // it waits, or runs
	Ran                       // it ran, well or not
	Skipped                   // a rule or an operator kept it from running
	Missed                    // it did not start in time
	Unknown                   // nobody can know
	Unexpected                // it ran, and was not due
)

// String returns the word for the verdict.
func (v Verdict) String() string {
	return [...]string{"pending", "ran", "skipped", "missed", "unknown", "unexpected"}[v]
}

// Reasons of a verdict that the peel does not give.
const (
	Unaccounted = "unaccounted" // missed: the peel does not account for it
	WrongClock  = "clock"       // unknown: the clock of the peel was wrong, or was set near it
	CutList     = "cut"         // unknown: the list of the peel begins later
	NoReport    = "no_report"   // unknown: the peel has not reported since
	ByHand      = "hand"        // unexpected: a person ran it
	Repeated    = "repeated"    // unexpected: the same time ran before, by another clock
	NotPlanned  = "not_planned" // unexpected: the document does not ask for it
)

// A Span is one or more fires of one verdict with equal steps.
type Span struct {
	times
	Verdict Verdict
	Why     string      // a [ledger.Reason], or one of the reasons above
	Fire    *ledger.Run // as the peel has listed it; nil: it has not
	Hour    bool        // the fires are somewhere in the hour that begins with [Span.At]
}

// Has reports whether a nominal time is one of the span.
func (s *Span) Has(at time.Time) bool { return !s.Hour && s.has(at.Unix()) }

// At returns the nominal time of the first fire of the span.
func (s *Span) At() time.Time { return time.Unix(s.first, 0).UTC() }

// Last returns the nominal time of the last fire of the span. Of fires of an hour that no peel has listed it is not
// known: the hour begins then.
func (s *Span) Last() time.Time {
	if s.Hour && s.Fire != nil {
		return s.Fire.Last()
	}
	return time.Unix(s.last(), 0).UTC()
}

// After returns the nominal time of the first fire after a time that is before the last one. Of fires of an hour it is
// the earliest that may be.
func (s *Span) After(at time.Time) time.Time {
	if s.Hour && !at.Before(s.At()) {
		return at.Add(time.Second)
	}
	return time.Unix(s.drop(s.before(at.Unix()+1)).first, 0).UTC()
}

// Count returns the number of fires of the span.
func (s *Span) Count() int { return int(s.n) }

// Kept is how long a peel keeps the fires of an entry, in hours.
const Kept = 48

// An Entry is one entry of a report.
type Entry struct {
	Plan     *Plan // nil: what is listed counts alone
	IsActive bool  // it fires by its plan
	Marks    []ledger.Mark
	From     time.Time    // its fires are complete since
	Fires    []ledger.Run // see [ledger.ParseRuns]
	// Needed is the entry of the same report whose runs it follows; nil: it follows none, or the report does not have
	// it.
	Needed *Entry
}

// A Report is what a report says about the clocks of a peel. Its methods may not be called at the same time.
type Report struct {
	clocks clocks
	oldest int64 // the first time that is judged: the beginning of the oldest hour that lists have as a whole
	until  int64 // the last time at which a fire that the list lacks is missed
	latest int64 // the last time that a fire in a list may have
	budget int   // fires that may still be taken one by one

	timer, needs fires // of the entry that is joined
}

// New returns a report that was made at a time by the peel's clock, and arrived at a time by the clock of the bus.
// measured has what earlier reports have shown, see [Measure].
func New(marks ledger.Marks, made, arrived time.Time, measured []Measured) *Report {
	c := clocksOf(marks, made, arrived, measured)
	now := c[len(c)-1].real(made.Unix())

	return &Report{
		clocks: c, oldest: (now/hourSeconds - Kept + 1) * hourSeconds, until: now - int64(Margin/time.Second),
		latest: now + tolerance, budget: 2 * ledger.MaxFires,
	}
}

// Oldest returns the first hour that is judged.
func (r *Report) Oldest() int64 { return r.oldest / hourSeconds }

// Made returns the true time at which the report was made. Its lists have the fires up to then.
func (r *Report) Made() time.Time { return time.Unix(r.until, 0).Add(Margin).UTC() }

// Join calls emit with all fires of an entry since the oldest hour, in no order.
func (r *Report) Join(e *Entry, emit func(Span)) {
	r.timer.clear()
	r.needs.clear()
	j := joiner{
		Report: r, Entry: e, emit: emit, kind: untimed,
		begins: r.timedSince(e, len(r.clocks)), since: r.completeSince(e),
	}
	switch {
	case e.Plan == nil:
	case !e.IsActive && e.Plan.kind() == exact:
		j.kind, j.begins = exact, r.latest+1 // what is listed counts alone, and each time once
	case e.IsActive:
		j.kind = e.Plan.kind()
		j.doubt = r.clocks.doubtful(e.Plan.slack(), r.latest)
		j.follows = e.Plan.entry.Needs.Entry != "" && e.Needed != nil && e.Needed.canBeFollowed() && e.canBeFollowed()
	}

	for i := range e.Fires {
		j.take(&e.Fires[i])
	}

	switch j.kind {
	case exact:
		j.planned()
	case fromEnd, fromStart:
		j.intervals()
	case once:
		j.single()
	}
	if j.follows {
		j.followed()
	}
	if e.Plan != nil && e.IsActive && e.Plan.entry.RunOnStart {
		j.starts()
	}
}

// timedSince returns the true time from which on the entry has the timing that it had when an era began. The era is its
// place in the clocks; their number stands for the present.
func (r *Report) timedSince(e *Entry, era int) int64 {
	at := r.oldest
	for i := range e.Marks {
		m := &e.Marks[i]
		if in := r.clocks.find(m.Era); m.Kind == ledger.Begins && in < era {
			at = max(r.oldest, r.clocks[in].real(m.At.Unix())+1)
		}
	}
	return at
}

// completeSince returns the true time since which the list of an entry is complete. If a clock that was ahead has made
// it a time to come, it is the moment at which the clock was set back.
func (r *Report) completeSince(e *Entry) int64 {
	from := e.From.Unix()
	if from <= r.latest {
		return from
	}
	newest := len(r.clocks) - 1
	if at := r.clocks[newest].real(from); at <= r.latest {
		return at
	}
	for i := newest; i > 0; i-- {
		if c := &r.clocks[i]; c.old >= from {
			return c.real(c.first)
		}
	}
	return from
}

// A joiner joins one entry.
type joiner struct {
	*Report
	*Entry
	emit    func(Span)
	kind    kind
	follows bool    // each run of the needed entry is a planned time
	begins  int64   // the first time that is planned
	since   int64   // the list is complete since
	doubt   periods // see [clocks.doubtful]
}

// take puts fires where they are joined. Those that can answer no planned time are emitted.
func (j *joiner) take(run *ledger.Run) {
	l := listed{timesOf(run), run, j.clocks.find(run.Era)}
	e := &j.clocks[l.era]
	switch {
	case j.kind == exact && run.Class == ledger.Timer && e.isWrong && (!l.hasRun() || j.IsActive && run.Hour):
		return // a wrong clock does not show which time was skipped or missed, nor the hour of a number
	case j.kind == exact && run.Class == ledger.Timer && e.isWrong && j.IsActive:
		// Later planned times may still run by a right clock.
		l.times = l.take(l.before(j.until + 1))
		j.timer.add(l, true)
		return
	case j.kind == exact && run.Class == ledger.Timer && !e.isWrong:
		j.timer.add(l, false)
		return
	case j.follows && run.Class == ledger.Needs && !e.isWrong:
		j.needs.add(l, false)
		return
	}
	l.first = e.real(l.first)
	if j.kind == fromEnd || j.kind == fromStart {
		j.timer.add(l, e.isWrong)
	}
	j.alone(l)
}

// A listed is one or more fires of a list.
type listed struct {
	times // true ones, if they can answer no planned time
	run   *ledger.Run
	era   int // place in the clocks
}

// timesOf returns the nominal times of a run. All that an hour has the number of stand at its beginning.
func timesOf(run *ledger.Run) times {
	if run.Hour {
		return times{first: run.Nominal.Unix(), n: int64(run.Count)}
	}
	return times{run.Nominal.Unix(), int64(run.Step / time.Second), int64(run.Count)}
}

func (l listed) span() times { return l.times }

func (l listed) with(t times) listed {
	l.times = t
	return l
}

// hasRun reports whether the fires are runs that have ended.
func (l *listed) hasRun() bool {
	return l.run.Outcome == ledger.Ran || l.run.Outcome == ledger.Failed || l.run.Outcome == ledger.Interrupted
}

// canBeFollowed reports whether the list has each fire one by one.
func (e *Entry) canBeFollowed() bool {
	for i := range e.Fires {
		if e.Fires[i].Hour {
			return false
		}
	}
	return true
}

// Fires are fires of an entry, in order unless they are mixed.
type fires struct {
	list  []listed
	mixed bool
}

func (f *fires) clear() { f.list, f.mixed = f.list[:0], false }

// add adds fires; mixed says that their times are not those of the fires before.
func (f *fires) add(l listed, mixed bool) {
	if n := len(f.list); mixed || n > 0 && f.list[n-1].last() >= l.first {
		f.mixed = true
	}
	f.list = append(f.list, l)
}
