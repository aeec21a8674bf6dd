// Package schedule defines schedule entries: what a peel runs and when.
//
// [ParseEntries] parses entries. [Merge] combines the settings of a peel with its peel.yaml, [Diff] returns what a
// reload has to do, [Entry.Timing] computes fires and windows, and [Entry.Explain] describes an entry in English. All
// functions are pure, so the peel, the plan, the linter and the command line compute the same.
//
// Two entries are equal if their [Entry.Canonical] bytes are equal. Comments, the order of keys, aliases, explicit
// defaults and the spelling of a time make no difference. [Entry.Hash] and [Entry.TimingHash] are digests of the same
// bytes, to store.
//
// Cron expressions fire as they do in the cronie daemon, also where daylight saving begins and ends; package cron
// documents the rule. Package phrase has the grammar of `when`, package window the windows.
//
// Known gap: fires are computed for at most 50 years ahead.
package schedule

import (
	"bytes"
	"maps"
	"slices"
)

// MaxEntries is the highest number of entries in one set.
const MaxEntries = 1000

// Set is a schedule: entries by name.
type Set map[string]*Entry

// Merge returns the entries of both sets. If both have a name, the entry from settings replaces the one from peel.yaml,
// even if it is disabled. Neither argument is changed; the entries are shared.
func Merge(static, fromSettings Set) Set {
	out := maps.Clone(static)
	if out == nil {
		out = make(Set, len(fromSettings))
	}
	maps.Copy(out, fromSettings)
	return out
}

// Changes groups the names of entries by what a reload does to them; each list is sorted.
type Changes struct {
	Added   []string
	Removed []string
	Retimed []string // the timing differs: the next fire is computed again
	Swapped []string // anything else differs, Enabled included: the next fire stays
	Kept    []string // equal
}

// Diff returns what a reload from the set old to the set latest does.
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
		case bytes.Equal(was.Clock.canonical(), is.Clock.canonical()):
			c.Swapped = append(c.Swapped, name)
		default:
			c.Retimed = append(c.Retimed, name)
		}
	}
	return c
}
