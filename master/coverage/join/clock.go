package join

import (
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
)

// Tolerance is the largest error of a clock that is taken for right.
const Tolerance = 2 * time.Minute

const tolerance = int64(Tolerance / time.Second)

// A Measured is the error of a peel's clock in an era, as a report has shown that arrived in it.
type Measured struct {
	Era   uint32
	Began int64 // Unix time of the mark with which the era begins: a peel that has lost its ledger counts eras anew
	Error int64 // by how many seconds the clock was ahead
}

// Measure returns the error of the clock of a peel when it made a report that arrived at a time, by the clock of the
// bus.
func Measure(marks ledger.Marks, made, arrived time.Time) Measured {
	m := Measured{Error: made.Unix() - arrived.Unix()}
	if n := len(marks); n > 0 {
		m.Era, m.Began = marks[n-1].Era, marks[n-1].At.Unix()
	}
	return m
}

// IsWrong reports whether the clock was wrong.
func (m Measured) IsWrong() bool { return m.Error > tolerance || m.Error < -tolerance }

// An era is a time in which the clock of a peel was not set and no process started. Its times are Unix times, as the
// clock showed them.
type era struct {
	number  uint32
	process bool  // it begins with a process
	first   int64 // the clock showed it when the era began
	old     int64 // the last moment of the era before that is known, by the clock of that era; 0: none is
	error   int64 // by how many seconds the clock was ahead
	isWrong bool
	// step is by how many seconds the clock was set when the era began, if isKnown says that this is known.
	step    int64
	isKnown bool
	isSet   bool // the clock was set when the era began
	// isMeasured: the error was measured in the era, or in an earlier one and the steps of the clock since are known.
	isMeasured bool
	// isGuessed: the host has booted since, and no report arrived. Nobody knows the error.
	isGuessed bool
	// most is the largest error that is possible. It follows from the last era whose error was measured: this one began
	// after that one ended.
	most int64
}

// beginning is the era before the first mark.
const beginning = -1 << 40

// unlimited is more than any error.
const unlimited = 1 << 40

// clocks are the eras of a peel, the oldest first.
type clocks []era

// clocksOf returns the eras of a report that arrived at a time. measured are the errors of earlier eras that are known.
// The steps of the clock give the errors of the eras before and after one that is known. If the host has booted since,
// and no such era is known, then the clock is taken for right, unless it showed a time that had not come when the next
// era began, or one that had passed before the last record of the era before. Then the clock is taken to have gone on
// while the host was down; if it went back, by no more than it must.
func clocksOf(marks ledger.Marks, made, arrived time.Time, measured []Measured) clocks {
	list := clocks{{first: beginning, most: unlimited}}
	for i := range marks {
		e := eraOf(&marks[i])
		e.error, e.isMeasured = errorIn(&e, measured)
		before := &list[i]
		if !e.isMeasured && before.isMeasured && e.isKnown {
			e.error, e.isMeasured = before.error+e.step, true
		}
		switch {
		case e.isMeasured:
			e.most = e.error
		case e.isKnown:
			e.most = before.most + e.step
		case e.old != 0:
			e.most = before.most + e.first - e.old + tolerance
		default:
			e.most = unlimited
		}
		list = append(list, e)
	}

	list[len(list)-1].error = Measure(marks, made, arrived).Error
	list.guessBack()
	list.guessForward()
	for i := range list {
		list[i].isWrong = Measured{Error: list[i].error}.IsWrong()
	}
	return list
}

// eraOf returns the era that a mark begins.
func eraOf(m *ledger.Mark) era {
	e := era{
		number: m.Era, process: m.Kind == ledger.Starts, first: m.At.Unix(),
		step: int64(m.Step.Round(time.Second) / time.Second), isKnown: m.Kind == ledger.Clock || m.Known,
		isSet: m.Kind == ledger.Clock || m.Known && m.Step.Abs() >= time.Second,
	}
	if !m.Old.IsZero() {
		e.old = m.Old.Unix()
	}
	return e
}

