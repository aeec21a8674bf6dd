package phrase

import (
	"errors"
	"fmt"
)

// times parses times of day, or a range of hours.
func (p *parser) times() error {
	if err := p.mark('t'); err != nil {
		return err
	}
	begin := len(p.clocks)
	for first := true; ; first = false {
		at := p.at
		if !first && !p.separator() {
			return nil
		}
		if !first {
			p.take("at")
		}
		_, isClock := clockOf(p.peek(0))
		isPeriod := p.number(0) && units[p.peek(1)] != none
		shift, _ := p.quarterAhead()
		if !isClock && shift == 0 || !first && isPeriod && shift == 0 {
			if first {
				return p.unknown()
			}
			p.at = at
			return nil
		}
		from, err := p.time()
		if err != nil {
			return err
		}
		if p.take(rangeWords) {
			return p.to(from)
		}
		if p.meaning.part == evening && from < 60 {
			return p.noHour(p.clocks[len(p.clocks)-1].at, evening)
		}
		if err := p.sameHalf(p.clocks[begin:]); err != nil {
			return err
		}
		p.meaning.times = append(p.meaning.times, from)
	}
}

func (p *parser) between() error {
	begin := p.at - 1
	from, err := p.time()
	if err != nil {
		return err
	}
	if !p.take("and to -") {
		return p.unknown()
	}
	if err := p.to(from); err != nil {
		return err
	}
	p.meaning.hours.between = written(p.words[begin:p.at])
	return nil
}

func (p *parser) to(from int) error {
	begin := p.bare
	to, err := p.time()
	if begin && p.bare && to <= from && from <= minutesPerDay/2 && to <= minutesPerDay/2 {
		to += minutesPerDay / 2 // 9 to 5
	}
	switch {
	case err != nil:
		return err
	case p.meaning.hours != nil:
		return errors.New("a phrase has at most one range of hours")
	case from == to:
		return errors.New("the range of hours is empty: start and end are equal")
	}
	p.meaning.hours = &span{from: from, to: to}
	return p.sameHalves(p.clocks[len(p.clocks)-2], p.clocks[len(p.clocks)-1])
}

// sameHalves refuses a range such as 1 to 5pm: the 1 may be in the afternoon too. The 9 of 9 to 5pm may not.
func (p *parser) sameHalves(from, to clock) error {
	isClear := from.hour >= 12 || from.hour == 0 || to.hour == 12 || (from.hour < to.hour) == (to.half == 'a')
	if from.half != 0 || to.half == 0 || to.isWord || isClear {
		return nil
	}
	w := p.words[from.at]
	return fmt.Errorf("column %d: %q has neither am nor pm, and the end of its range has; write it with one of them",
		w.column, w.written)
}

// time parses one time of day, with the am, pm, noon, midnight or o'clock after its number.
func (p *parser) time() (int, error) {
	shift := p.quarter()
	c, ok := clockOf(p.peek(0))
	if !ok {
		return 0, p.unknown()
	}
	at := p.at
	p.at++
	p.bare = false
	if c.bare && shift == 0 && (p.peek(0) == "fifteen" || p.peek(0) == "thirty") { // nine thirty
		c.minute, _ = numberOf(p.peek(0))
		c.bare = false
		p.at++
	}
	switch {
	case c.half != 0:
	case p.take("am a.m."):
		c.half = 'a'
	case p.take("pm p.m."):
		c.half = 'p'
	case c.hour == 12 && p.take("noon midday"):
		c.half = 'p'
	case c.hour == 12 && p.take("midnight"):
		c.half = 'a'
	default:
		p.take("o'clock")
		d := p.ofDay()
		if d == anyPart {
			d = p.meaning.part
		}
		p.meaning.atNight = p.meaning.atNight || d == night
		if !p.inHalf(&c, d, shift) {
			return 0, p.noHour(at, d)
		}
		p.bare = c.bare && c.half == 0
	}
	c.at = at
	p.clocks = append(p.clocks, c)
	minutes, ok := c.minutes()
	if !ok {
		p.at = at
		return 0, p.unknown()
	}
	minutes = (minutes + shift + minutesPerDay) % minutesPerDay
	if p.meaning.part.excludes(minutes) {
		return 0, p.noHour(at, p.meaning.part)
	}
	return minutes, nil
}

// sameHalf refuses a list such as 6 and 8pm: the 6 may be in the evening too.
func (p *parser) sameHalf(list []clock) error {
	last := list[len(list)-1]
	if last.half == 0 || last.isWord {
		return nil
	}
	for _, c := range list {
		if w := p.words[c.at]; c.half == 0 && c.hour <= 12 && w.low[0] != '0' {
			return fmt.Errorf(
				"column %d: %q has neither am nor pm, and a later time of the list has; write it with one of them",
				w.column, w.written,
			)
		}
	}
	return nil
}

// inHalf sets the half of the day of a clock that has none, by the part of the day. Quarter to 12 is before the other
// half.
func (p *parser) inHalf(c *clock, d part, shift int) (ok bool) {
	switch {
	case c.hour > 12 || d == anyPart:
		return true
	case c.hour == 12 && shift < 0:
		if c.half, ok = d.half(11); c.half == 'p' {
			c.half = 'a'
		} else {
			c.half = 'p'
		}
		return ok
	}
	c.half, ok = d.half(c.hour)
	return ok
}

// starting parses where the steps of a period begin.
func (p *parser) starting() error {
	if shift, _ := p.quarterAhead(); shift != 0 || isClock(p.peek(0)) {
		at, err := p.time()
		p.meaning.startAt = append(p.meaning.startAt, at)
		return err
	}
	u := units[p.peek(0)]
	least, most := 0, 59
	switch u {
	case minute:
	case hour:
		most = 23
	case day:
		least, most = 1, 31
	default:
		return p.unknown()
	}
	p.at++
	n, ok := p.numeral(least, most)()
	if !ok {
		return p.unknown()
	}
	if p.meaning.startOf != none {
		return errors.New("a phrase has at most one start")
	}
	p.at++
	p.meaning.start, p.meaning.startOf = n, u
	return nil
}
