// Package phrase reads the English phrases in which people say when something runs.
//
// A phrase is clauses in any order. Case, commas between clauses and the words the, each, of the month
// make no difference.
//
//	period   every minute | hour | day | week | month | year, every 15 minutes, every 15m, every other day,
//	         hourly, daily, weekly, monthly, yearly
//	days     every monday, on mon and fri, monday to friday, every weekday, on weekends
//	dates    on the 1st and 15th, first of the month, on day 2, from the 25th to the last
//	months   in january, from march to may
//	times    at 9am, at 18:00 and 20:30, at five pm, at noon, at midnight
//	minutes  at minute 11, on minute 10 and 30, on the hour, on the minute
//	hours    between 8am and 6pm, 8am to 5pm
//	start    starting at minute 1, starting at hour 8, starting at day 3
//	zone     in Europe/London, UTC
//
// Days without times mean midnight, and with hours every full hour. An hour that ends a stretch of hours
// is in it where something runs at most hourly ("every hour, 8am to 5pm" runs at 17:00) and is not where
// it runs by the minute ("every 15 minutes between 8am and 6pm" runs last at 17:45).
//
// A phrase becomes cron expressions where there are some that mean it. A period that does not divide the
// next larger unit (90 minutes, 27 hours, 2 weeks) or is one of seconds becomes an interval; it stands
// alone. Days in steps ("every 2 days") start anew on the first of each month.
package phrase

import (
	"errors"
	"fmt"
	"time"
)

// Timing is what a phrase means: Cron expressions of five fields, any of which fires, or an Interval.
type Timing struct {
	Cron     []string
	Interval time.Duration
	Zone     string // as written in the phrase; not looked up
}

// MaxLength is the longest phrase, in bytes.
const MaxLength = 200

// Parse reads a phrase. The error names the first word that is not understood, or what does not go
// together.
func Parse(text string) (Timing, error) {
	if len(text) > MaxLength {
		return Timing{}, fmt.Errorf("the phrase has %d characters; the most are %d", len(text), MaxLength)
	}
	p := parser{words: split(text)}
	if len(p.words) == 0 {
		return Timing{}, errors.New("the phrase is empty; write it like \"every monday at 9am\"")
	}
	for !p.done() {
		if err := p.clause(); err != nil {
			return Timing{}, err
		}
	}
	t, err := p.meaning.timing()
	t.Zone = p.meaning.zone
	return t, err
}

// unit is what a period counts.
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

// meaning is what the clauses of a phrase say together.
type meaning struct {
	unit     unit
	count    int    // of units
	weekdays uint64 // bit 0 is Sunday
	dates    uint64
	months   uint64
	marks    uint64 // minutes of the hour
	times    []int  // minutes of the day
	hours    *span
	start    int // where steps of the unit begin
	startOf  unit
	zone     string
}

// span is a stretch of the day in minutes; it ends after midnight where to is not above from.
type span struct{ from, to int }
