package phrase

import "fmt"

// A part is a part of the day. It says which half of the day the times in it are in that have neither am nor pm.
type part int

const (
	anyPart part = iota
	morning
	afternoon
	evening
	night
)

func (d part) String() string {
	return [...]string{"day", "morning", "afternoon", "evening", "night"}[d]
}

// partOf returns anyPart if a word is no part of the day.
func partOf(w string) part {
	switch w {
	case "morning", "mornings":
		return morning
	case "afternoon", "afternoons":
		return afternoon
	case "evening", "evenings":
		return evening
	case "night", "nights", "nightly":
		return night
	}
	return anyPart
}

// half returns the half of the day that an hour from 0 to 12 is in, 0 if it is an hour of 24. At 11 at night is 23:00,
// at 2 at night is 2:00, and at 12 at night is 0:00. It returns false if the part of the day has no such hour.
func (d part) half(hour int) (half byte, ok bool) {
	switch {
	case d == anyPart:
		return 0, true
	case hour == 0:
		return 0, d == morning || d == night
	case hour == 12 && d == afternoon:
		return 'p', true
	case hour == 12:
		return 'a', d == night
	case d == morning || d == night && hour < 6:
		return 'a', true
	case d == evening:
		return 'p', hour > 3
	}
	return 'p', d == night || hour < 8
}

// excludes reports whether a time, in minutes since midnight, contradicts the part of the day, as 9am does in the
// evening. Midnight is the end of an evening.
func (d part) excludes(minutes int) bool {
	hour := minutes / 60
	switch d {
	case morning:
		return hour > 12
	case afternoon:
		return hour < 12 || hour > 19
	case evening:
		return hour > 0 && hour < 16
	case night:
		return hour > 5 && hour < 18
	}
	return false
}

// setPart sets the part of the day. Times before it must not depend on it.
func (p *parser) setPart(d part) error {
	if p.meaning.part = d; d == anyPart {
		return nil
	}
	for _, c := range p.clocks {
		minutes, _ := c.minutes()
		switch {
		case d.excludes(minutes):
			return p.noHour(c.at, d)
		case c.half == 0 && c.hour <= 12:
			return fmt.Errorf("column %d: %q is before the %s that it is in; write it behind, or with am or pm",
				p.words[c.at].column, p.words[c.at].written, d)
		}
	}
	return nil
}

// partOfDay parses "morning", "night" and "evening" as days. Times without am and pm are then in that part of the day.
func (p *parser) partOfDay() (bool, error) {
	d := partOf(p.peek(0))
	if d == anyPart {
		return false, nil
	}
	if p.meaning.unit == none && p.meaning.only.Year == 0 {
		p.meaning.unit, p.meaning.count = day, 1
	}
	p.at++
	return true, p.setPart(d)
}

// ofDay skips "in the morning", "at night" and the like behind a time, and returns the part of the day.
func (p *parser) ofDay() part {
	if p.peek(0) == "at" && p.peek(1) == "night" {
		p.at += 2
		return night
	}
	d := partOf(p.peek(2))
	if p.peek(0) != "in" || p.peek(1) != "the" || d == night {
		return anyPart
	}
	if d != anyPart {
		p.at += 3
	}
	return d
}

// noHour returns the error of a time that its part of the day does not have.
func (p *parser) noHour(at int, d part) error {
	w := p.words[at]
	return fmt.Errorf(
		"column %d: the %s has no %s; write a time with am or pm, noon or midnight",
		w.column, d, w.written,
	)
}

// quarterAhead returns the minutes that "half past", "quarter to" and "10 minutes past" add to the hour behind them,
// and how many words they are. It returns 0 for other words; "5 to" may begin the hours from 5 to 9.
func (p *parser) quarterAhead() (minutes, words int) {
	n, ok := numberOf(p.peek(0))
	_, isHour := clockOf(p.peek(0))
	switch p.peek(0) {
	case "quarter":
		n, ok = 15, true
	case "half":
		n, ok = 30, true
	}
	words = 1
	if units[p.peek(1)] == minute {
		isHour = false
		words++
	}
	switch w := p.peek(words); {
	case !ok, n == 0, n > 59:
	case w == "past", w == "after":
		return n, words + 1
	case w == "before", w == "to" && !isHour && n != 30:
		return -n, words + 1
	}
	return 0, 0
}

// quarter skips such words, and returns the minutes.
func (p *parser) quarter() int {
	shift, words := p.quarterAhead()
	p.at += words
	return shift
}

// pastTheHour parses "at 5 past every hour" and "half past the hour"; in a period of hours "at 5 past" is enough. It
// returns false and skips nothing if the words are none of these.
func (p *parser) pastTheHour() bool {
	begin := p.at
	p.take("at")
	shift := p.quarter()
	isEvery := p.take("every each")
	isThe := isEvery || p.take("the")
	_, isClock := clockOf(p.peek(0))
	switch {
	case shift == 0, isEvery && p.meaning.unit != none:
	case p.take("hour"), p.meaning.unit == hour && !isThe && !isClock:
		if isEvery {
			p.meaning.unit, p.meaning.count = hour, 1
		}
		p.meaning.minutes |= 1 << ((shift + 60) % 60)
		return true
	}
	p.at = begin
	return false
}

// timeOrRange refuses "at 5 to 9", which may be 8:55.
func (p *parser) timeOrRange() error {
	n, ok := numberOf(p.peek(0))
	if !ok || n == 0 || n > 59 || p.peek(1) != "to" || !isClock(p.peek(0)) || !isClock(p.peek(2)) {
		return nil
	}
	from := p.at
	p.at += 2
	to, err := p.time()
	if err != nil {
		return err
	}
	before := (to - n + minutesPerDay) % minutesPerDay
	return fmt.Errorf("column %d: %q may be a time or a range; write \"at %d:%02d\", or \"between\" for a range",
		p.words[from].column, written(p.words[from:p.at]), before/60, before%60)
}

// hoursOrDates parses "9-17" without at or from. These are hours on weekdays; alone they may be dates too.
func (p *parser) hoursOrDates() (bool, error) {
	from, isFrom := clockOf(p.peek(0))
	to, isTo := clockOf(p.peek(2))
	if !isFrom || !isTo || !from.bare || !to.bare || !among(p.peek(1), rangeWords) {
		return false, nil
	}
	if p.meaning.weekdays != 0 || from.hour > to.hour {
		return true, p.times()
	}
	w := p.words[p.at]
	return true, fmt.Errorf("column %d: the numbers from %s to %s may be hours or dates; "+
		"write \"from %[2]s to %[3]s\", or \"day %[2]s to %[3]s\"", w.column, w.written, p.words[p.at+2].written)
}

// partOfHour parses "half hour", "quarter of an hour" and "quarter" (of a year) after "every".
func (p *parser) partOfHour() (bool, error) {
	count := 15
	switch p.peek(0) {
	case "half":
		count = 30
	case "quarter":
	default:
		return false, nil
	}
	at := p.at
	p.at++
	p.take("of")
	p.take("a an")
	if p.take("hour") {
		if p.meaning.unit != none {
			p.at--
			return true, p.second("period")
		}
		p.meaning.unit, p.meaning.count = minute, count
		return true, nil
	}
	p.at = at
	if shift, _ := p.quarterAhead(); count == 30 || shift != 0 {
		return false, nil
	}
	if p.meaning.unit != none {
		return true, p.second("period")
	}
	p.at++
	p.meaning.unit, p.meaning.count = month, 3
	return true, nil
}
