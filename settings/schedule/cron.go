package schedule

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// maxCronText is the longest expression; nobody writes one by hand that is longer.
const maxCronText = 1000

// Cron is one parsed expression of five fields.
type Cron struct {
	Text string // as written, without a zone and with single blanks
	spec spec
}

// spec is what an expression matches: bit i of a mask stands for the value i.
type spec struct {
	minute uint64
	hour   uint32
	dom    uint32
	month  uint16
	dow    uint8 // Sunday is bit 0
	// wild: the minute or hour field starts with *, so the entry follows elapsed time when clocks change.
	wild bool
	// either: neither day field starts with *, so one of them is enough.
	either bool
}

func (s spec) compare(o spec) int {
	return cmp.Or(cmp.Compare(s.minute, o.minute), cmp.Compare(s.hour, o.hour), cmp.Compare(s.dom, o.dom),
		cmp.Compare(s.month, o.month), cmp.Compare(s.dow, o.dow), compareBool(s.wild, o.wild), compareBool(s.either, o.either))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

var macros = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
	"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

// cronField is the range of one of the five fields.
type cronField struct {
	name     string
	min, max int
	names    []string // of the values from min on
}

var (
	weekdays   = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
	cronFields = [5]cronField{
		{"minute", 0, 59, nil},
		{"hour", 0, 23, nil},
		{"day of month", 1, 31, nil},
		{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
		{"day of week", 0, 7, weekdays},
	}
)

// ParseCron reads an expression: five fields of lists, ranges and steps, names of months and weekdays
// (the first three letters in any case; sat-mon goes over the end of the week), 7 for Sunday, ? for * in
// the day fields, and the macros from @hourly to @yearly. A leading CRON_TZ=zone (or TZ=zone) is cut off
// and returned; the zone is not looked up. What never comes (31 April) is an error, and so is all that
// other schedulers read and disagree on: seconds, L, W, #, empty list elements, signs, steps of 0 or
// above the field, ranges of numbers that run backwards.
func ParseCron(text string) (c Cron, zone string, err error) {
	if len(text) > maxCronText {
		return Cron{}, "", fmt.Errorf("cron expression has %d characters; the most are %d", len(text), maxCronText)
	}
	words := strings.Fields(text)
	if len(words) > 0 {
		if name, ok := cutZone(words[0]); ok {
			zone, words = name, words[1:]
			if zone == "" || len(words) == 0 {
				return Cron{}, "", fmt.Errorf("cron %q: write it like \"CRON_TZ=Europe/London 0 5 * * *\"", text)
			}
		}
	}
	c.Text = strings.Join(words, " ")
	c.spec, err = parseFields(words)
	if err != nil {
		return Cron{}, "", fmt.Errorf("cron %q: %w", text, err)
	}
	if !c.spec.possible() {
		return Cron{}, "", fmt.Errorf("cron %q never fires: no month that it names has such a day", text)
	}
	return c, zone, nil
}

func cutZone(word string) (string, bool) {
	if zone, ok := strings.CutPrefix(word, "CRON_TZ="); ok {
		return zone, true
	}
	return strings.CutPrefix(word, "TZ=")
}

func parseFields(words []string) (spec, error) {
	if len(words) > 0 && strings.HasPrefix(words[0], "@") {
		macro, err := expandMacro(words)
		if err != nil {
			return spec{}, err
		}
		words = strings.Fields(macro)
	}
	switch n := len(words); {
	case n == 0:
		return spec{}, fmt.Errorf("it is empty; five fields are needed, minute hour day-of-month month day-of-week")
	case n == 6:
		return spec{}, fmt.Errorf("it has six fields; five are needed, without seconds and years")
	case n != 5:
		return spec{}, fmt.Errorf("five fields are needed, minute hour day-of-month month day-of-week, and there are %d", n)
	}
	var masks [5]uint64
	var star [5]bool
	for i, f := range cronFields {
		var err error
		if masks[i], err = f.parse(words[i]); err != nil {
			return spec{}, fmt.Errorf("%s %q: %w", f.name, words[i], err)
		}
		star[i] = words[i][0] == '*' || words[i] == "?"
	}
	return spec{
		minute: masks[0], hour: uint32(masks[1]), dom: uint32(masks[2]), month: uint16(masks[3]),
		dow:  uint8(masks[4]&0x7F | masks[4]>>7),
		wild: star[0] || star[1], either: !star[2] && !star[4],
	}, nil
}

func expandMacro(words []string) (string, error) {
	name := strings.ToLower(words[0])
	fields, ok := macros[name]
	switch {
	case name == "@every":
		return "", fmt.Errorf("@every is written as the field interval")
	case name == "@reboot":
		return "", fmt.Errorf("@reboot is written as run_on_start: true")
	case !ok:
		return "", fmt.Errorf("there is no %s; there are @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually", words[0])
	case len(words) > 1:
		return "", fmt.Errorf("nothing may follow %s", words[0])
	}
	return fields, nil
}

// parse reads one field into a mask.
func (f cronField) parse(text string) (uint64, error) {
	if text == "?" {
		if f.max == 31 || f.max == 7 {
			return f.between(f.min, f.max, 1), nil
		}
		return 0, fmt.Errorf("? stands in the day fields only; write *")
	}
	var mask uint64
	for element := range strings.SplitSeq(text, ",") {
		m, err := f.element(element)
		if err != nil {
			return 0, err
		}
		mask |= m
	}
	return mask, nil
}

// element reads *, a, a-b, each with /step; a/step goes on to the end of the field, which is Saturday for weekdays.
func (f cronField) element(text string) (uint64, error) {
	if text == "" {
		return 0, fmt.Errorf("a list element is empty")
	}
	span, stepText, stepped := strings.Cut(text, "/")
	step := 1
	if stepped {
		var err error
		if step, err = number(stepText); err != nil {
			return 0, fmt.Errorf("step: %w", err)
		}
		if step < 1 || step > f.max {
			return 0, fmt.Errorf("step %d is not between 1 and %d", step, f.max)
		}
	}
	if span == "*" {
		return f.between(f.min, f.max, step), nil
	}
	lowText, highText, ranged := strings.Cut(span, "-")
	low, lowNamed, err := f.value(lowText)
	if err != nil {
		return 0, err
	}
	high, highNamed := low, lowNamed
	switch {
	case ranged:
		if high, highNamed, err = f.value(highText); err != nil {
			return 0, err
		}
	case stepped:
		high = f.max
		if f.max == 7 {
			high = max(low, 6) // the week ends on Saturday; Sunday is not there twice
		}
	}
	if low <= high {
		return f.between(low, high, step), nil
	}
	if f.max == 7 && (lowNamed || highNamed) {
		return f.between(low, high+7, step), nil
	}
	return 0, fmt.Errorf("range %s runs backwards; write %s-%d,%d-%s", span, lowText, f.max, f.min, highText)
}

// between sets the values from low to high; a day of week above 7 is one of the next week.
func (f cronField) between(low, high, step int) uint64 {
	var mask uint64
	for i := low; i <= high; i += step {
		if f.max == 7 {
			mask |= 1 << (i % 7)
		} else {
			mask |= 1 << i
		}
	}
	return mask
}

func (f cronField) value(text string) (n int, named bool, err error) {
	if i := slices.Index(f.names, strings.ToLower(text)); i >= 0 {
		return f.min + i, true, nil
	}
	if n, err = number(text); err != nil {
		return 0, false, err
	}
	if n < f.min || n > f.max {
		return 0, false, fmt.Errorf("%d is not between %d and %d", n, f.min, f.max)
	}
	return n, false, nil
}

func number(text string) (int, error) {
	if text == "" {
		return 0, fmt.Errorf("a number is missing")
	}
	if strings.Trim(text, "0123456789") != "" || len(text) > 9 {
		return 0, fmt.Errorf("%q is no number or name that belongs here", text)
	}
	return strconv.Atoi(text)
}

// possible tells whether any day matches. Within 28 years that hold no skipped leap year every date falls
// on every day of the week.
func (s spec) possible() bool {
	const year2001, year2029 = 11323, 21550 // days since 1970
	_, ok := s.match(year2001*minutesPerDay, year2029*minutesPerDay)
	return ok
}

const minutesPerDay = 24 * 60

// match returns the first matching wall minute in [from, to), counted from 1970 on a clock without zone.
func (s spec) match(from, to int64) (int64, bool) {
	day := floorDiv(from, minutesPerDay)
	year, month, dom := civil(day)
	first := day - int64(dom-1)
	for first*minutesPerDay < to {
		length := daysIn(year, month)
		if s.month>>month&1 != 0 {
			for days := s.days(first, length) >> dom << dom; days != 0; days &= days - 1 {
				d := first + int64(bits.TrailingZeros32(days)) - 1
				if m, ok := s.inDay(max(0, from-d*minutesPerDay)); ok {
					at := d*minutesPerDay + m
					return at, at < to
				}
			}
		}
		first, dom = first+int64(length), 1
		if month++; month > 12 {
			year, month = year+1, 1
		}
	}
	return 0, false
}

// days gives the matching days of the month that begins on day first: bit i is the i-th.
func (s spec) days(first int64, length int) uint32 {
	weekday := (first%7 + 7 + 4) % 7 // 1970-01-01 was a Thursday
	week := uint64(s.dow>>weekday|s.dow<<(7-weekday)) & 0x7F
	byWeekday := uint32(week * (1 | 1<<7 | 1<<14 | 1<<21 | 1<<28) << 1)
	days := s.dom & byWeekday
	if s.either {
		days = s.dom | byWeekday
	}
	return days & (1<<(length+1) - 2)
}

// inDay returns the first matching minute of a day from the given one on.
func (s spec) inDay(from int64) (int64, bool) {
	hour := from / 60
	if s.hour>>hour&1 != 0 {
		if rest := s.minute >> (from % 60) << (from % 60); rest != 0 {
			return hour*60 + int64(bits.TrailingZeros64(rest)), true
		}
	}
	rest := s.hour >> (hour + 1) << (hour + 1)
	if rest == 0 {
		return 0, false
	}
	return int64(bits.TrailingZeros32(rest))*60 + int64(bits.TrailingZeros64(s.minute)), true
}
