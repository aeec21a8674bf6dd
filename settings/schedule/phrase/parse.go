package phrase

import (
	"fmt"
	"slices"
	"strings"
)

type parser struct {
	words   []word
	at      int
	bare    bool // the last time of day was a number alone
	clocks  []clock
	order   []byte // 'd' for days and 't' for times, in their order
	isTrial bool   // what is not understood is an unknownWord
	meaning meaning
}

func (p *parser) done() bool { return p.at >= len(p.words) }

// peek returns the word n ahead in lower case, empty at the end. It has a hundred callers.
//
//go:noinline
func (p *parser) peek(n int) string {
	if p.at+n >= len(p.words) {
		return ""
	}
	return p.words[p.at+n].low
}

// take skips the next word if it is one of these, which blanks separate, and reports whether it did.
//
//go:noinline
func (p *parser) take(words string) bool {
	if !among(p.peek(0), words) {
		return false
	}
	p.at++
	return true
}

// among reports whether a word is one of others, which are separated by blanks.
//
//go:noinline
func among(word, others string) bool { return slices.Contains(strings.Fields(others), word) }

// mark notes that days or times begin at the next word. Times belong to all days of a phrase, so other days or times
// behind them are an error: monday at 9am and friday at 5pm.
func (p *parser) mark(what byte) error {
	if n := len(p.order); n > 0 && p.order[n-1] == what {
		return nil
	}
	if p.order = append(p.order, what); len(p.order) < 3 {
		return nil
	}
	w := p.words[min(p.at, len(p.words)-1)]
	return fmt.Errorf("column %d: other days and times begin at %q; write two entries", w.column, w.written)
}

func (p *parser) unknown() error {
	if p.done() {
		return fmt.Errorf("the phrase ends too early, after %q", p.words[len(p.words)-1].written)
	}
	if err := p.counting(); err != nil {
		return err
	}
	if p.isTrial {
		return &unknownWord{p.at}
	}
	w := p.words[p.at]
	return fmt.Errorf("column %d: %q is not understood%s", w.column, w.written, p.hint())
}

func (p *parser) clause() error {
	if is, err := p.counted(); is {
		return err
	}
	switch {
	case p.at == 0 && p.take("once"):
		return nil
	case p.take("except excluding but"):
		return p.except()
	case p.take(", and"):
		if p.done() {
			return p.unknown()
		}
		return nil
	case p.take("every each"):
		return p.every()
	case p.take("between"):
		return p.between()
	case p.take("starting beginning"):
		p.take("at on from with")
		return p.starting()
	case p.peek(0) == "from" && units[p.peek(1)] != none:
		p.at++
		return p.starting()
	case p.peek(0) == "at" && p.peek(1) == "night":
		return p.setPart(p.ofDay())
	case p.pastTheHour():
		return nil
	case p.peek(0) == "of" && isMonth(p.peek(1)) && p.at > 0:
		p.at++
		return p.value()
	case p.peek(0) == "from" && isNamed(p.peek(1)) && !among(p.peek(2), rangeWords):
		return fmt.Errorf("column %d: this range has no end; the field not_before says when an entry begins",
			p.words[p.at].column)
	case p.take("at"):
		if err := p.timeOrRange(); err != nil {
			return err
		}
		if units[p.peek(0)] == none && p.peek(0) != "the" && !strings.HasPrefix(p.peek(0), ":") {
			return p.times()
		}
	}
	if c, ok := clockOf(p.peek(1)); ok && c.bare && p.peek(0) == "from" && among(p.peek(2), rangeWords) {
		p.at++
		return p.times()
	}
	p.take("on in from")
	return p.value()
}