// guessBack sets the errors that were not measured, from the newest era to the oldest. An era begins after the last
// record of the era before it.
func (c clocks) guessBack() {
	for i := len(c) - 1; i > 0; i-- {
		e, before := &c[i], &c[i-1]
		ahead := e.old - (e.first - e.error)
		switch isAhead := e.old != 0 && ahead > tolerance; {
		case before.isMeasured:
		case e.isKnown:
			before.error, before.isGuessed = e.error-e.step, e.isGuessed
		case isAhead && e.goesOn():
			before.error, before.isGuessed = e.error, true
		case isAhead:
			before.error, before.isGuessed = ahead, true
		default:
			before.isGuessed = true
		}
	}
}

// guessForward corrects errors that are guessed: an era does not begin before the last record of the era before.
func (c clocks) guessForward() {
	for i := 1; i < len(c); i++ {
		e, before := &c[i], &c[i-1]
		behind := e.old - before.error - (e.first - e.error)
		switch isBehind := e.old != 0 && behind > tolerance; {
		case !e.isGuessed:
		case e.isKnown:
			e.error = before.error + e.step
		case isBehind && e.goesOn():
			e.error = before.error
		case isBehind:
			e.error -= behind
		}
	}
}

// goesOn reports whether the clock showed no less when the era began than at the last record of the era before.
func (e *era) goesOn() bool { return e.first >= e.old-tolerance }

// errorIn returns the error that a report has shown in an era, if one has.
func errorIn(e *era, measured []Measured) (error int64, isKnown bool) {
	for _, m := range measured {
		if m.Era == e.number && m.Began == e.first {
			return m.Error, true
		}
	}
	return 0, false
}

// real returns the true time when the clock of an era showed one. A clock that is right is believed.
func (e *era) real(shown int64) int64 {
	if e.isWrong {
		return shown - e.error
	}
	return shown
}

// find returns the place of an era; the first one if the marks do not have it any more.
func (c clocks) find(number uint32) int {
	for i := len(c) - 1; i > 0; i-- {
		if c[i].number == number {
			return i
		}
	}
	return 0
}

// doubtful returns the true times at which a fire may have come without a trace in the list: those of wrong eras, and
// slack before and after each change of the clock. The newest era lasts until the given time.
func (c clocks) doubtful(slack, until int64) periods {
	var list []period
	for i := range c {
		e, end := &c[i], until
		if i+1 < len(c) {
			end = c[i+1].real(c[i+1].first)
		}
		if e.isWrong {
			list = append(list, period{e.real(e.first) - slack, end + slack})
		}
		if c.isUnclear(i) {
			from, to := c[i-1].real(e.old), e.real(e.first)
			list = append(list, period{min(from, to) - slack, max(from, to) + slack})
		}
		if i == 0 || !e.isSet {
			continue
		}
		at := e.real(e.first)
		from := at
		if shown := c[i-1].real(e.old); !e.process && e.old != 0 && !c[i-1].isWrong && !e.isWrong {
			from, at = min(from, shown), max(at, shown)
		}
		list = append(list, period{from - slack, at + slack})
	}
	return union(list)
}

// isMissed reports whether the peel knows that nothing ran at a time that it gives as missed in a right era: the host
// slept in the era, or no process ran, see isDown. It also returns the last time for which this is known.
func (c clocks) isMissed(era int, at int64) (is bool, last int64) {
	first := c[era].first
	if at >= first {
		return true, 1<<62 - 1
	}
	is, last = c[:era+1].isDown(at)

	return is, min(last, first-1)
}

// isDown reports whether a true time is after the last record of a process and not after the start of the next one:
// nothing ran then. The answer holds for all times up to last.
func (c clocks) isDown(at int64) (is bool, last int64) {
	last = 1<<62 - 1
	for i := len(c) - 1; i > 0; i-- {
		e := &c[i]
		if !e.process || e.old == 0 || c.isUnclear(i) {
			continue
		}
		from, to := c[i-1].real(e.old), e.real(e.first)
		if at > from && at <= to {
			return true, to
		}
		if at <= from {
			last = min(last, from)
		}
	}
	return false, last
}

// isUnclear reports whether nobody knows when the last record of the era before was written: the host has booted, and
// its clock may have been as wrong before as it is now.
func (c clocks) isUnclear(i int) bool {
	return i > 0 && c[i].old != 0 && !c[i].isKnown && c[i-1].isGuessed && c[i].isWrong && c[i].error <= c[i-1].most
}

// process returns the place of the era with which the process of an era began.
func (c clocks) process(era int) int {
	for era > 0 && !c[era].process {
		era--
	}
	return era
}
