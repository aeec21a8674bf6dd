package phrase

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

const (
	minutesPerDay = 24 * 60
	dayLong       = 24 * time.Hour
)

// fires are the minute and hour fields of one cron expression.
type fires struct{ minute, hour string }

// timing returns the timing that the clauses mean together.
func (m *meaning) timing() (Timing, error) {
	m.biweekly()
	if err := m.counted(); err != nil {
		return Timing{}, err
	}
	if err := m.leaveOut(); err != nil {
		return Timing{}, err
	}
	if err := m.started(); err != nil {
		return Timing{}, err
	}
	if d, ok := m.interval(); ok {
		if !m.bare() {
			return Timing{}, fmt.Errorf(
				"every %d %ss is an interval that does not follow the wall clock; only a zone may stand beside it",
				m.count, m.unit,
			)
		}
		return Timing{Interval: d}, nil
	}
	switch {
	case m.only.Year != 0:
		if err := m.once(); err != nil {
			return Timing{}, err
		}
	case m.unit == none && m.bare() && m.only == (cron.Days{}):
		return Timing{}, errors.New("it does not say when; write it like \"every monday at 9am\"")
	case m.startOf == hour && m.hours != nil:
		return Timing{}, errors.New("a range of hours has a start already")
	case m.startOf != none && m.startOf != m.unit:
		return Timing{}, fmt.Errorf("a start at a certain %s needs a period in %ss", m.startOf, m.startOf)
	}
	days, err := m.days()
	if err != nil {
		return Timing{}, err
	}
	hours, err := m.day()
	if err != nil {
		return Timing{}, err
	}
	t := Timing{Days: m.only}
	for _, f := range hours {
		t.Cron = append(t.Cron, f.minute+" "+f.hour+" "+days)
	}
	return t, nil
}

// isTwoDays reports whether the phrase has a time from midnight to 6:00 in a night of certain days. "friday night at 2"
// may be on friday or saturday.
func (m *meaning) isTwoDays() bool {
	isNight := m.atNight || m.part == night
	if !isNight || m.weekdays|m.dates == 0 && m.only == (cron.Days{}) {
		return false
	}
	isEarly := func(minutes int) bool { return minutes < 6*60 }
	return m.hours != nil && isEarly(m.hours.from) || slices.ContainsFunc(m.times, isEarly)
}

// started puts the time of "starting at 9am" in.
func (m *meaning) started() error {
	if len(m.startAt) == 0 {
		return nil
	}
	at := m.startAt[0]
	noDays := m.unit == none && m.weekdays|m.dates == 0 && m.only == (cron.Days{})
	if noDays || len(m.startAt) > 1 {
		return errors.New("a start needs one period; write it like \"every 4 hours starting at 1am\"")
	}
	switch {
	case m.unit > hour || m.unit == none:
		m.times, m.startAt = append(m.times, at), nil
	case m.unit == hour && at/60 < m.count && m.count <= 24:
		if m.minutes != 0 || m.startOf != none {
			return errors.New("a start and a minute of the hour do not go together")
		}
		m.minutes, m.startAt = 1<<(at%60), nil
		m.start, m.startOf = at/60, hour
	default:
		return fmt.Errorf("a start at %d:%02d does not say when the day's last run is; "+
			"write \"every %d %ss between %[1]d:%02[2]d and midnight\"", at/60, at%60, m.count, m.unit)
	}
	return nil
}

// bare reports whether the phrase has no other clauses than a period and a zone.
func (m *meaning) bare() bool {
	rest := *m
	rest.unit, rest.count, rest.zone = none, 0, ""
	noDays := rest.only == (cron.Days{}) && rest.weekdays|rest.dates|rest.months == 0
	noTimes := rest.minutes == 0 && len(rest.times) == 0 && rest.hours == nil && rest.part == anyPart
	return noDays && noTimes && rest.startOf == none
}

