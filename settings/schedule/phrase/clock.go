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

// quarterAhead returns the minutes that "half past", "quarter past" and "quarter to" add to the hour behind them, 0 for
// other words.
func (p *parser) quarterAhead() int {
	switch p.peek(0) + " " + p.peek(1) {
	case "half past":
		return 30
	case "quarter past":
		return 15
	case "quarter to":
		return -15
	}
	return 0
}

// quarter skips such words, and returns the minutes.
func (p *parser) quarter() int {
	shift := p.quarterAhead()
	if shift != 0 {
		p.at += 2
	}
	return shift
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
	p.take("a", "an")
	if p.take("hour") {
		if p.meaning.unit != none {
			p.at--
			return true, p.second("period")
		}
		p.meaning.unit, p.meaning.count = minute, count
		return true, nil
	}
	p.at = at
	if count == 30 || p.quarterAhead() != 0 {
		return false, nil
	}
	if p.meaning.unit != none {
		return true, p.second("period")
	}
	p.at++
	p.meaning.unit, p.meaning.count = month, 3
	return true, nil
}
