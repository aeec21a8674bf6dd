// Package phrase parses English phrases that say when an entry runs, such as "every monday at 9am". [Parse] returns the
// cron expressions or the interval that a phrase means.
//
// A phrase is a list of clauses in any order. Case, commas between clauses and the words the, each, of the month
// make no difference.
//
//	period   every minute | hour | day | week | month | year, every 15 minutes, every 15m, every other day,
//	         hourly, daily, weekly, monthly, yearly
//	days     every monday, on mon and fri, monday to friday, every weekday, on weekends
//	dates    on the 1st and 15th, first of the month, on day 2, from the 25th to the last
//	months   in january, from march to may
//	times    at 9am, at 18:00 and 20:30, at five pm, at noon, at midnight, every evening at 8, every night at 11
//	minutes  at minute 11, on minute 10 and 30, on the hour, on the half hour, on the minute
//	         at :15, 5 past every hour
//	hours    between 8am and 6pm, 8am to 5pm
//	start    starting at minute 1, starting at hour 8, starting at day 3, every 4 hours starting at 1am
//	zone     in Europe/London, UTC
//	counts   twice a day, twice a day at 8am and 8pm, 4 times an hour, twice a week on mon and thu
//	weeks    last friday of the month, first and third monday, last day of the month, every other tuesday
//	         last weekday of the month, 5th working day of the month
//	except   every day except sunday, every month but august
//	once     on 3 January 2027 at 14:00, 2027-01-03 at noon, in 2 hours
//
// Days without times mean midnight; days with hours mean every full hour of them, but "between 1am and 5am" must say
// how often, because people mean once in that time. The hour at the end of a range of hours belongs to it for a period
// of an hour or more ("every hour, 8am to 5pm" runs at 17:00), but not for a period of minutes ("every 15 minutes
// between 8am and 6pm" runs last at 17:45).
//
// A phrase becomes cron expressions if there are any with its meaning. A period of seconds, or one that does not divide
// the next larger unit (90 minutes, 27 hours, 2 weeks), becomes an interval and allows no other clause than a zone.
// Periods of days ("every 2 days") start again on the first of each month.
//
// Every other week is counted from Monday 5 January 1970. A number alone is an hour of 24, but "between 9 and 5" and
// "9 to 5" end in the afternoon. [Dated] replaces tomorrow and other words that count from today.
//
// Known gap: phrases are English.
package phrase

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
)

// Timing is the meaning of a phrase: either Cron expressions of five fields, which all fire, or an Interval, or a delay
// After an entry was first seen.
type Timing struct {
	Cron     []string
	Days     cron.Days // to which all of the expressions are narrowed
	Interval time.Duration
	After    time.Duration
	Zone     string // as written in the phrase; not looked up
}

// MaxLength is the longest phrase, in bytes.
const MaxLength = 200

// Parse parses a phrase. The error names the first unknown word, or the clauses that contradict each other.
func Parse(text string) (Timing, error) {
	if len(text) > MaxLength {
		return Timing{}, fmt.Errorf("the phrase has %d characters; the most are %d", len(text), MaxLength)
	}
	p := &parser{words: split(text)}
	if len(p.words) == 0 {
		return Timing{}, errors.New("the phrase is empty; write it like \"every monday at 9am\"")
	}
	return p.parse()
}

func (p *parser) parse() (Timing, error) {
	if after, ok := p.delay(); ok {
		return Timing{After: after}, nil
	}
	for !p.done() {
		if err := p.clause(); err != nil {
			return Timing{}, err
		}
	}
	t, err := p.meaning.timing()
	if err == nil && p.meaning.isTwoDays() {
		return Timing{}, errors.New("a night of certain days has the first hours of the next day; " + p.withoutNight(t))
	}
	t.Zone = p.meaning.zone
	return t, err
}

// unit is the unit of a period.
type unit int

const (
	none unit = iota
	second
	minute
	hour
	day
	week
	month
	year
)

func (u unit) String() string {
	return [...]string{"nothing", "second", "minute", "hour", "day", "week", "month", "year"}[u]
}

// meaning is the combined meaning of the clauses of a phrase.
type meaning struct {
	unit     unit   // of the period
	count    int    // units in the period
	weekdays uint64 // bit 0 is Sunday
	dates    uint64
	months   uint64
	minutes  uint64 // minutes of the hour
	times    []int  // times of day, in minutes since midnight
	hours    *span
	startAt  []int // the time of day of a start
	start    int   // first value of startOf in steps of the period
	startOf  unit  // none if the phrase has no start
	often    int   // runs in an hour or day, 0 if the phrase does not say
	oftenIn  unit  // hour or day
	oftenAt  int   // column of the words
	part     part  // anyPart if the phrase has none
	atNight  bool  // a time depends on the night
	zone     string
	only     cron.Days // the days that the phrase keeps

	exceptWeekdays, exceptMonths uint64
}

// span is a part of the day, from and to in minutes since midnight. It goes over midnight if to is not above from.
type span struct {
	from, to int
	between  string // the words if they begin with between
}
