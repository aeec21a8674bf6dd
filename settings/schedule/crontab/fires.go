package crontab

import (
	"math"
	"time"
)

// A change of the clock by more than this makes the daemon begin anew, without catching up.
const largeJump = 3 * 60 // minutes

// A Daemon says where a job runs.
type Daemon struct {
	Host *time.Location // zone of the host
	Job  *time.Location // zone that CRON_TZ names, nil if the job has none
}

// Fires returns when the daemon starts a job: the first n times after from, and none after until. A delay
// (RANDOM_DELAY, or a random minute) is left out.
func (d Daemon) Fires(t Times, from, until time.Time, n int) []time.Time {
	w := walk{times: t, host: clock{zone: d.Host}, job: clock{zone: d.Job}}
	begin := from.Truncate(time.Minute).Add(-24 * time.Hour).Unix() // the daemon sees a change of the clock before from
	w.virtual = w.host.minutes(begin) - 1
	var found []time.Time
	for at := begin; len(found) < n && at <= until.Unix(); at += 60 {
		if w.tick(at) && time.Unix(at, 0).After(from) {
			found = append(found, time.Unix(at, 0))
		}
	}
	return found
}

// A walk is what the daemon remembers between two minutes.
type walk struct {
	times   Times
	host    clock
	job     clock // without a zone if the job has none
	virtual int64 // the last minute of the host's clock whose jobs have run
	day     date  // of the last minute that was compared
}

// tick runs one minute, and reports whether the job starts.
func (w *walk) tick(unix int64) bool {
	if w.job.zone != nil {
		return w.due(w.job.minutes(unix))
	}
	now := w.host.minutes(unix)
	ahead := now - w.virtual
	switch {
	case ahead > largeJump, ahead < -largeJump:
		w.virtual = now
		return w.due(now)
	case ahead <= 0: // the clock was set back: fixed times have run
		return w.times.wild && w.due(now)
	case w.times.wild:
		w.virtual = now
		return w.due(now)
	}
	started := false
	for w.virtual < now { // fixed times of the minutes that were skipped
		w.virtual++
		if w.due(w.virtual) {
			started = true
		}
	}
	return started
}

// A date is one day of a calendar, in days since 1970.
type date struct {
	days                int64
	day, month, weekday int
}

// due reports whether a minute of a clock, since 1970, is one of the job's.
func (w *walk) due(minutes int64) bool {
	t := &w.times
	if !t.minute.has(int(minutes%60)) || !t.hour.has(int(minutes/60%24)) {
		return false
	}
	const perDay = 24 * 60
	if days := minutes / perDay; days != w.day.days {
		at := time.Unix(days*perDay*60, 0).UTC()
		w.day = date{days, at.Day(), int(at.Month()), int(at.Weekday())}
	}
	if !t.month.has(w.day.month) {
		return false
	}
	day, weekday := t.day.has(w.day.day), t.weekday.has(w.day.weekday)
	if t.both {
		return day && weekday
	}
	return day || weekday
}

// A clock shows the wall time of a zone.
type clock struct {
	zone       *time.Location
	from, till int64 // between which the offset holds, Unix seconds
	offset     int64
}

// minutes returns the minutes that the clock shows since 1970.
func (c *clock) minutes(unix int64) int64 {
	if unix < c.from || unix >= c.till {
		at := time.Unix(unix, 0).In(c.zone)
		_, offset := at.Zone()
		c.offset = int64(offset)
		c.from = unix
		c.till = unix + 60 // a table of zones beyond its end gives no bounds that can be trusted
		switch _, end := at.ZoneBounds(); {
		case end.IsZero():
			c.till = math.MaxInt64
		case end.Unix() > unix:
			c.till = end.Unix()
		}
	}
	return (unix + c.offset) / 60
}
