package cron

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

const maxTimes = 8 // times of day that are listed one by one

// English describes when the expression fires: "every 4 hours at minute 0", "every day at 09:00 and 17:00",
// "at 09:00 on Monday to Friday".
func (e Expr) English() string {
	s, words := e.spec, strings.Fields(e.Text)
	if len(words) == 1 {
		words = strings.Fields(macros[strings.ToLower(words[0])])
	}
	if len(words) != len(fields) {
		return "never"
	}
	text := s.timeOfDay(words[0], words[1])
	days := s.daysOfMonth()
	if fixed := strings.HasPrefix(text, "at "); fixed && days == "" && s.month == allMonths {
		text = "every day " + text
	}
	if days != "" {
		text += " on " + days
	}
	if s.month != allMonths {
		text += " in " + spoken(uint64(s.month), 1, 12, func(m int) string { return time.Month(m).String() })
	}
	if s.only.LastDay && s.only.Weeks == 0 && !s.only.Alternate {
		text = strings.TrimPrefix(text, "every day ")
	}
	return text + s.only.english()
}

const (
	allMinutes = 1<<60 - 1
	allHours   = 1<<24 - 1
	allDates   = 1<<32 - 2
	allMonths  = 1<<13 - 2
	allDays    = 1<<7 - 1
)

func (s spec) timeOfDay(minuteText, hourText string) string {
	minutes := plural("minute", spoken(s.minute, 0, 59, strconv.Itoa))
	hours := plural("hour", spoken(uint64(s.hour), 0, 23, strconv.Itoa))
	minuteStep, byMinute := steps(minuteText, "minute", 60)
	hourStep, byHour := steps(hourText, "hour", 24)
	switch {
	case byMinute && s.hour == allHours:
		return minuteStep
	case byMinute && byHour:
		return minuteStep + " in " + hourStep
	case byMinute:
		return minuteStep + " in the " + hours
	case s.hour == allHours:
		return "every hour at " + minutes
	case byHour:
		return hourStep + " at " + minutes
	case bits.OnesCount64(s.minute)*bits.OnesCount32(s.hour) > maxTimes:
		return "at " + minutes + " of the " + hours
	}
	var times []string
	for h := range 24 {
		for m := range 60 {
			if s.hour>>h&1 != 0 && s.minute>>m&1 != 0 {
				times = append(times, fmt.Sprintf("%02d:%02d", h, m))
			}
		}
	}
	return "at " + and(times)
}

// steps describes the field * or */n; ok is false for other fields.
func steps(text, unit string, size int) (description string, ok bool) {
	if text == "*" {
		return "every " + unit, true
	}
	n, err := strconv.Atoi(strings.TrimPrefix(text, "*/"))
	switch {
	case err != nil || !strings.HasPrefix(text, "*/"):
		return "", false
	case n == 1:
		return "every " + unit, true
	case size%n != 0:
		return fmt.Sprintf("every %d %ss from %s 0 on", n, unit, unit), true
	}
	return fmt.Sprintf("every %d %ss", n, unit), true
}

func (s spec) daysOfMonth() string {
	dates := plural("day", spoken(uint64(s.dom), 1, 31, strconv.Itoa)) + " of the month"
	weekdays := spoken(uint64(s.dow), 0, 6, func(d int) string { return time.Weekday(d).String() })
	freeDates, freeDays := s.dom == allDates && !s.either, s.dow == allDays && !s.either
	switch {
	case freeDates && freeDays:
		return ""
	case freeDates:
		return weekdays
	case freeDays:
		return dates
	case s.either:
		return dates + " or on " + weekdays
	}
	return weekdays + " if it is " + dates
}

// spoken lists the values of a mask; three and more consecutive values become a range.
func spoken(mask uint64, least, most int, name func(int) string) string {
	var parts []string
	for v := least; v <= most; v++ {
		if mask>>v&1 == 0 {
			continue
		}
		last := v
		for last < most && mask>>(last+1)&1 != 0 {
			last++
		}
		if last-v >= 2 {
			parts = append(parts, name(v)+" to "+name(last))
			v = last
			continue
		}
		parts = append(parts, name(v))
	}
	return and(parts)
}

// plural returns the noun, in the plural for more than one number, and the list of numbers.
func plural(noun, list string) string {
	if strings.Trim(list, "0123456789") != "" {
		noun += "s"
	}
	return noun + " " + list
}

func and(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	last := len(parts) - 1
	return strings.Join(parts[:last], ", ") + " and " + parts[last]
}
