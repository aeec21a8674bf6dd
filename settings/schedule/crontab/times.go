package crontab

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Times says at which minutes of the clock a job is due. Bit i of a set is the value i.
type Times struct {
	// Text has the five fields as written, with single blanks. Minutes a~b stand as a.
	Text string
	// Spread is how many minutes the random minute a~b can be later than a.
	Spread int

	minute, hour, day, month, weekday set
	// wild: the minute or the hour begins with *, so the job follows elapsed time where the clock changes.
	wild bool
	// both: a field of days begins with *, so a day must be in both of them; else one is enough.
	both bool
}

type set uint64

func (s set) has(n int) bool { return s>>n&1 != 0 }

// A field is one of the five columns.
type field struct {
	name      string
	low, high int
	names     []string // of the values from low on
}

var columns = [5]field{
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day of month", 1, 31, nil},
	{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{"day of week", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

var special = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// Check reports whether the daemons of hosts, cronie and the cron of Debian, accept the text as the times of a job:
// five fields, or a word such as @reboot. A random minute is an error, because Debian's does not know it.
func Check(text string) error {
	if strings.HasPrefix(text, "@") {
		_, _, err := named(text)
		return err
	}
	if strings.HasPrefix(text, "CRON_TZ=") || strings.HasPrefix(text, "TZ=") {
		return errors.New("the cron daemon of a host has no zones")
	}
	t, rest, err := parseTimes(text)
	switch {
	case err != nil:
		return err
	case rest != "":
		return fmt.Errorf("%.40q follows the five fields", rest)
	case strings.Contains(text, "~"):
		return errors.New("there is no random minute in Debian's cron; name the minute")
	case !t.possible():
		return errors.New("it never fires: no month that it names has such a day")
	}
	return nil
}

// possible reports whether any month has one of the days. If one field of days is enough, a weekday always comes.
func (t Times) possible() bool {
	if !t.both {
		return true
	}
	for month, length := range [13]int{1: 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31} {
		if t.month.has(month) && t.day&(1<<(length+1)-1) != 0 {
			return true
		}
	}
	return false
}

// named reads a word such as @daily, in lower case as the daemon does.
func named(word string) (t Times, reboot bool, err error) {
	if word == "@reboot" {
		return Times{}, true, nil
	}
	fields, ok := special[word]
	if !ok {
		return Times{}, false, fmt.Errorf("there is no %s; there are @reboot, @hourly, @daily, @midnight, "+
			"@weekly, @monthly, @yearly and @annually, in lower case", word)
	}
	t, _, err = parseTimes(fields + " x")
	t.Text = word
	return t, false, err
}

// parseTimes reads the five columns and returns the text after them.
func parseTimes(text string) (Times, string, error) {
	var t Times
	sets := [5]*set{&t.minute, &t.hour, &t.day, &t.month, &t.weekday}
	var words [5]string
	for i, column := range columns {
		word, rest := cutWord(text)
		if word == "" {
			return Times{}, "", fmt.Errorf("five fields are needed, minute hour day-of-month month day-of-week, "+
				"and there are %d", i)
		}
		spread, err := column.read(word, sets[i])
		if err != nil {
			return Times{}, "", fmt.Errorf("%s %.60q: %w", column.name, word, err)
		}
		if spread.random {
			t.Spread = spread.high - spread.low
			word = strconv.Itoa(spread.low)
		}
		words[i] = word
		text = rest
	}
	if t.weekday.has(7) {
		t.weekday |= 1
	}
	t.Text = strings.Join(words[:], " ")
	t.wild = words[0][0] == '*' || words[1][0] == '*'
	t.both = words[2][0] == '*' || words[4][0] == '*'
	return t, text, nil
}

// A span is one element of a list: values from low to high.
type span struct {
	low, high, step int
	random          bool
}

// read adds the values of a list. It returns the span of a random value, which must be the whole field.
func (f field) read(word string, into *set) (span, error) {
	elements := strings.Split(word, ",")
	var random span
	for _, element := range elements {
		s, err := f.span(element)
		if err != nil {
			return span{}, err
		}
		if s.random {
			if f.name != "minute" || len(elements) > 1 {
				return span{}, fmt.Errorf("a random %s cannot be compared; name the values", f.name)
			}
			random = s
			s.high = s.low
		}
		for v := s.low; v <= s.high; v += s.step {
			*into |= 1 << v
		}
	}
	return random, nil
}

// span reads *, a, a-b, a~b, each but a and a~b with a step.
func (f field) span(text string) (span, error) {
	body, stepText, stepped := strings.Cut(text, "/")
	s := span{low: f.low, high: f.high, step: 1}
	if stepped {
		n, err := number(stepText)
		if err != nil || n == 0 {
			return span{}, fmt.Errorf("the step %q is no number above 0", stepText)
		}
		s.step = n
	}
	if body == "*" {
		return s, nil
	}
	lowText, highText, ranged := strings.Cut(body, "-")
	if !ranged {
		lowText, highText, s.random = strings.Cut(body, "~")
	}
	if stepped && !ranged {
		return span{}, fmt.Errorf("a step needs * or a range before it; for every %d from %s on write %s-%d/%d",
			s.step, lowText, lowText, f.high, s.step)
	}
	var err error
	if lowText != "" || !s.random {
		if s.low, err = f.value(lowText); err != nil {
			return span{}, err
		}
	}
	switch {
	case !ranged && !s.random:
		s.high = s.low
	case highText != "" || !s.random:
		if s.high, err = f.value(highText); err != nil {
			return span{}, err
		}
	}
	if s.low > s.high {
		return span{}, fmt.Errorf("the range %s runs backwards, which the daemon refuses", body)
	}
	return s, nil
}

func (f field) value(text string) (int, error) {
	if i := slices.Index(f.names, strings.ToLower(text)); i >= 0 {
		return f.low + i, nil
	}
	n, err := number(text)
	switch {
	case err != nil:
		return 0, err
	case n < f.low || n > f.high:
		return 0, fmt.Errorf("%d is not between %d and %d", n, f.low, f.high)
	}
	return n, nil
}

func number(text string) (int, error) {
	if text == "" || len(text) > 9 || strings.Trim(text, "0123456789") != "" {
		return 0, fmt.Errorf("%.20q is no number or name of this field", text)
	}
	return strconv.Atoi(text)
}

// List returns the five fields with each value listed, for readers that refuse steps which are larger than the field.
func (t Times) List() string {
	var out [5]string
	for i, s := range []set{t.minute, t.hour, t.day, t.month, t.weekday &^ (1 << 7)} {
		low, high := columns[i].low, columns[i].high
		if i == 4 {
			high = 6
		}
		var values []string
		for v := low; v <= high; v++ {
			if s.has(v) {
				values = append(values, strconv.Itoa(v))
			}
		}
		out[i] = strings.Join(values, ",")
		if len(values) == high-low+1 {
			out[i] = "*"
		}
	}
	return strings.Join(out[:], " ")
}
