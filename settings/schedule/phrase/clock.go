package phrase

import "slices"

// partOfDay parses "morning", "night" and "evening" as days. Times without am and pm are then in that half of the day.
func (p *parser) partOfDay() (bool, error) {
	halves := map[string]byte{"morning": 'a', "afternoon": 'p', "evening": 'p', "night": 0}
	half, ok := halves[trimPlural(p.peek(0))]
	if !ok {
		return false, nil
	}
	if p.meaning.unit == none {
		p.meaning.unit, p.meaning.count = day, 1
	}
	p.half = half
	p.at++
	return true, nil
}

func trimPlural(w string) string {
	if len(w) > 1 && w[len(w)-1] == 's' {
		return w[:len(w)-1]
	}
	return w
}

// ofDay skips "in the morning" and the like after a time, and returns the half of the day.
func (p *parser) ofDay() byte {
	halves := map[string]byte{"morning": 'a', "afternoon": 'p', "evening": 'p'}
	if p.peek(0) == "in" && p.peek(1) == "the" && halves[p.peek(2)] != 0 {
		half := halves[p.peek(2)]
		p.at += 3
		return half
	}
	return 0
}

// quarterAhead returns the minutes that "half past", "quarter past" and "quarter to" add to the hour behind them, 0 for
// other words.
func (p *parser) quarterAhead() int {
	shifts := map[[2]string]int{{"half", "past"}: 30, {"quarter", "past"}: 15, {"quarter", "to"}: -15}
	return shifts[[2]string{p.peek(0), p.peek(1)}]
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
	counts := map[string]int{"half": 30, "quarter": 15}
	count := counts[p.peek(0)]
	if count == 0 {
		return false, nil
	}
	written := p.peek(0)
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
	if written != "quarter" || slices.Contains([]string{"past", "to"}, p.peek(1)) {
		return false, nil
	}
	if p.meaning.unit != none {
		return true, p.second("period")
	}
	p.at++
	p.meaning.unit, p.meaning.count = month, 3
	return true, nil
}