// every parses what follows "every": a period or days.
func (p *parser) every() error {
	if p.peek(0) == "second" && isWeekday(p.peek(1)) && p.peek(2) != "of" {
		p.at++
		return p.alternate()
	}
	if is, err := p.partOfHour(); is {
		return err
	}
	if p.take("other") {
		if isWeekday(p.peek(0)) {
			return p.alternate()
		}
		if units[p.peek(0)] == none {
			return p.unknown()
		}
		return p.period(2)
	}
	if n, ok := p.date(); ok && n > 1 && units[p.peek(1)] != none && p.peek(2) != "of" {
		p.at++
		return p.period(n)
	}
	isDate := p.peek(0) == "second" && p.peek(1) != "" && p.peek(1) != "between"
	if units[p.peek(0)] != none && !isDate {
		return p.period(1)
	}
	if n, ok := numberOf(p.peek(0)); ok && units[p.peek(1)] != none {
		p.at++
		return p.period(n)
	}
	return p.value()
}

func (p *parser) period(n int) error {
	written := p.words[p.at].written
	u := units[p.peek(0)]
	p.at++
	n, u = p.remainder(n, u)
	switch {
	case p.meaning.unit != none:
		return fmt.Errorf("%q is a second period; the first is every %s", written, p.meaning.unit)
	case n == 0:
		return fmt.Errorf("every 0 %ss is not a period", u)
	}
	p.meaning.unit, p.meaning.count = u, n
	p.ofTheMonth()
	return nil
}

// remainder adds the 30 minutes of "1 hour and 30 minutes" to a period of n units.
func (p *parser) remainder(n int, u unit) (int, unit) {
	begin := p.at
	p.take("and")
	rest, ok := numberOf(p.peek(0))
	shift, _ := p.quarterAhead()
	if size := map[unit]int{minute: 60, hour: 60, day: 24}[u]; ok && shift == 0 && size > 0 && units[p.peek(1)] == u-1 {
		p.at += 2
		return p.remainder(n*size+rest, u-1)
	}
	p.at = begin
	return n, u
}

// ofTheMonth skips "day", "of the month" and the like, which add nothing.
func (p *parser) ofTheMonth() {
	at := p.at
	p.take("day")
	if among(p.peek(0), "of in") && isMonth(p.peek(1)) {
		return
	}
	if !p.take("of") {
		p.at = at
		return
	}
	p.take("the each every")
	if !p.take("month year") {
		p.at = at
	}
}

// value parses a clause that needs no word before it: a zone, days, dates, months, minutes or a time.
func (p *parser) value() error {
	p.take("the")
	for _, form := range []func() (bool, error){p.nth, p.fullDate, p.partOfDay} {
		if is, err := form(); is {
			return err
		}
	}
	w := p.peek(0)
	switch {
	case p.done():
		return p.unknown()
	case isZone(p.words[p.at]):
		return p.zone()
	case adverbs[w] != none:
		return p.adverb()
	case w == "hour", w == "minute" && !p.number(1), w == "half" && p.peek(1) == "hour":
		return p.onThe()
	case strings.HasPrefix(w, ":"):
		return p.list(&p.meaning.minutes, p.minuteMark)
	case units[w] == minute:
		p.at++
		return p.list(&p.meaning.minutes, p.numeral(0, 59))
	case units[w] == day:
		p.at++
		return p.list(&p.meaning.dates, p.numeral(1, 31))
	case w == "weekday" || w == "weekdays":
		p.meaning.weekdays |= workdays
	case w == "weekend" || w == "weekends":
		p.meaning.weekdays |= weekend
	default:
		return p.named()
	}
	err := p.mark('d')
	p.at++
	return err
}

// named parses a list of weekdays, months or dates, or a time of day.
func (p *parser) named() error {
	if _, ok := weekdayOf(p.peek(0)); ok {
		return p.list(&p.meaning.weekdays, p.weekday)
	}
	if _, ok := monthOf(p.peek(0)); ok {
		return p.list(&p.meaning.months, p.month)
	}
	if _, ok := p.date(); ok {
		return p.list(&p.meaning.dates, p.date)
	}
	if shift, _ := p.quarterAhead(); shift != 0 {
		return p.times()
	}
	if is, err := p.hoursOrDates(); is {
		return err
	}
	if c, ok := clockOf(p.peek(0)); ok && (!c.bare || p.peek(1) == "am" || p.peek(1) == "pm") {
		return p.times()
	}
	return p.unknown()
}

