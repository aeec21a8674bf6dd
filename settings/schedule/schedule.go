// Package schedule is the language of schedule entries: what a peel runs and when.
//
// [ParseSet] reads the map under the key `schedule`, from a file of the config repo, from peel.yaml or
// from a settings document that came over the bus, strictly and with positions. [Merge] lays settings
// over what peel.yaml has, [Diff] says what a reload has to do, [Entry.Timing] gives the arithmetic of
// the next fire and of windows, and [Entry.Explain] says in English what an entry means. All of it is
// pure: the peel, the plan, the linter and the command line call the same functions and get the same
// answers.
//
// Two entries are equal when their [Entry.Canonical] bytes are: comments, the order of keys, aliases,
// spelled-out defaults and the spelling of a time make no difference.
//
// Cron expressions mean what they mean to the cronie daemon, daylight saving included: package cron tells
// the rule. Package phrase has the grammar of `when`, package window the windows.
//
// Calendars are sets of days that the repo's policy names. Before settings leave for a peel,
// [Calendars.Expand] writes their days in place of their names, so that a peel needs no calendars and a
// changed calendar is a changed document.
package schedule

import (
	"bytes"
	"maps"
	"slices"
)

// MaxEntries is how many entries one set may hold.
const MaxEntries = 1000

// Set is a schedule: entries by name.
type Set map[string]*Entry

// Merge lays the entries from settings over those of peel.yaml. For an equal name the one from settings
// wins, also when it is not enabled. Neither argument is changed; the entries are shared.
func Merge(static, fromSettings Set) Set {
	out := maps.Clone(static)
	if out == nil {
		out = make(Set, len(fromSettings))
	}
	maps.Copy(out, fromSettings)
	return out
}

// Changes are the names of two sets' entries by what a reload does to them; each list is sorted.
type Changes struct {
	Added   []string
	Removed []string
	Retimed []string // the timing differs: the next fire is computed anew
	Swapped []string // anything else differs, Enabled included: the timer stays
	Kept    []string // equal
}

// Diff says what a reload from one set to another does.
func Diff(old, latest Set) Changes {
	var c Changes
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if latest[name] == nil {
			c.Removed = append(c.Removed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(latest)) {
		was, is := old[name], latest[name]
		switch {
		case was == nil:
			c.Added = append(c.Added, name)
		case was == is || bytes.Equal(was.Canonical(), is.Canonical()):
			c.Kept = append(c.Kept, name)
		case was.TimingEqual(is):
			c.Swapped = append(c.Swapped, name)
		default:
			c.Retimed = append(c.Retimed, name)
		}
	}
	return c
}
