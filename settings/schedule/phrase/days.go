package phrase

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
)

// nth parses "last friday", "first and third monday", "last day", "first weekday": which of the days of a month. It
// returns false and skips nothing if the words are none of these.
func (p *parser) nth() (bool, error) {
	begin := p.at
	if is, err := p.nthWorkday(); is {
		return true, err
	}
	var weeks uint8
	for {
		n, ok := dateOf(p.peek(0))
		switch {
		case p.peek(0) == "last":
			weeks |= 1
		case ok && n <= 5:
			weeks |= 1 << n
		default:
			p.at = begin
			return false, nil
		}
		p.at++
		if !p.separator() {
			break
		}
	}
	if _, ok := p.weekday(); ok {
		if p.meaning.only.Weeks != 0 {
			return true, fmt.Errorf("%w; write two entries", p.second("choice of weekdays in a month"))
		}
		p.meaning.only.Weeks = weeks
		if err := p.list(&p.meaning.weekdays, p.weekday); err != nil {
			return true, err
		}
		p.ofMonths()
		return true, nil
	}
	if weeks == 1 && p.peek(0) == "day" {
		if err := p.mark('d'); err != nil {
			return true, err
		}
		p.at++
		p.meaning.only.LastDay = true
		p.ofTheMonth()
		p.ofMonths()
		return true, nil
	}
	p.at = begin
	return false, nil
}

// nthWorkday parses "first weekday" and "last working day". It leaves "every third weekday", which may be a period.
func (p *parser) nthWorkday() (bool, error) {
	n, ok := dateOf(p.peek(0))
	if p.peek(0) == "last" {
		n, ok = -1, true
	}
	isPeriod := n > 1 && p.at > 0 && p.words[p.at-1].low == "every" && p.peek(2) != "of"
	if !ok || p.peek(1) != "weekday" || isPeriod {
		return false, nil
	}
	if p.meaning.only != (cron.Days{}) || p.meaning.weekdays != 0 {
		return true, p.second("choice of days")
	}
	err := p.mark('d')
	p.at += 2
	p.meaning.only.Workday, p.meaning.weekdays = int8(n), workdays
	p.ofTheMonth()
	p.ofMonths()
	return true, err
}

// second returns the error of a word that repeats what the phrase has already.
func (p *parser) second(what string) error {
	w := p.words[min(p.at, len(p.words)-1)]
	return fmt.Errorf("column %d: %q begins a second %s", w.column, w.written, what)
}

// ofMonths skips "of" before the name of a month.
func (p *parser) ofMonths() {
	if p.peek(0) == "of" && isMonth(p.peek(1)) {
		p.at++
	}
}

func isMonth(w string) bool {
	_, ok := monthOf(w)
	return ok
}

func isWeekday(w string) bool {
	_, ok := weekdayOf(w)
	return ok
}

// alternate parses the weekdays after "every other" and "every second".
func (p *parser) alternate() error {
	if p.meaning.weekdays != 0 {
		return p.second("choice of weekdays")
	}
	p.meaning.only.Alternate = true
	return p.list(&p.meaning.weekdays, p.weekday)
}

// counted parses "twice a day", "twice daily" and "4 times an hour". It returns false and skips nothing if the words
// are none of these.
func (p *parser) counted() (bool, error) {
	begin := p.at
	n := slices.Index([]string{"once", "twice", "thrice"}, p.peek(0)) + 1
	p.at++
	if n == 0 {
		var ok bool
		if n, ok = numberOf(p.words[begin].low); !ok || !p.take("times time") {
			p.at = begin
			return false, nil
		}
	}
	u := none
	if w := p.peek(0); n > 1 && adverbCounts[w] == 0 && w != "nightly" {
		u = adverbs[w]
	}
	if p.take("a an per every each") {
		u = units[p.peek(0)]
	}
	if n == 1 && p.peek(0) == "2" && p.peek(1) == "weeks" { // once a fortnight
		p.at++
		return true, p.period(2)
	}
	if u == none {
		p.at = begin
		return false, nil
	}
	if n == 1 {
		return true, p.period(1)
	}
	w := p.words[begin]
	if n == 0 || u < hour || u > month {
		return true, fmt.Errorf("column %d: %d times a %s do not say when; name the times", w.column, n, u)
	}
	if p.meaning.often != 0 {
		p.at = begin
		return true, p.second("count")
	}
	p.meaning.often, p.meaning.oftenIn, p.meaning.oftenAt = n, u, w.column
	p.at++
	return true, nil
}

// counted puts the times of "twice a day" in: those of the phrase, or parts of equal length.
func (m *meaning) counted() error {
	whole, named := 24, len(m.times)
	switch m.oftenIn {
	case hour:
		whole, named = 60, bits.OnesCount64(m.minutes)
	case week:
		named = bits.OnesCount64(m.weekdays)
	case month:
		named = bits.OnesCount64(m.dates) + bits.OnesCount8(m.only.Weeks)*bits.OnesCount64(m.weekdays)
	}
	switch {
	case m.often == 0 || named == m.often:
		return nil
	case m.oftenIn > day:
		return fmt.Errorf("column %d: %d runs per %s do not say on which days; name all %[2]d",
			m.oftenAt, m.often, m.oftenIn)
	case named > 0 || whole%m.often != 0 || m.oftenIn == day && m.hours != nil:
		return fmt.Errorf("column %d: %d runs per %s do not say when; name all %[2]d", m.oftenAt, m.often, m.oftenIn)
	}
	for i := range m.often {
		if m.oftenIn == hour {
			m.minutes |= 1 << (i * whole / m.often)
		} else {
			m.times = append(m.times, i*minutesPerDay/m.often)
		}
	}
	return nil
}

