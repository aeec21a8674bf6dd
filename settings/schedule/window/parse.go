package window

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// Hours is a part of the day, [From, To) in minutes from midnight. It goes over midnight if To is not above From.
type Hours struct{ From, To int }

var hoursForm = regexp.MustCompile(`^([0-9]{1,2}):([0-9]{2}) ?- ?([0-9]{1,2}):([0-9]{2})$`)

// ParseHours parses "08:00-18:00". The end may be 24:00. An empty window and a whole day are errors.
func ParseHours(text string) (Hours, error) {
	m := hoursForm.FindStringSubmatch(text)
	if m == nil {
		return Hours{}, fmt.Errorf("%.40q is not a window; write it like 08:00-18:00", text)
	}
	from, err := minuteOf(m[1], m[2])
	if err != nil {
		return Hours{}, fmt.Errorf("window %q: %w", text, err)
	}
	to, err := minuteOf(m[3], m[4])
	switch {
	case err != nil:
		return Hours{}, fmt.Errorf("window %q: %w", text, err)
	case from == minutesPerDay:
		return Hours{}, fmt.Errorf("window %q: only an end may be 24:00; write 00:00", text)
	case from == to:
		return Hours{}, fmt.Errorf("window %q is empty: start and end are equal", text)
	case from == 0 && to == minutesPerDay:
		return Hours{}, fmt.Errorf("window %q is the whole day; leave it out", text)
	}
	return Hours{from, to % minutesPerDay}, nil
}

func minuteOf(hour, minute string) (int, error) {
	h, _ := strconv.Atoi(hour)
	m, _ := strconv.Atoi(minute)
	if h > 24 || m > 59 || h == 24 && m > 0 {
		return 0, fmt.Errorf("%s:%s is not a time of day", hour, minute)
	}
	return h*60 + m, nil
}

// Compare orders windows by their start and end.
func (h Hours) Compare(o Hours) int { return cmp.Or(h.From-o.From, h.To-o.To) }

// String returns the form that ParseHours parses.
func (h Hours) String() string {
	return fmt.Sprintf("%02d:%02d-%02d:%02d", h.From/60, h.From%60, h.To/60, h.To%60)
}

// Days is a set of days, and of ranges between two instants.
type Days struct {
	Weekdays  uint8    // bit 0 is Sunday
	Dates     []Dates  // sorted
	Times     []Times  // sorted
	Calendars []string // names of calendars that are not replaced by their days yet
}

// Dates are the days from First to Last, both included, counted from 1970-01-01.
type Dates struct{ First, Last int }

// Times is the time [From, To).
type Times struct{ From, To time.Time }

