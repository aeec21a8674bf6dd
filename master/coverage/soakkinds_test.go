package coverage_test

import (
	"iter"
	"maps"
	"slices"
	"time"
)

// fields are those of an entry, as in a settings file.
type fields map[string]any

// A plan returns the times in [from, until) at which an entry is due, computed without the code of the product.
type plan func(from, until time.Time) []time.Time

// A kind is an entry of the soak.
type kind struct {
	variants []variant // of the settings, one at a time
	takes    time.Duration
	exact    bool          // runs take exactly that long
	well     bool          // no run fails
	delay    time.Duration // from a planned time to the start of its run, at most
	// loose says that a rule may keep a planned time from running in a way that the test does not know, such as a limit of runs.
	loose  bool
	comes  bool                    // it is removed at times, and tables forget it
	waits  bool                    // it may wait until its start deadline has passed
	trips  bool                    // it has a breaker
	closed func(at time.Time) bool // by its windows; nil: never
	local  bool                    // it is in peel.yaml
	hand   bool                    // people run and pause it
}

// kindNames yields the names of all kinds.
func kindNames() iter.Seq[string] { return maps.Keys(kinds) }

// A variant is what an entry is in one version of the settings. One without fields is absent.
type variant struct {
	fields fields
	plan   plan // nil: its fires follow runs, other entries or the process
}

// every is due at all multiples of n since the epoch, plus off.
func every(n, off time.Duration) plan {
	return func(from, until time.Time) (list []time.Time) {
		for at := from.Add(-off - 1).Truncate(n).Add(n + off); at.Before(until); at = at.Add(n) {
			list = append(list, at)
		}
		return list
	}
}

// nightly is due at fixed times of the day in a zone: once where the zone shows a time twice, and at the end of the gap where it
// skips some.
func nightly(zone *time.Location, minutes ...int) plan {
	return func(from, until time.Time) (list []time.Time) {
		year, month, day := from.In(zone).Date()
		for d := -1; ; d++ {
			date := time.Date(year, month, day+d, 12, 0, 0, 0, zone)
			if date.Add(-14 * time.Hour).After(until) {
				return list
			}
			for _, m := range minutes {
				at := time.Date(date.Year(), date.Month(), date.Day(), m/60, m%60, 0, 0, zone)
				if hour, minute, _ := at.Clock(); hour*60+minute != m { // the zone skips it
					at = at.Truncate(time.Hour)
					for _, off := at.Add(-time.Second).Zone(); ; at = at.Add(time.Hour) {
						if _, is := at.Zone(); is != off {
							break
						}
					}
				}
				if !at.Before(from) && at.Before(until) && !slices.Contains(list, at.UTC()) {
					list = append(list, at.UTC())
				}
			}
		}
	}
}

func newYork() *time.Location {
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		panic(err)
	}
	return zone
}

// entryOf makes an entry of fields and of the timing that has a plan.
func entryOf(timing fields, p plan, more ...fields) []variant {
	f := fields{"module": "test.ping"}
	for _, one := range append([]fields{timing}, more...) {
		maps.Copy(f, one)
	}
	return []variant{{f, p}}
}

// byCron is an entry that is due every so many minutes of UTC.
func byCron(expression string, n time.Duration, more ...fields) []variant {
	return entryOf(fields{"cron": expression, "timezone": "UTC"}, every(n, 0), more...)
}

// kinds are the entries of each host of a soak, by name.
var kinds = makeKinds()