func (p *parser) zone() error {
	if p.meaning.zone != "" {
		return fmt.Errorf("%q is a second zone", p.words[p.at].written)
	}
	p.meaning.zone = p.words[p.at].written
	if w := p.peek(0); w == "utc" || w == "gmt" {
		p.meaning.zone = strings.ToUpper(w)
	}
	p.at++
	return nil
}

func (p *parser) adverb() error {
	w := p.words[p.at]
	if p.meaning.unit != none {
		return fmt.Errorf("%q is a second period; the first is every %s", w.written, p.meaning.unit)
	}
	if d := partOf(w.low); d != anyPart {
		if err := p.setPart(d); err != nil {
			return err
		}
	}
	p.meaning.unit, p.meaning.count = adverbs[w.low], max(1, adverbCounts[w.low])
	p.at++
	return nil
}

// onThe parses "on the hour", "on the half hour" and "on the minute".
func (p *parser) onThe() error {
	at := 0
	if p.take("half") {
		at = 30
	}
	if p.take("hour") {
		p.meaning.minutes |= 1 << at
		return nil
	}
	if p.meaning.unit != none {
		return p.unknown()
	}
	p.at++
	p.meaning.unit, p.meaning.count = minute, 1
	return nil
}

// item parses the next word as one element of a list, without skipping it.
type item func() (int, bool)

func (p *parser) number(n int) bool {
	_, ok := numberOf(p.peek(n))
	return ok
}

func (p *parser) numeral(least, most int) item {
	return func() (int, bool) {
		n, ok := numberOf(p.peek(0))
		return n, ok && n >= least && n <= most
	}
}

// minuteMark parses :15.
func (p *parser) minuteMark() (int, bool) {
	w := p.peek(0)
	if len(w) != 3 || w[0] != ':' {
		return 0, false
	}
	n, ok := numberOf(w[1:])
	return n, ok && n < 60
}

func (p *parser) weekday() (int, bool) { return weekdayOf(p.peek(0)) }
func (p *parser) month() (int, bool)   { return monthOf(p.peek(0)) }

// date parses "second" as a date; every and period have parsed it before where it is a unit.
func (p *parser) date() (int, bool) { return dateOf(p.peek(0)) }

// isNamed reports whether a word is a weekday or month.
func isNamed(w string) bool { return isWeekday(w) || isMonth(w) }

// rangeWords stand between the two ends of a range.
const rangeWords = "to - through thru until till"

// list parses "a, b and c" and "a to b" into a mask.
func (p *parser) list(mask *uint64, read item) error {
	isWeekdays := mask == &p.meaning.weekdays
	if _, ok := read(); ok && (isWeekdays || mask == &p.meaning.dates) {
		if err := p.mark('d'); err != nil {
			return err
		}
		if isWeekdays && p.meaning.only.Alternate && *mask != 0 {
			return p.second("choice of weekdays")
		}
	}
	for first := true; ; first = false {
		at := p.at
		if !first && !p.separator() {
			break
		}
		low, ok := read()
		if !ok {
			if first {
				return p.unknown()
			}
			p.at = at
			break
		}
		written := p.words[p.at].written
		p.at++
		high := low
		if p.take(rangeWords) {
			var err error
			if high, err = p.end(mask, read); err != nil {
				return err
			}
		}
		if low > high && !isWeekdays {
			return fmt.Errorf("the range from %q runs backwards", written)
		}
		for v := low; ; v = (v + 1) % 64 {
			if isWeekdays {
				v %= 7
			}
			*mask |= 1 << v
			if v == high {
				break
			}
		}
		p.ofTheMonth()
	}
	return nil
}

// separator skips the words between two elements of a list, and reports whether there were any.
func (p *parser) separator() bool {
	any := false
	for p.take(", and or &") {
		any = true
	}
	p.take("on")
	p.take("the")
	return any
}

// end parses the end of a range. "last" as a date means 31, the highest possible date.
func (p *parser) end(mask *uint64, read item) (int, error) {
	p.take("the")
	if mask == &p.meaning.dates && p.take("last") {
		return 31, nil
	}
	n, ok := read()
	if !ok {
		return 0, p.unknown()
	}
	p.at++
	return n, nil
}
