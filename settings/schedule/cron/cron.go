// Package cron parses cron expressions of five fields and computes when they fire.
//
// [Parse] accepts the syntax of the cronie daemon, and also names, ranges that go over the end of the week, and macros.
// It refuses syntax that schedulers interpret in different ways, and the error names it. [Expr.Next] returns the next
// fire, [Expr.English] a description.
//
// Next walks over the periods in which a zone has one offset from UTC and matches wall times inside each period. So
// daylight saving is handled in one place, at the borders of a period, and a fire far away costs as little as a near
// one. All functions are pure, and values are safe for concurrent use.
//
// Known gap: Next looks at most 50 years ahead.
package cron

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	robfig "github.com/robfig/cron/v3"
)

const maxText = 1000 // bytes of an expression

// Expr is one parsed expression. The zero Expr never fires.
type Expr struct {
	Text string // as written, without a zone and with single blanks
	spec spec
}

// spec is what an expression matches: bit i of a mask is set if the value i matches.
type spec struct {
	minute uint64
	hour   uint32
	dom    uint32
	month  uint16
	dow    uint8 // Sunday is bit 0
	// wild: the minute or hour field starts with *, so fires follow elapsed time where daylight saving begins or ends.
	wild bool
	// either: neither day field starts with *, so a day matches if either field does.
	either bool
	only   Days
}