var calendarName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*(-[A-Za-z0-9_]+)*$`)

const maxName = 64

// Add adds one element: a weekday (name, its first three letters, or 0 to 7), a range of weekdays ("mon-fri", also over
// the end of the week), a date ("2026-12-24"), a range of dates including both ends ("2026-12-24/2027-01-06"), a range
// of RFC 3339 instants without its end ("2026-12-24T18:00:00Z/2027-01-02T06:00:00Z"), or the name of a calendar.
func (d *Days) Add(text string) error {
	if mask, ok := weekdays(text); ok {
		d.Weekdays |= mask
		return nil
	}
	first, last, ranged := strings.Cut(text, "/")
	if ranged && strings.Contains(first, "T") {
		return d.addTimes(first, last)
	}
	if !ranged {
		last = first
	}
	from, err := time.Parse(time.DateOnly, first)
	if err != nil {
		return d.addCalendar(text)
	}
	to, err := time.Parse(time.DateOnly, last)
	if err != nil {
		return badDay(text)
	}
	if to.Before(from) {
		return fmt.Errorf("%q ends before it starts", text)
	}
	d.Dates = append(d.Dates, Dates{dayOf(from), dayOf(to)})
	sorting.Func(d.Dates, func(a, b Dates) int { return cmp.Or(a.First-b.First, a.Last-b.Last) })
	d.Dates = slices.Compact(d.Dates)
	return nil
}

func (d *Days) addTimes(first, last string) error {
	from, err := time.Parse(time.RFC3339, first)
	to, err2 := time.Parse(time.RFC3339, last)
	if errors.Join(err, err2) != nil {
		return badDay(first + "/" + last)
	}
	if !from.Before(to) {
		return fmt.Errorf("%q ends before it starts", first+"/"+last)
	}
	d.Times = append(d.Times, Times{from.UTC(), to.UTC()})
	sorting.Func(d.Times, func(a, b Times) int { return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To)) })
	d.Times = slices.Compact(d.Times)
	return nil
}

func (d *Days) addCalendar(text string) error {
	if err := CheckName(text); err != nil {
		return badDay(text)
	}
	if i, found := slices.BinarySearch(d.Calendars, text); !found {
		d.Calendars = slices.Insert(d.Calendars, i, text)
	}
	return nil
}

// CheckName returns an error if name cannot be the name of a calendar, for example because it is a weekday.
func CheckName(name string) error {
	if _, ok := weekdays(name); ok {
		return fmt.Errorf("%q is a weekday and cannot be the name of a calendar", name)
	}
	if len(name) > maxName || !calendarName.MatchString(name) {
		return fmt.Errorf(
			"%.64q is not a name of a calendar; it has up to %d letters, digits, _ and -, a letter first", name,
			maxName,
		)
	}
	return nil
}

func badDay(text string) error {
	return fmt.Errorf("%.80q is not a weekday, date, range or calendar; write sat, mon-fri, 2026-12-24, "+
		"2026-12-24/2027-01-06, "+
		"2026-12-24T18:00:00Z/2027-01-02T06:00:00Z or a name under calendars", text)
}

// weekdays parses a weekday or a range of weekdays.
func weekdays(text string) (mask uint8, ok bool) {
	first, last, ranged := strings.Cut(text, "-")
	from, ok := weekday(first)
	if !ok {
		return 0, false
	}
	to := from
	if ranged {
		if to, ok = weekday(last); !ok {
			return 0, false
		}
	}
	for day := from; ; day = (day + 1) % 7 {
		mask |= 1 << day
		if day == to%7 {
			return mask, true
		}
	}
}

func weekday(text string) (int, bool) {
	if len(text) == 1 && text[0] >= '0' && text[0] <= '7' {
		return int(text[0]-'0') % 7, true
	}
	text = strings.ToLower(text)
	for day := time.Sunday; day <= time.Saturday; day++ {
		if name := strings.ToLower(day.String()); text == name || text == name[:3] {
			return int(day), true
		}
	}
	return 0, false
}

// Empty reports whether the set is empty.
func (d Days) Empty() bool {
	return d.Weekdays == 0 && len(d.Dates) == 0 && len(d.Times) == 0 && len(d.Calendars) == 0
}

func (d Days) contains(day int) bool {
	weekday := ((day+4)%7 + 7) % 7 // 1970-01-01 was a Thursday
	if d.Weekdays>>weekday&1 != 0 {
		return true
	}
	return slices.ContainsFunc(d.Dates, func(r Dates) bool { return day >= r.First && day <= r.Last })
}

func (d Days) covers(at time.Time) bool {
	return slices.ContainsFunc(d.Times, func(r Times) bool { return !at.Before(r.From) && at.Before(r.To) })
}

// Words describes the elements: "Monday to Friday", "2026-12-24".
func (d Days) Words() []string {
	var words []string
	for first := 0; first < 7; first++ {
		last := first
		for last < 6 && d.Weekdays>>(last+1)&1 != 0 {
			last++
		}
		if d.Weekdays>>first&1 == 0 {
			continue
		}
		words = append(words, between(time.Weekday(first).String(), time.Weekday(last).String(), last-first))
		first = last
	}
	for _, r := range d.Dates {
		words = append(words, between(dateText(r.First), dateText(r.Last), r.Last-r.First))
	}
	for _, r := range d.Times {
		words = append(words, r.From.Format(time.RFC3339)+" to "+r.To.Format(time.RFC3339))
	}
	for _, name := range d.Calendars {
		words = append(words, "calendar "+name)
	}
	return words
}

func dateText(day int) string {
	return time.Unix(int64(day)*24*60*60, 0).UTC().Format(time.DateOnly)
}

// between returns the words for a range whose last element is steps after its first.
func between(first, last string, steps int) string {
	switch steps {
	case 0:
		return first
	case 1:
		return first + " and " + last
	}
	return first + " to " + last
}
