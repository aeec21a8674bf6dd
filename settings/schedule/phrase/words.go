package phrase

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// word is one word of a phrase, as written and in lower case.
type word struct{ written, low string }

var glued = regexp.MustCompile(`^([0-9]+)([a-z]+)$`)

// split gives the words; commas are words, and so are dashes that stand between two things. A number with
// a unit of time (15m) becomes two.
func split(text string) []word {
	var words []word
	for field := range strings.FieldsSeq(text) {
		for i, part := range strings.Split(field, ",") {
			if i > 0 {
				words = append(words, word{",", ","})
			}
			switch low := strings.ToLower(part); {
			case part == "":
			case strings.Contains(part, "/"):
				words = append(words, word{part, low}) // a zone
			case strings.Contains(part, "-") && len(part) > 1:
				for j, side := range strings.Split(part, "-") {
					if j > 0 {
						words = append(words, word{part, "-"})
					}
					words = appendGlued(words, side)
				}
			default:
				words = appendGlued(words, part)
			}
		}
	}
	return words
}

func appendGlued(words []word, part string) []word {
	low := strings.ToLower(part)
	if m := glued.FindStringSubmatch(low); m != nil && units[m[2]] != none && !strings.HasSuffix(part, "M") { // months to some
		return append(words, word{part, m[1]}, word{part, m[2]})
	}
	if part == "" {
		return words
	}
	return append(words, word{part, low})
}

var units = map[string]unit{
	"second": second, "seconds": second, "sec": second, "secs": second, "s": second,
	"minute": minute, "minutes": minute, "min": minute, "mins": minute, "m": minute,
	"hour": hour, "hours": hour, "hr": hour, "hrs": hour, "h": hour,
	"day": day, "days": day, "d": day, "week": week, "weeks": week, "w": week,
	"month": month, "months": month, "year": year, "years": year, "y": year,
}

var adverbs = map[string]unit{
	"hourly": hour, "daily": day, "weekly": week, "monthly": month, "yearly": year, "annually": year,
}

var weekdayNames = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}

var monthNames = []string{
	"january", "february", "march", "april", "may", "june",
	"july", "august", "september", "october", "november", "december",
}

var numbers = []string{"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"}

var ordinals = []string{"", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth"}

func weekdayOf(w string) (int, bool) {
	w = strings.TrimSuffix(w, "s")
	i := slices.IndexFunc(weekdayNames, func(name string) bool {
		return w == name || w == name[:3] || w == "tue" && name == "tuesday" || (w == "thur" || w == "thu") && name == "thursday"
	})
	return i, i >= 0
}

func monthOf(w string) (int, bool) {
	i := slices.IndexFunc(monthNames, func(name string) bool { return w == name || w == name[:3] })
	return i + 1, i >= 0
}

// numberOf reads a cardinal number below a thousand.
func numberOf(w string) (int, bool) {
	if i := slices.Index(numbers, w); i >= 0 {
		return i, true
	}
	if len(w) > 3 || strings.Trim(w, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(w)
	return n, err == nil
}

// dateOf reads 1st to 31st and first to twelfth.
func dateOf(w string) (int, bool) {
	if i := slices.Index(ordinals[1:], w); i >= 0 {
		return i + 1, true
	}
	if len(w) < 3 || !slices.Contains([]string{"st", "nd", "rd", "th"}, w[len(w)-2:]) {
		return 0, false
	}
	n, ok := numberOf(w[:len(w)-2])
	return n, ok && n >= 1 && n <= 31 && w[0] != '0'
}

// isZone tells IANA zone names from words: they have a slash, or are one of the few that need none.
func isZone(w word) bool {
	return strings.Contains(w.written, "/") || w.low == "utc" || w.low == "gmt"
}

var clockForm = regexp.MustCompile(`^([0-9]{1,2})(?::([0-9]{2}))?([ap]m|[ap]\.m\.)?$`)

// clock is a time of day as its first word says it, before am, pm, noon or midnight that follow.
type clock struct {
	hour, minute int
	half         byte // 'a' or 'p', 0 where the word has none
	bare         bool // a number alone: a time only where one is expected
}

func clockOf(w string) (clock, bool) {
	switch w {
	case "noon", "midday":
		return clock{hour: 12, half: 'p'}, true
	case "midnight":
		return clock{hour: 12, half: 'a'}, true
	}
	if n := slices.Index(numbers, w); n > 0 {
		return clock{hour: n, bare: true}, true
	}
	m := clockForm.FindStringSubmatch(w)
	if m == nil {
		return clock{}, false
	}
	var c clock
	c.hour, _ = strconv.Atoi(m[1])
	c.minute, _ = strconv.Atoi(m[2])
	if m[3] != "" {
		c.half = m[3][0]
	}
	c.bare = m[2] == "" && m[3] == ""
	return c, true
}

// minutes gives the minute of the day.
func (c clock) minutes() (int, error) {
	switch {
	case c.minute > 59, c.half == 0 && c.hour > 23, c.half != 0 && (c.hour < 1 || c.hour > 12):
		return 0, fmt.Errorf("%d:%02d is no time of day", c.hour, c.minute)
	case c.half == 'a':
		return c.hour%12*60 + c.minute, nil
	case c.half == 'p':
		return (c.hour%12+12)*60 + c.minute, nil
	}
	return c.hour*60 + c.minute, nil
}
