package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/window"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Limits of freezes.
const (
	MaxFreezes    = 20
	maxFreezeDays = 200 // days and ranges of one freeze
	maxHours      = 24  // windows of one freeze
	everyWeekday  = 1<<7 - 1
)

// A Freeze is a time in which revisions wait: on its days, between its hours.
type Freeze struct {
	// Calendar is the text under calendar in zester.yaml, for messages.
	Calendar string `json:"calendar,omitempty"`
	// Days are the days and ranges of instants of the freeze. If empty, the freeze holds on every day.
	Days window.Days `json:"days,omitzero"`
	// Hours are the hours of these days in which the freeze holds. If empty, it holds for the whole day.
	Hours []window.Hours `json:"hours,omitempty"`
	// Zone is the IANA name of the zone of Days and Hours, UTC if zester.yaml names none.
	Zone string `json:"zone"`
	// Target is the expression that selects the peels of the freeze, with its node groups expanded. A revision waits if
	// it changes one of them. If empty, the freeze is for every peel.
	Target string `json:"target,omitempty"`
}

func (f Freeze) equal(o Freeze) bool {
	sameTimes := func(a, b window.Times) bool { return a.From.Equal(b.From) && a.To.Equal(b.To) }
	return f.Calendar == o.Calendar && f.Zone == o.Zone && f.Target == o.Target && slices.Equal(f.Hours, o.Hours) &&
		f.Days.Weekdays == o.Days.Weekdays && slices.Equal(f.Days.Dates, o.Days.Dates) &&
		slices.EqualFunc(f.Days.Times, o.Days.Times, sameTimes)
}

// parts returns the rules that are open while the freeze holds, and the zone of their hours.
func (f Freeze) parts() (parts []window.Rules, zone *time.Location) {
	zone, err := window.Zone(f.Zone)
	if err != nil {
		zone = time.UTC // another build of Go may know fewer zones
	}
	days := f.Days
	days.Times = nil
	if len(f.Days.Times) == 0 || !days.Empty() {
		parts = append(parts, window.Rules{Hours: f.Hours, On: days})
	}
	return parts, zone
}

// Holds reports whether the freeze holds at an instant.
func (f Freeze) Holds(at time.Time) bool {
	rules, zone := f.parts()
	if slices.ContainsFunc(rules, func(r window.Rules) bool { return r.At(at, zone) == window.Open }) {
		return true
	}
	covers := func(t window.Times) bool { return !at.Before(t.From) && at.Before(t.To) }
	return slices.ContainsFunc(f.Days.Times, covers) && (window.Rules{Hours: f.Hours}).At(at, zone) == window.Open
}

// until returns an instant up to which the freeze holds from at on; zero means longer than two years. It may hold
// beyond that instant. holds is false if it does not hold at all.
func (f Freeze) until(at time.Time) (end time.Time, holds bool) {
	rules, zone := f.parts()
	for _, r := range rules {
		if r.At(at, zone) == window.Open {
			end, _ = r.Closes(at, zone)
			return end, true
		}
	}
	hours := window.Rules{Hours: f.Hours}
	for _, t := range f.Days.Times {
		if at.Before(t.From) || !at.Before(t.To) || hours.At(at, zone) != window.Open {
			continue
		}
		if closes, ok := hours.Closes(at, zone); ok && closes.Before(t.To) {
			return closes, true
		}
		return t.To, true
	}
	return time.Time{}, false
}

// maxFreezePeriods is the highest number of adjoining freeze periods that Thaw follows.
const maxFreezePeriods = 1000

// Thaw returns the first instant at or after from at which none of the freezes holds; ok is false if there is none
// within two years.
func Thaw(freezes []Freeze, from time.Time) (at time.Time, ok bool) {
	at = from
	for range maxFreezePeriods {
		i := slices.IndexFunc(freezes, func(f Freeze) bool { return f.Holds(at) })
		if i < 0 {
			return at, true
		}
		if at, _ = freezes[i].until(at); at.IsZero() {
			break
		}
	}
	return time.Time{}, false
}

// String describes the freeze in plain words: "holidays, between 08:00-18:00 Europe/London, of web-*".
func (f Freeze) String() string {
	var words []string
	if f.Calendar != "" {
		words = append(words, f.Calendar)
	}
	if len(f.Hours) > 0 {
		hours := make([]string, len(f.Hours))
		for i, h := range f.Hours {
			hours[i] = h.String()
		}
		words = append(words, "between "+strings.Join(hours, " and ")+" "+f.Zone)
	}
	if f.Target != "" {
		words = append(words, "of "+f.Target)
	}
	return strings.Join(words, ", ")
}

// freezeKeys are all keys of a freeze.
type freezeKeys struct {
	Calendar    *strictyaml.Node `yaml:"calendar"`
	OnlyBetween *strictyaml.Node `yaml:"only_between"`
	Timezone    string           `yaml:"timezone"`
	Targets     *strictyaml.Node `yaml:"targets"`
}