// except parses the weekdays or months that the phrase leaves out.
func (p *parser) except() error {
	p.take("not")
	p.take("on in for")
	p.take("the")
	var weekdays, months uint64
	var err error
	switch {
	case isMonth(p.peek(0)):
		err = p.list(&months, p.month)
	case p.take("weekend weekends"):
		weekdays = weekend
	case p.take("weekday weekdays"):
		weekdays = workdays
	default:
		err = p.list(&weekdays, p.weekday)
	}
	p.meaning.exceptWeekdays |= weekdays
	p.meaning.exceptMonths |= months
	return err
}

// Masks of weekdays; Sunday is bit 0.
const (
	workdays    = 0b0111110
	weekend     = 0b1000001
	allWeekdays = 0b1111111
	allMonths   = 1<<13 - 2
)

// leaveOut takes the excepted weekdays and months out of the meaning.
func (m *meaning) leaveOut() error {
	for _, mask := range []struct {
		named        *uint64
		all, without uint64
	}{{&m.weekdays, allWeekdays, m.exceptWeekdays}, {&m.months, allMonths, m.exceptMonths}} {
		if mask.without == 0 {
			continue
		}
		if *mask.named == 0 {
			*mask.named = mask.all
		}
		if *mask.named &^= mask.without; *mask.named == 0 {
			return fmt.Errorf("it excepts all of its days; write it like \"every day except sunday at 9am\"")
		}
	}
	return nil
}

// biweekly turns a period of two weeks on certain weekdays into every other week.
func (m *meaning) biweekly() {
	if m.unit == week && m.count == 2 && m.weekdays != 0 {
		m.unit, m.count = none, 0
		m.only.Alternate = true
	}
}

// once checks a phrase that names a date with its year.
func (m *meaning) once() error {
	single := func(mask uint64) bool { return mask != 0 && mask&(mask-1) == 0 }
	others := m.unit != none || m.weekdays != 0 || m.only != (cron.Days{Year: m.only.Year})
	if others || !single(m.dates) || !single(m.months) {
		return fmt.Errorf("a date with a year is for one run; write it like \"on 3 January 2027 at 14:00\"")
	}
	return nil
}

// fullDate parses "3 January 2027", "January 3, 2027" and 2027-01-03; the year may be missing. It returns false and
// skips nothing if the words are none of these.
func (p *parser) fullDate() (bool, error) {
	begin := p.at
	if at, err := time.Parse(time.DateOnly, p.peek(0)); err == nil {
		p.at++
		return true, p.setDate(at.Day(), int(at.Month()), at.Year())
	}
	day, ok := p.dayOfMonth()
	dayFirst := ok && isMonth(p.peek(1))
	if dayFirst {
		p.at++
	}
	m, ok := monthOf(p.peek(0))
	if !ok {
		p.at = begin
		return false, nil
	}
	p.at++
	if !dayFirst {
		if day, ok = p.dayOfMonth(); !ok {
			p.at = begin
			return false, nil
		}
		p.at++
	}
	at := p.at
	p.take(",")
	if year, ok := yearOf(p.peek(0)); ok {
		p.at++
		return true, p.setDate(day, m, year)
	}
	p.at = at
	c, isClock := clockOf(p.peek(0))
	if among(p.peek(0), "and , to") || isClock && c.bare {
		p.at = begin // a list of dates
		return false, nil
	}
	return true, p.setDate(day, m, 0)
}

func (p *parser) dayOfMonth() (int, bool) {
	if n, ok := dateOf(p.peek(0)); ok {
		return n, true
	}
	n, ok := numberOf(p.peek(0))
	return n, ok && n >= 1 && n <= 31
}

func (p *parser) setDate(day, month, year int) error {
	if year != 0 && p.meaning.only.Year != 0 {
		p.at--
		return p.second("date with a year")
	}
	if m := &p.meaning; m.dates != 0 && m.months != 0 && m.dates != 1<<day && m.months != 1<<month {
		p.at-- // each day would be in each month
		p.order = append(p.order, 'd', 't')
		return p.mark('d')
	}
	p.meaning.dates |= 1 << day
	p.meaning.months |= 1 << month
	if year != 0 {
		p.meaning.only.Year = year
	}
	return nil
}

// delay parses "in 2 hours" and "in half an hour", which must be the whole phrase. It returns false and skips nothing
// if the words are none of these.
func (p *parser) delay() (time.Duration, bool) {
	if p.at != 0 || p.peek(0) != "in" {
		return 0, false
	}
	var total time.Duration
	at := 1
	for at < len(p.words) {
		length, next := p.lengthAt(at)
		if length == 0 {
			return 0, false
		}
		total += length
		at = next
		if at < len(p.words) && p.words[at].low == "and" {
			at++
		}
	}
	if total == 0 {
		return 0, false
	}
	p.at = at
	return total, true
}

// lengthAt reads a number with its unit, and returns the index of the word after it; 0 if there is none.
func (p *parser) lengthAt(at int) (length time.Duration, next int) {
	p.at = at
	defer func() { p.at = 0 }()
	size := [year + 1]time.Duration{
		second: time.Second, minute: time.Minute, hour: time.Hour, day: dayLong, week: 7 * dayLong,
	}
	half := p.take("half")
	n, isNumber := numberOf(p.peek(0))
	if p.take("a an") {
		n, isNumber = 1, true
	} else if isNumber {
		p.at++
	}
	length = time.Duration(n) * size[units[p.peek(0)]]
	if half {
		length /= 2
	}
	if !isNumber {
		return 0, 0
	}
	return length, p.at + 1
}
