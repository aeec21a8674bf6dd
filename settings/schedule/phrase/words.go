package phrase

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// word is one word of a phrase, as written and in lower case.
type word struct {
	written, low string
	column       int // in characters, from 1
}

var numberWithUnit = regexp.MustCompile(`^([0-9]+)([a-z]+)`)

var isoDate = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`)

// split returns the words of a phrase. Commas, and dashes inside a word, are words too. A number with a unit (15m)
// becomes two words.
func split(text string) []word {
	var words []word
	column := 1
	for i, field := range strings.FieldsFunc(text, unicode.IsSpace) {
		if i == 0 {
			column += utf8.RuneCountInString(text[:strings.Index(text, field)])
		}
		at := strings.Index(text, field)
		text = text[at+len(field):]
		if i > 0 {
			column += at
		}
		begin := column
		column += utf8.RuneCountInString(field)
		for i, part := range strings.Split(field, ",") {
			if i > 0 {
				words = append(words, word{",", ",", begin - 1})
			}
			words = appendPart(words, part, begin)
			begin += utf8.RuneCountInString(part) + 1
		}
	}
	return workingDays(words)
}

// workingDays joins "working day", "business day" and the like to one word.
func workingDays(words []word) []word {
	for i := 0; i+1 < len(words); i++ {
		first, next := words[i].low, words[i+1].low
		isKind := among(first, "working business work week")
		if isKind && (next == "day" || next == "days") {
			words[i].written += " " + words[i+1].written
			words[i].low = "week" + next
			words = slices.Delete(words, i+1, i+2)
		}
	}
	for i := range words {
		if strings.HasPrefix(words[i].low, "workday") {
			words[i].low = "week" + words[i].low[len("work"):]
		}
	}
	return words
}

// appendPart appends what stands between two commas or blanks.
func appendPart(words []word, part string, column int) []word {
	low := strings.ToLower(part)
	switch {
	case part == "":
		return words
	case strings.Contains(part, "/"), isoDate.MatchString(part): // a zone, or a date
		return append(words, word{part, low, column})
	case strings.Contains(part, "-") && len(part) > 1:
		for j, side := range strings.Split(part, "-") {
			if j > 0 {
				words = append(words, word{"-", "-", column})
			}
			words = appendWord(words, side, column)
		}
		return words
	}
	return appendWord(words, part, column)
}

func appendWord(words []word, part string, column int) []word {
	low := strings.ToLower(part)
	whole := len(words)
	for rest := low; ; { // 1h30m
		m := numberWithUnit.FindStringSubmatch(rest)
		if m == nil || units[m[2]] == none || strings.HasSuffix(part, "M") { // M could mean months
			words = words[:whole]
			break
		}
		words = append(words, word{part, m[1], column}, word{part, m[2], column})
		if rest = rest[len(m[0]):]; rest == "" {
			return words
		}
	}
	switch low {
	case "":
		return words
	case "fortnight":
		return append(words, word{part, "2", column}, word{part, "weeks", column})
	}
	return append(words, word{part, low, column})
}

var units = map[string]unit{
	"second": second, "seconds": second, "sec": second, "secs": second, "s": second,
	"minute": minute, "minutes": minute, "min": minute, "mins": minute, "m": minute,
	"hour": hour, "hours": hour, "hr": hour, "hrs": hour, "h": hour,
	"day": day, "days": day, "d": day, "week": week, "weeks": week, "w": week,
	"month": month, "months": month, "year": year, "years": year, "y": year,
}

var adverbs = map[string]unit{
	"hourly": hour, "daily": day, "nightly": day, "weekly": week, "biweekly": week, "fortnightly": week,
	"monthly":   month,
	"quarterly": month, "yearly": year, "annually": year,
}

// adverbCounts has the units in the period of an adverb, if it is not one.
var adverbCounts = map[string]int{"biweekly": 2, "fortnightly": 2, "quarterly": 3}

var numbers = []string{
	"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
}

var ordinals = []string{
	"", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
	"twelfth",
}

// vocabulary returns the long words of phrases, for suggestions.
func vocabulary() []string {
	words := append(strings.Fields("every between starting weekday weekdays weekend noon midnight"+
		" except twice tomorrow today tonight fortnight"), ordinals[1:]...)
	for _, known := range []map[string]unit{units, adverbs} {
		for w := range known {
			if len(w) > 4 || w == "hour" || w == "week" || w == "year" {
				words = append(words, w)
			}
		}
	}
	slices.Sort(words) // so that the suggestion is always the same
	for day := time.Sunday; day <= time.Saturday; day++ {
		words = append(words, strings.ToLower(day.String()))
	}
	for month := time.January; month <= time.December; month++ {
		words = append(words, strings.ToLower(month.String()))
	}
	return words
}

func weekdayOf(w string) (int, bool) {
	w = strings.TrimSuffix(w, "s")
	for day := time.Sunday; day <= time.Saturday; day++ {
		if isName(w, day.String()) || w == "thur" && day == time.Thursday {
			return int(day), true
		}
	}
	return 0, false
}

func monthOf(w string) (int, bool) {
	for month := time.January; month <= time.December; month++ {
		if isName(w, month.String()) || w == "sept" && month == time.September {
			return int(month), true
		}
	}
	return 0, false
}

// isName reports whether w, in lower case, is a name or its first three letters.
func isName(w, name string) bool {
	name = strings.ToLower(name)
	return w == name || w == name[:3]
}

// numberOf parses a cardinal number below a thousand.
func numberOf(w string) (int, bool) {
	if i := slices.Index(numbers, w); i >= 0 {
		return i, true
	}
	switch w {
	case "fifteen":
		return 15, true
	case "twenty":
		return 20, true
	case "thirty":
		return 30, true
	}
	if len(w) > 3 || strings.Trim(w, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(w)
	return n, err == nil
}

// dateOf parses 1st to 31st and first to twelfth.
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

// isZone reports whether a word is an IANA zone name: it has a slash, or is UTC or GMT.
func isZone(w word) bool {
	area, _, ok := strings.Cut(w.low, "/")
	return ok && !isWeekday(area) && strings.Trim(area, "0123456789") != "" || w.low == "utc" || w.low == "gmt"
}

var clockForm = regexp.MustCompile(`^([0-9]{1,2})(?::([0-9]{2}))?([ap]m|[ap]\.m\.)?$`)

// clock is the first word of a time of day; am, pm, noon or midnight may follow as a second word.
type clock struct {
	hour, minute int
	at           int  // the index of the word
	half         byte // 'a' for am, 'p' for pm, 0 if the word has neither
	isWord       bool // noon or midnight
	bare         bool // a number alone, which is a time of day only after at, between or to
}

func isClock(w string) bool {
	_, ok := clockOf(w)
	return ok
}

func clockOf(w string) (clock, bool) {
	switch w {
	case "noon", "midday":
		return clock{hour: 12, half: 'p', isWord: true}, true
	case "midnight":
		return clock{hour: 12, half: 'a', isWord: true}, true
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

// minutes returns the minutes since midnight.
func (c clock) minutes() (n int, ok bool) {
	if c.minute > 59 || c.half == 0 && c.hour > 23 || c.half != 0 && (c.hour < 1 || c.hour > 12) {
		return 0, false
	}
	switch c.half {
	case 'a':
		c.hour %= 12
	case 'p':
		c.hour = c.hour%12 + 12
	}
	return c.hour*60 + c.minute, true
}

// yearOf parses a year of four digits.
func yearOf(w string) (int, bool) {
	if len(w) != 4 || strings.Trim(w, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(w)
	return n, err == nil
}