// interval returns the period if no cron expression can express it.
func (m *meaning) interval() (time.Duration, bool) {
	n := time.Duration(m.count)
	switch {
	case m.unit == second:
		return n * time.Second, true
	case m.unit == minute && (m.count > 60 || 60%m.count != 0):
		return n * time.Minute, true
	case m.unit == hour && (m.count > 24 || 24%m.count != 0):
		return n * time.Hour, true
	case m.unit == day && m.count > 15:
		return n * dayLong, true
	case m.unit == week && m.count > 1:
		return n * 7 * dayLong, true
	}
	return 0, false
}

// days returns the fields day of month, month and day of week.
func (m *meaning) days() (string, error) {
	dates, months, weekdays := list(m.dates, 1, 31), list(m.months, 1, 12), list(m.weekdays, 0, 6)
	if m.only.LastDay && (dates != "*" || weekdays != "*") {
		return "", errors.New("the last day of the month and other days do not go together; write two entries")
	}
	if dates != "*" && weekdays != "*" {
		return "", errors.New("a date and a weekday together mean either of them; write two entries")
	}
	switch {
	case m.unit == day && m.count > 1:
		if dates != "*" || weekdays != "*" {
			return "", fmt.Errorf("every %d days and other days do not go together", m.count)
		}
		dates = m.step("*", 31)
	case m.unit == week && weekdays == "*":
		if dates != "*" {
			return "", errors.New("every week and dates of a month do not go together")
		}
		weekdays = "0"
	case m.unit == month:
		if m.count > 12 || 12%m.count != 0 {
			return "", fmt.Errorf("every %d months do not come at the same time each year; name the months", m.count)
		}
		if m.count > 1 {
			if months != "*" {
				return "", errors.New("a period in months and named months do not go together")
			}
			months = "*/" + strconv.Itoa(m.count)
			if m.count == 12 {
				months = "1"
			}
		}
		if dates == "*" && weekdays == "*" && !m.only.LastDay {
			dates = "1"
		}
	case m.unit == year:
		if m.count > 1 {
			return "", fmt.Errorf("every %d years is too long; the longest period is a year", m.count)
		}
		if months == "*" {
			months = "1"
		}
		if dates == "*" && weekdays == "*" {
			dates = "1"
		}
	}
	return dates + " " + months + " " + weekdays, nil
}

// day returns the fields minute and hour.
func (m *meaning) day() ([]fires, error) {
	byMinute, byHour := m.unit == minute && m.count < 60, m.unit == hour && m.count < 24 ||
		m.unit == minute && m.count == 60
	switch {
	case byHour && len(m.times) > 0:
		return nil, m.hourOrTime()
	case byMinute && len(m.times) > 0:
		return nil, fmt.Errorf("every %s and a time of day do not go together; say between which times", m.unit)
	case m.part != anyPart && m.hours == nil && len(m.times) == 0 && (byMinute || byHour || m.part != night):
		return nil, fmt.Errorf("the %s does not say at what time; name the time, or between which times", m.part)
	case m.hours != nil && m.hours.between != "" && !byMinute && !byHour && m.minutes == 0:
		return nil, fmt.Errorf("%q does not say how often; "+
			"write \"every hour %[1]s\", or the time of one run, with a splay", m.hours.between)
	case byMinute && m.minutes != 0:
		return nil, errors.New("a period in minutes and a minute of the hour do not go together")
	case len(m.times) > 0 && m.hours != nil:
		return nil, errors.New("times and a range of hours do not go together")
	case len(m.times) > 0 && m.minutes != 0:
		return nil, errors.New("times and a minute of the hour do not go together")
	case m.hours != nil && m.hours.from > m.hours.to && m.weekdays|m.dates|m.months != 0 &&
		(!byMinute || m.hours.to != 0):
		return nil, errors.New("a range of hours over midnight would end on another day; write two entries")
	case byMinute && m.hours == nil:
		return []fires{{m.step("*", 59), "*"}}, nil
	case byMinute:
		return m.byMinute(), nil
	case m.hours != nil:
		return group(m.byHour()), nil
	case byHour || m.minutes != 0 && m.unit == none:
		return []fires{{list(max(m.minutes, 1), 0, 59), m.step("*", 23)}}, nil
	case m.minutes != 0:
		return nil, fmt.Errorf("every %s needs a time of day, not a minute of the hour", m.unit)
	case len(m.times) == 0:
		return []fires{{"0", "0"}}, nil
	}
	return group(m.times), nil
}

