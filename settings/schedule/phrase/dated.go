package phrase

import (
	"fmt"
	"strings"
	"time"
)

// Dated returns the phrase with a date in the place of words that count from today: "tomorrow at 9am" becomes "on 3
// January 2027 at 9am". Other phrases are returned as they are. Call it where a person types a phrase; in a file, which
// is read on many days, [Parse] refuses these words.
func Dated(text string, now time.Time) string {
	words := split(text)
	for i := range words {
		days, n := fromToday(words[i:], now)
		if n == 0 {
			continue
		}
		before := words[:i]
		if i > 0 && words[i-1].low == "on" {
			before = words[:i-1]
		}
		date := now.AddDate(0, 0, days).Format("on 2 January 2006")
		if words[i].low == "tonight" {
			date += " in the evening"
		}
		text = written(before) + " " + date + " " + written(words[i+n:])
		return strings.ReplaceAll(strings.TrimSpace(text), " ,", ",")
	}
	return text
}

// fromToday reads words that count from today. It returns how many days after now they are, and how many words they
// take, 0 if the first word is none of them.
func fromToday(words []word, now time.Time) (days, n int) {
	low := func(i int) string {
		if i >= len(words) {
			return ""
		}
		return words[i].low
	}
	switch {
	case low(0) == "today", low(0) == "tonight":
		return 0, 1
	case low(0) == "tomorrow":
		return 1, 1
	case low(0) == "the" && low(1) == "day" && low(2) == "after" && low(3) == "tomorrow":
		return 2, 4
	case low(0) == "day" && low(1) == "after" && low(2) == "tomorrow":
		return 2, 3
	case low(0) == "next":
		if day, ok := weekdayOf(low(1)); ok {
			return (day-int(now.Weekday())+6)%7 + 1, 2
		}
	case low(0) == "in" && low(3) != "":
		count, ok := numberOf(low(1))
		switch u := units[low(2)]; {
		case ok && u == day:
			return count, 3
		case ok && u == week:
			return 7 * count, 3
		}
	}
	return 0, 0
}

// counting returns an error if the next words count from today.
func (p *parser) counting() error {
	_, n := fromToday(p.words[p.at:], time.Time{})
	if n == 0 {
		return nil
	}
	w := p.words[p.at]
	return fmt.Errorf("column %d: %q counts from a day that a file does not have; "+
		"write the date like \"on 3 January 2027 at 14:00\"", w.column, w.written)
}