func makeKinds() map[string]*kind {
	const m, h = time.Minute, time.Hour
	ny := newYork()
	byDay, night := fields{"only_between": "08:00-18:00", "timezone": "UTC"}, fields{"cron": "30 1,2,3 * * *", "timezone": ny.String()}
	return map[string]*kind{
		"cron":       {variants: byCron("*/5 * * * *", 5*m), takes: 2 * m},
		"long":       {variants: byCron("*/10 * * * *", 10*m)}, // runs of up to 20 min: some are skipped
		"seconds":    {variants: byCron("* * * * *", m, fields{"late_after": "30s"}), takes: time.Second},
		"fixed":      {variants: entryOf(night, nightly(ny, 90, 150, 210)), takes: m},
		"when":       {variants: entryOf(fields{"when": "every day at 02:30", "timezone": ny.String()}, nightly(ny, 150)), takes: m},
		"epoch":      {variants: entryOf(fields{"interval": "15m", "interval_from": "epoch", "phase": "4m"}, every(15*m, 4*m)), takes: m},
		"splay":      {variants: byCron("*/10 * * * *", 10*m, fields{"splay": "4m"}), takes: m, delay: 4 * m},
		"host_splay": {variants: byCron("*/20 * * * *", 20*m, fields{"splay": "9m", "splay_mode": "host"}), takes: m, delay: 9 * m},
		"min_splay":  {variants: byCron("0 * * * *", h, fields{"splay": map[string]any{"min": "40m", "max": "50m"}}), takes: m, delay: 50 * m},
		"by_day":     {variants: byCron("*/20 * * * *", 20*m, byDay), takes: m, closed: func(at time.Time) bool { return at.Hour() < 8 || at.Hour() >= 18 }},
		"defer":      {variants: byCron("*/30 * * * *", 30*m, byDay, fields{"outside": "defer"}), takes: m, delay: 15 * h, loose: true},
		"queue":      {variants: byCron("*/10 * * * *", 10*m, fields{"if_running": "queue"}), delay: 3 * h, loose: true, waits: true},
		"cancel":     {variants: byCron("*/10 * * * *", 10*m, fields{"if_running": "cancel"}), delay: m},
		"allow":      {variants: byCron("*/10 * * * *", 10*m, fields{"if_running": "allow", "maxrunning": 2})},
		"group_a":    {variants: byCron("*/10 * * * *", 10*m, fields{"group": "g", "if_running": "queue"}), delay: 3 * h, loose: true, waits: true},
		"group_b":    {variants: byCron("*/15 * * * *", 15*m, fields{"group": "g", "if_running": "queue"}), takes: m, delay: 3 * h, loose: true, waits: true},
		"breaker": {
			variants: byCron("*/5 * * * *", 5*m, fields{"breaker": map[string]any{"threshold": 2, "reset_after": "30m"}}),
			takes:    m, trips: true,
		},
		"retry":   {variants: byCron("*/30 * * * *", 30*m, fields{"retry": map[string]any{"attempts": 2, "backoff": "90s"}}), takes: 5 * m},
		"timeout": {variants: byCron("*/30 * * * *", 30*m, fields{"timeout": "4m"})},
		"once":    {variants: byCron("*/20 * * * *", 20*m, fields{"catch_up": "run_once"}), takes: m, delay: 3 * h, loose: true},
		"all":     {variants: byCron("*/20 * * * *", 20*m, fields{"catch_up": "run_all", "catch_up_max": 9}), takes: m, delay: 3 * h, loose: true},
		"strict":  {variants: byCron("*/10 * * * *", 10*m, fields{"start_deadline": "1m", "if_running": "queue"}), delay: 2 * m, loose: true, waits: true},
		"of_host": {variants: entryOf(fields{"cron": "20 * * * *"}, every(h, 20*m)), takes: m},
		"by_hand": {variants: byCron("*/15 * * * *", 15*m), takes: 4 * m, hand: true},

		// Without a plan.
		"local":    {variants: entryOf(fields{"cron": "*/15 * * * *", "timezone": "UTC"}, nil), takes: m, local: true},
		"end":      {variants: entryOf(fields{"interval": "8m"}, nil), takes: 6 * m, exact: true},
		"end_hand": {variants: entryOf(fields{"interval": "1h"}, nil), takes: 2 * m, hand: true},
		"start":    {variants: entryOf(fields{"interval": "20m", "interval_from": "start"}, nil), takes: 5 * m},
		"after":    {variants: entryOf(fields{"after": "90m"}, nil)},
		"needs":    {variants: entryOf(fields{"needs": map[string]any{"entry": "cron"}}, nil), takes: m},
		"failure":  {variants: entryOf(fields{"needs": map[string]any{"entry": "cron", "on": "failure"}}, nil), takes: m},
		"done":     {variants: entryOf(fields{"needs": map[string]any{"entry": "long", "on": "done"}}, nil), takes: m},
		"both": {
			variants: entryOf(fields{"cron": "*/30 * * * *", "timezone": "UTC", "needs": map[string]any{"entry": "cron"}, "splay": "4m"}, nil),
			takes:    m,
		},
		"at_start": {variants: entryOf(fields{"cron": "40 * * * *", "timezone": "UTC", "run_on_start": true}, nil), takes: m},
		"max_runs": {variants: byCron("*/10 * * * *", 10*m, fields{"max_runs": 30}), takes: m, loose: true},
		"failing":  {variants: byCron("*/10 * * * *", 10*m, fields{"pause_after_errors": 4}), takes: m, loose: true},

		// Changed by reloads.
		"retimed": {variants: slices.Concat(byCron("*/5 * * * *", 5*m), entryOf(fields{"cron": "7,22,37,52 * * * *", "timezone": "UTC"}, every(15*m, 7*m))), takes: m},
		"swapped": {variants: slices.Concat(byCron("*/5 * * * *", 5*m, fields{"args": map[string]any{"n": 1}}),
			byCron("*/5 * * * *", 5*m, fields{"args": map[string]any{"n": 2}})), takes: m},
		"comes":   {variants: slices.Concat(byCron("*/10 * * * *", 10*m), []variant{{}}), takes: m, comes: true},
		"target":  {variants: slices.Concat(byCron("*/10 * * * *", 10*m), byCron("*/15 * * * *", 15*m)), takes: m},
		"follows": {variants: entryOf(fields{"needs": map[string]any{"entry": "target", "on": "done"}}, nil), takes: m},
	}
}
