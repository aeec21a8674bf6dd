package cron

import (
	"math/bits"
	"time"
)

// possible reports whether any day matches. Within 28 years without a skipped leap year every date falls on every
// weekday.
func (s spec) possible() bool {
	begin, end := int64(11323), int64(21550) // the first days of 2001 and 2029, since 1970
	if year := s.only.Year; year != 0 {
		begin = time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Unix() / (24 * 60 * 60)
		end = begin + 366
	}
	_, ok := s.match(begin*minutesPerDay, end*minutesPerDay)
	return ok
}

const minutesPerDay = 24 * 60

// match returns the first matching wall minute in [from, to), in minutes since 1970 of a clock without zone.
func (s spec) match(from, to int64) (int64, bool) {
	day := floorDiv(from, minutesPerDay)
	year, month, dom := civil(day)
	first := day - int64(dom-1)
	for first*minutesPerDay < to {
		length := daysIn(year, month)
		if s.month>>month&1 != 0 && (s.only.Year == 0 || s.only.Year == year) {
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

// days returns the matching days of the month that begins on day first: bit i is the i-th.
func (s spec) days(first int64, length int) uint32 {
	weekday := (first%7 + 7 + 4) % 7 // 1970-01-01 was a Thursday
	week := uint64(s.dow>>weekday|s.dow<<(7-weekday)) & 0x7F
	byWeekday := uint32(week * (1 | 1<<7 | 1<<14 | 1<<21 | 1<<28) << 1)
	days := s.dom & byWeekday
	if s.either {
		days = s.dom | byWeekday
	}
	return days & s.only.of(first, length)
}

// inDay returns the first matching minute of a day at or after from.
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

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func ceilDiv(a, b int64) int64 {
	return -floorDiv(-a, b)
}

// civil returns the date of a day counted from 1970-01-01.
func civil(day int64) (year, month, dom int) {
	y, m, d := time.Unix(day*24*60*60, 0).UTC().Date()
	return y, int(m), d
}

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}