// Compare orders expressions by what they match, not by their text; 0 means that both always fire at the same times.
func (e Expr) Compare(o Expr) int {
	a, b := e.spec, o.spec
	return cmp.Or(cmp.Compare(a.minute, b.minute), cmp.Compare(a.hour, b.hour), cmp.Compare(a.dom, b.dom),
		cmp.Compare(a.month, b.month), cmp.Compare(a.dow, b.dow),
		compareBool(a.wild, b.wild), compareBool(a.either, b.either),
		a.only.compare(b.only))
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

// Append appends 20 bytes, or 24 of an expression that [Expr.On] has narrowed. They are equal for two expressions if
// and only if [Expr.Compare] returns 0.
func (e Expr) Append(b []byte) []byte {
	s := e.spec
	b = binary.BigEndian.AppendUint64(b, s.minute)
	b = binary.BigEndian.AppendUint32(b, s.hour)
	b = binary.BigEndian.AppendUint32(b, s.dom)
	b = binary.BigEndian.AppendUint16(b, s.month)
	b = append(b, s.dow, 0)
	narrowed := s.only != Days{}
	for i, set := range []bool{s.wild, s.either, narrowed} {
		if set {
			b[len(b)-1] |= 1 << i
		}
	}
	if narrowed {
		b = s.only.append(b)
	}
	return b
}

// Wild reports whether fires follow elapsed time where daylight saving begins or ends: the minute or hour field starts
// with *.
func (e Expr) Wild() bool { return e.spec.wild }

var macros = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
	"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

// field is one of the five fields with its smallest and largest value.
type field struct {
	name     string
	min, max int
	names    []string // names of values, the first one of min
}

var fields = [5]field{
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day of month", 1, 31, nil},
	{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{"day of week", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// starMark is the bit that the library sets in the mask of a field that is *.
const starMark = 1 << 63

// masks parses fields that check has accepted.
var masks = robfig.NewParser(robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow)

// Parse parses an expression: five fields of lists, ranges and steps, names of months and weekdays
// (the first three letters in any case; sat-mon goes over the end of the week), 7 for Sunday, ? for * in
// the day fields, and the macros from @hourly to @yearly. It returns the zone of a leading CRON_TZ=zone (or TZ=zone)
// without looking it up. An expression that never fires (31 April) is an error, and so is syntax on which schedulers
// disagree: seconds, L, W, #, empty list elements, signs, steps of 0 or above the field, ranges of numbers that run
// backwards.
func Parse(text string) (e Expr, zone string, err error) {
	if len(text) > maxText {
		return Expr{}, "", fmt.Errorf("cron expression has %d characters; the most are %d", len(text), maxText)
	}
	words := strings.Fields(text)
	if len(words) > 0 {
		if name, ok := cutZone(words[0]); ok {
			zone, words = name, words[1:]
			if zone == "" || len(words) == 0 {
				return Expr{}, "", fmt.Errorf("cron %q: write it like \"CRON_TZ=Europe/London 0 5 * * *\"", text)
			}
		}
	}
	e.Text = strings.Join(words, " ")
	e.spec, err = parseFields(words)
	if err != nil {
		return Expr{}, "", fmt.Errorf("cron %q: %w", text, err)
	}
	if !e.spec.possible() {
		return Expr{}, "", fmt.Errorf("cron %q never fires: no month that it names has such a day", text)
	}
	return e, zone, nil
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
		return spec{}, fmt.Errorf(
			"five fields are needed, minute hour day-of-month month day-of-week, and there are %d", n,
		)
	}
	var checked [5]string
	var star [5]bool
	for i, f := range fields {
		var err error
		if checked[i], err = f.check(words[i]); err != nil {
			if strings.HasPrefix(err.Error(), words[i]+" ") ||
				strings.HasPrefix(err.Error(), strconv.Quote(words[i])+" ") {
				return spec{}, fmt.Errorf("%s %w", f.name, err) // it begins with the field
			}
			return spec{}, fmt.Errorf("%s %q: %w", f.name, words[i], err)
		}
		star[i] = checked[i][0] == '*'
	}
	parsed, err := masks.Parse(strings.Join(checked[:], " "))
	if err != nil {
		return spec{}, err
	}
	m := parsed.(*robfig.SpecSchedule) // the only type that a parser without descriptors returns
	return spec{
		minute: m.Minute &^ starMark,
		hour:   uint32(m.Hour),
		dom:    uint32(m.Dom),
		month:  uint16(m.Month),
		dow:    uint8(m.Dow),
		wild:   star[0] || star[1],
		either: !star[2] && !star[4],
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
		return "", fmt.Errorf(
			"there is no %s; there are @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually", words[0],
		)
	case len(words) > 1:
		return "", fmt.Errorf("nothing may follow %s", words[0])
	}
	return fields, nil
}

// check returns the text of a field in the library's syntax. It refuses syntax on which schedulers disagree.
func (f field) check(text string) (string, error) {
	if text == "?" {
		if f.max == 31 || f.max == 7 {
			return "*", nil
		}
		return "", fmt.Errorf("? is allowed in the day fields only; write *")
	}
	elements := strings.Split(text, ",")
	for i, element := range elements {
		var err error
		if elements[i], err = f.element(element); err != nil {
			return "", err
		}
	}
	return strings.Join(elements, ","), nil
}

// element checks *, a or a-b, each with /step.
func (f field) element(text string) (string, error) {
	if text == "" {
		return "", fmt.Errorf("a list element is empty")
	}
	span, stepText, stepped := strings.Cut(text, "/")
	step := 1
	if stepped {
		var err error
		if step, err = number(stepText); err != nil {
			return "", fmt.Errorf("step: %w", err)
		}
		if step < 1 || step > f.max {
			return "", fmt.Errorf("step %d is not between 1 and %d", step, f.max)
		}
	}
	if span == "*" {
		return text, nil
	}
	lowText, highText, ranged := strings.Cut(span, "-")
	low, err := f.value(lowText)
	if err != nil {
		return "", err
	}
	high := low
	if ranged {
		if high, err = f.value(highText); err != nil {
			return "", err
		}
	}
	if low > high && (f.max != 7 || strings.Trim(span, "0123456789-") == "") {
		return "", fmt.Errorf("range %s runs backwards; write %s-%d,%d-%s", span, lowText, f.max, f.min, highText)
	}
	if f.max == 7 && (low > high || high == 7) {
		return daysOverSunday(low, high, step), nil
	}
	return text, nil
}

// daysOverSunday returns the list of weekdays of a range that reaches 7 or goes over the end of the week.
func daysOverSunday(low, high, step int) string {
	if low > high {
		high += 7
	}
	var days []string
	for day := low; day <= high; day += step {
		days = append(days, strconv.Itoa(day%7))
	}
	return strings.Join(days, ",")
}

func (f field) value(text string) (int, error) {
	if i := slices.Index(f.names, strings.ToLower(text)); i >= 0 {
		return f.min + i, nil
	}
	n, err := number(text)
	if err == nil && (n < f.min || n > f.max) {
		return 0, fmt.Errorf("%d is not between %d and %d", n, f.min, f.max)
	}
	return n, err
}

func number(text string) (int, error) {
	if text == "" {
		return 0, fmt.Errorf("a number is missing")
	}
	if strings.ContainsAny(text, "LW#") && strings.Trim(text, "0123456789LW#") == "" {
		return 0, fmt.Errorf("%q: L, W and # are not supported", text)
	}
	if strings.Trim(text, "0123456789") != "" || len(text) > 9 {
		return 0, fmt.Errorf("%q is not a number or name of this field", text)
	}
	return strconv.Atoi(text)
}