// hourOrTime returns the error of "every hour at 15" and "every 4 hours at 8am".
func (m *meaning) hourOrTime() error {
	h, min := m.times[0]/60, m.times[0]%60
	write := fmt.Sprintf("every %d hours starting at %d:%02d", m.count, h%m.count, min)
	if m.unit == minute || m.count == 1 {
		past := min
		if past == 0 {
			past = h
		}
		write = fmt.Sprintf("every hour at minute %d", past)
	}
	return fmt.Errorf("a period of hours and a time of day do not go together; write %q, or \"every day at %d:%02d\"",
		write, h, min)
}

// step returns the field of the period: whole, with the step and start of the phrase.
func (m *meaning) step(whole string, largest int) string {
	if m.startOf != none && m.startOf == m.unit {
		if m.count == 1 {
			return fmt.Sprintf("%d-%d", m.start, largest)
		}
		return fmt.Sprintf("%d/%d", m.start, m.count)
	}
	if m.count <= 1 || m.count == 60 {
		return whole
	}
	return whole + "/" + strconv.Itoa(m.count)
}

// byHour returns the times of day in the range of hours for a period of hours: the minutes of the phrase in every
// count-th hour.
func (m *meaning) byHour() []int {
	minutes, every := m.minutes, 1
	if minutes == 0 {
		minutes = 1 << (m.hours.from % 60)
	}
	if m.unit == hour {
		every = m.count
	}
	return m.hours.times(1, func(minute, i int) bool { return minutes>>minute&1 != 0 && i/60%every == 0 })
}

// byMinute returns the fires in the range of hours for a period of minutes. Whole hours keep the field */n, which
// follows elapsed time where daylight saving begins or ends.
func (m *meaning) byMinute() []fires {
	start := 0
	if m.startOf == minute {
		start = m.start
	}
	falls := func(minute, _ int) bool { return minute >= start && (minute-start)%m.count == 0 }
	all := group(span{to: 60}.times(0, falls))[0].minute
	found := group(m.hours.times(0, falls))
	for i := range found {
		if found[i].minute == all {
			found[i].minute = m.step("*", 59)
		}
	}
	return found
}

// times returns the times of day in the span for which keep returns true. keep gets the minute of the hour and the
// minutes since the start. end is 1 if the end belongs to the span, else 0.
func (s span) times(end int, keep func(minute, i int) bool) []int {
	length := (s.to - s.from + minutesPerDay) % minutesPerDay
	var found []int
	for i := range length + end {
		if at := (s.from + i) % minutesPerDay; keep(at%60, i) {
			found = append(found, at)
		}
	}
	return found
}

// group returns the fires at times of day: one for all hours with the same minutes.
func group(times []int) []fires {
	byHour := make(map[int]uint64)
	for _, at := range times {
		byHour[at/60] |= 1 << (at % 60)
	}
	byMinutes := make(map[uint64]uint64)
	for hour, minutes := range byHour {
		byMinutes[minutes] |= 1 << hour
	}
	found := make([]fires, 0, len(byMinutes))
	for _, minutes := range sorting.Values(maps.Keys(byMinutes), func(a, b uint64) int {
		return bits.TrailingZeros64(byMinutes[a]) - bits.TrailingZeros64(byMinutes[b])
	}) {
		found = append(found, fires{list(minutes, 0, 59), list(byMinutes[minutes], 0, 23)})
	}
	return found
}

// list returns a mask as a field: * if it is empty or full, else a list of ranges.
func list(mask uint64, smallest, largest int) string {
	if mask == 0 || bits.OnesCount64(mask) == largest-smallest+1 {
		return "*"
	}
	var parts []string
	for v := smallest; v <= largest; v++ {
		if mask>>v&1 == 0 {
			continue
		}
		last := v
		for last < largest && mask>>(last+1)&1 != 0 {
			last++
		}
		switch last - v {
		case 0:
			parts = append(parts, strconv.Itoa(v))
		case 1:
			parts = append(parts, strconv.Itoa(v), strconv.Itoa(last))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", v, last))
		}
		v = last
	}
	return strings.Join(parts, ",")
}