// readFreezes reads the list under freeze; n and calendars may be nil.
func readFreezes(n, calendars *strictyaml.Node, groups target.Groups) (freezes []Freeze, errs strictyaml.Errors) {
	list, errs := elements(n, "freeze", "a list of freezes", MaxFreezes)
	for i, e := range list {
		r := freezeReader{node: e, path: fmt.Sprintf("freeze[%d]", i), calendars: calendars, groups: groups}
		freezes = append(freezes, r.read())
		errs = append(errs, r.errs...)
	}
	return freezes, errs
}

// A freezeReader reads one freeze.
type freezeReader struct {
	node      *strictyaml.Node
	path      string
	calendars *strictyaml.Node // nil if there are none
	groups    target.Groups
	errs      strictyaml.Errors
}

func (r *freezeReader) refuse(at *strictyaml.Node, key, msg string) {
	r.errs = append(r.errs, strictyaml.Error{Pos: at.Pos, Path: r.path + key, Msg: msg})
}

func (r *freezeReader) read() (f Freeze) {
	const want = "a map with calendar, only_between or both"
	if r.node.Kind != strictyaml.Map {
		r.refuse(r.node, "", r.node.Mismatch(want))
		return f
	}
	var keys freezeKeys
	if bad, ok := strictyaml.Decode(r.node, &keys).(strictyaml.Errors); ok {
		for _, e := range bad {
			e.Path = r.path + "." + e.Path
			r.errs = append(r.errs, e)
		}
		return f
	}
	if keys.Calendar == nil && keys.OnlyBetween == nil {
		r.refuse(r.node, "", "must be "+want+
			": a freeze without them would never end; zester sync pause keeps new commits from the fleet")
	}
	f.Zone = "UTC"
	if keys.Timezone != "" {
		f.Zone = keys.Timezone
		if _, err := window.Zone(f.Zone); err != nil {
			r.refuse(r.node.Get("timezone"), ".timezone", err.Error())
		}
	}
	f.Calendar, f.Days = r.days(keys.Calendar)
	f.Hours = r.hours(keys.OnlyBetween)
	if len(f.Hours) == 0 && f.Days.Weekdays == everyWeekday {
		r.refuse(keys.Calendar, ".calendar",
			"the freeze would never end; zester sync pause keeps new commits from the fleet")
	}
	if keys.Targets != nil {
		text, ok := keys.Targets.Value.(string)
		if !ok {
			r.refuse(keys.Targets, ".targets", keys.Targets.Mismatch("a target like 'web-*'"))
			return f
		}
		var msg string
		if f.Target, msg = readTarget(text, r.groups); msg != "" {
			r.refuse(keys.Targets, ".targets", msg)
		}
	}
	return f
}

// days reads calendars, weekdays, dates and ranges, and replaces calendars by their days. named is the text in the
// file.
func (r *freezeReader) days(n *strictyaml.Node) (named string, days window.Days) {
	var names []string
	elements := 0
	add := func(at *strictyaml.Node, element string) {
		if err := days.Add(element); err != nil {
			r.refuse(at, ".calendar", err.Error())
		}
		elements++
	}
	for _, e := range n.Elements() {
		name, ok := e.TextOrInt()
		if !ok {
			r.refuse(e, ".calendar", e.Mismatch("a calendar, weekday, date or range"))
			continue
		}
		names = append(names, name)
		calendar := r.calendars.Get(name)
		if calendar == nil {
			add(e, name)
			continue
		}
		for _, day := range calendar.Elements() {
			if element, ok := day.TextOrInt(); ok { // others are mistakes of the calendar, reported there
				add(e, element)
			}
		}
	}
	switch {
	case n != nil && elements == 0 && len(r.errs) == 0:
		r.refuse(n, ".calendar", "it has no day")
	case elements > maxFreezeDays:
		r.refuse(n, ".calendar", fmt.Sprintf("%d days and ranges; the most are %d", elements, maxFreezeDays))
	}
	for _, name := range days.Calendars {
		r.refuse(n, ".calendar", fmt.Sprintf("there is no calendar %q under calendars", name))
	}
	return strings.Join(names, " and "), days
}

func (r *freezeReader) hours(n *strictyaml.Node) (hours []window.Hours) {
	for _, e := range n.Elements() {
		s, ok := e.Value.(string)
		if !ok {
			r.refuse(e, ".only_between", e.Mismatch("a window like 08:00-18:00"))
			continue
		}
		h, err := window.ParseHours(s)
		if err != nil {
			r.refuse(e, ".only_between", err.Error())
			continue
		}
		hours = append(hours, h)
	}
	if n != nil && len(r.errs) == 0 && (len(hours) == 0 || len(hours) > maxHours) {
		r.refuse(n, ".only_between", fmt.Sprintf("must be a window or a list of at most %d windows", maxHours))
	}
	sorting.Func(hours, window.Hours.Compare)
	return slices.Compact(hours)
}
