// Package lint warns of settings that are valid and probably not intended: entries that never fire, that all peels
// start at the same moment, whose splay is as long as the time between two fires, that fire when clocks change, that
// not all of their peels can run, or that replace an entry of peel.yaml; entries and states beside their section;
// states that run a command each time, or open a file with a secret; alert rules that match nothing; and values that
// look like secrets in plain text.
//
// Call [New] and then [Linter.All] for a plan. Mistakes are errors of package plan, and not found here.
//
// Guarantees: it reads neither files nor a clock. The same entries and options give the same warnings in the same
// order. A warning does not repeat a secret.
package lint

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

const (
	manyPeels  = 10                       // so many peels must not start a run at the same moment
	firesTried = 64                       // fires from which the shortest period is computed
	horizon    = 5 * 365 * 24 * time.Hour // an entry has to fire within this time
	year       = 400 * 24 * time.Hour     // changes of clocks within this time count
)

// Options describe the host and the time of the check.
type Options struct {
	From time.Time // the present
	// Zone is the zone of entries that name none. If nil, it is unknown, and some common zones are tried.
	Zone *time.Location
	// Static holds the entries of a peel.yaml with their positions.
	Static map[string]strictyaml.Pos
}

// A Linter caches its findings: files and entries that revisions of one compiler share are checked once. It is not safe
// for concurrent use.
type Linter struct {
	o       Options
	keys    map[string]key
	files   map[*strictyaml.Node]strictyaml.Errors
	entries map[place]strictyaml.Errors
}

// place is an entry with the number of its peels.
type place struct {
	entry *schedule.Entry
	pos   strictyaml.Pos
	peels int
}

// New returns a linter with an empty cache.
func New(o Options) *Linter {
	return &Linter{
		o:       o,
		keys:    map[string]key{},
		files:   map[*strictyaml.Node]strictyaml.Errors{},
		entries: map[place]strictyaml.Errors{},
	}
}

// All returns all warnings about a revision, the warnings of the compiler first.
func (l *Linter) All(p *plan.Plan) strictyaml.Errors {
	var all strictyaml.Errors
	for _, w := range p.Warnings {
		all = append(all, strictyaml.Error{Pos: w.Pos, Msg: w.Msg})
	}
	all = append(all, l.Secrets(p.PlainFiles())...)
	all = append(all, misplaced(p.Files())...)
	all = append(all, commands(p.Files())...)
	all = append(all, opened(p.Files())...)
	all = append(all, alerts(p)...)
	entries := p.DeclaredEntries()
	all = append(append(all, numbers(entries)...), prompts(p, entries)...)
	return append(all, l.Check(entries)...)
}

// numbers warns of entries with the number that a request got for another one: people copy entries.
func numbers(entries []*plan.DeclaredEntry) (found strictyaml.Errors) {
	first := map[int]*plan.DeclaredEntry{}
	for _, w := range entries {
		id := w.Entry.API.ID
		switch was := first[id]; {
		case id == 0:
		case was == nil:
			first[id] = w
		case was.Entry.Name != w.Entry.Name:
			l := entryCheck{DeclaredEntry: w}
			l.warn([]string{
				"api",
			}, "%s at %s has the number %d too, and requests for the number are refused: "+
				"remove the field api of the copy", was.Entry.Name, was.Pos, id)
			found = append(found, l.found...)
		}
	}
	return found
}

// Unchecked returns a warning for each encrypted file that was not checked because there is no identity. The author of
// the revision cannot fix it, so All leaves it out.
func Unchecked(p *plan.Plan) strictyaml.Errors {
	var all strictyaml.Errors
	for _, name := range p.UncheckedFiles() {
		all = append(all, strictyaml.Error{
			Pos: strictyaml.Pos{File: name},
			Msg: "the MAC was not checked, because there is no identity here; a master checks it",
		})
	}
	return all
}

// Check returns the warnings about entries that are enabled, by position.
func (l *Linter) Check(entries []*plan.DeclaredEntry) strictyaml.Errors {
	var found strictyaml.Errors
	for _, w := range entries {
		at := place{w.Entry, w.Pos, w.Peels}
		if _, seen := l.entries[at]; !seen {
			l.entries[at] = check(w, l.o)
		}
		found = append(found, l.entries[at]...)
	}
	sorting.Stable(found, func(a, b strictyaml.Error) int { return a.Pos.Compare(b.Pos) })
	return slices.Compact(found)
}

// Unknown returns the findings of Check that are surely mistakes: an argument that a function does not have, a function
// whose name resembles a known one, and a function missing from a known module. A function of an unknown module may
// belong to a newer version of zester-peel.
func (l *Linter) Unknown(entries []*plan.DeclaredEntry) strictyaml.Errors {
	var found strictyaml.Errors
	for _, w := range entries {
		if !w.Entry.Enabled {
			continue
		}
		c := entryCheck{Options: l.o, DeclaredEntry: w}
		if c.function() {
			found = append(found, c.found...)
		}
	}
	sorting.Stable(found, func(a, b strictyaml.Error) int { return a.Pos.Compare(b.Pos) })
	return slices.Compact(found)
}

func check(w *plan.DeclaredEntry, o Options) strictyaml.Errors {
	l := entryCheck{Options: o, DeclaredEntry: w}
	l.shadow()
	if w.Entry.Enabled {
		l.function()
		l.sameMoment()
		l.timing()
	}
	return l.found
}

// An entryCheck collects the warnings about one entry.
type entryCheck struct {
	Options
	*plan.DeclaredEntry
	found strictyaml.Errors
}

// warn adds a warning about the first of the fields that the entry has, or about the entry.
func (l *entryCheck) warn(fields []string, format string, args ...any) {
	at, path := l.Pos, "schedule."+l.Entry.Name
	for _, name := range fields {
		if pos, ok := l.Field(name); ok {
			at, path = pos, path+"."+name
			break
		}
	}
	l.found = append(l.found, strictyaml.Error{Pos: at, Path: path, Msg: fmt.Sprintf(format, args...)})
}

// timings are the names of fields that set the time of fires.
var timings = []string{"cron", "when", "schedule", "interval", "every", "at", "after"}

func (l *entryCheck) shadow() {
	at, there := l.Static[l.Entry.Name]
	switch {
	case there && l.Entry.Enabled:
		l.warn(nil, "it takes the place of the entry of the same name in %s", at)
	case there:
		l.warn(nil, "it switches off the entry of the same name in %s", at)
	}
}

// function checks the module and its arguments against the catalogue of functions. It reports whether a finding is
// surely a mistake, also for a newer zester-peel.
func (l *entryCheck) function() (sure bool) {
	f, ok := catalogue.Lookup(l.Entry.Module)
	if !ok {
		var names []string
		module, _, _ := strings.Cut(l.Entry.Module, ".")
		for _, f := range catalogue.Functions() {
			names = append(names, f.Name)
			sure = sure || strings.HasPrefix(f.Name, module+".")
		}
		near := strictyaml.Suggest(l.Entry.Module, names)
		l.warn([]string{"module", "command", "prompt"}, "no peel has the function %s%s", l.Entry.Module, near)
		return sure || near != ""
	}
	errs, _ := f.Check(l.Entry.Args).(strictyaml.Errors)
	for _, e := range errs {
		_, short, _ := strings.Cut(e.Pos.File, "argument ") // prompt, model and opts are fields too
		l.warn([]string{"args", "payload", short}, "%s", e.Error())
	}
	return true
}

func (l *entryCheck) sameMoment() {
	t, err := l.Entry.Timing(time.UTC)
	if err != nil || t.FollowsRuns() || l.Peels < manyPeels || l.Entry.Splay.Max > 0 || !clocked(l.Entry) ||
		l.Entry.Clock.After > 0 {
		return
	}
	l.warn(timings, "%d peels start it at the same moment; a splay spreads them", l.Peels)
}

// clocked reports whether an entry has a timing of its own.
func clocked(e *schedule.Entry) bool {
	c := e.Clock
	return c.Interval != schedule.Interval{} || len(c.Cron) > 0 || len(c.At) > 0 || c.After > 0
}

func (l *entryCheck) timing() {
	e := l.Entry
	if !clocked(e) {
		return
	}
	zone := l.Zone
	if zone == nil {
		zone = time.UTC
	}
	t, err := e.Timing(zone)
	if err != nil {
		return // this host does not know the zone; the compiler reports it
	}
	for range forecast.Fires(e, t.Seen(l.From), l.From, l.From.Add(horizon)) {
		l.splay()
		l.changes()
		return
	}
	if at := e.Clock.At; len(at) > 0 && !at[len(at)-1].After(l.From) {
		l.warn(timings, "it never fires: the last of its times has passed")
		return
	}
	l.warn(timings, "it does not fire within five years: its windows and its life leave no time for it")
}

// splay compares the splay with the shortest time between two fires.
func (l *entryCheck) splay() {
	splay := l.Entry.Splay.Max
	if splay == 0 {
		return
	}
	period := l.period()
	if period == 0 || splay < period {
		return
	}
	l.warn([]string{"splay", "jitter"}, "%v is not below the %v between two fires", splay, period)
}

// period returns the shortest time between two fires by the local clock, 0 if there are no two fires.
func (l *entryCheck) period() time.Duration {
	t := l.withoutChanges(l.Entry.Clock)
	if t.FollowsRuns() {
		next, _ := t.Next(l.From)
		return next.Sub(l.From)
	}
	var shortest time.Duration
	last, ok := t.Next(l.From)
	for range firesTried {
		if !ok {
			break
		}
		var next time.Time
		if next, ok = t.Next(last); ok && (shortest == 0 || next.Sub(last) < shortest) {
			shortest = next.Sub(last)
		}
		last = next
	}
	return shortest
}

// withoutChanges returns the timing in a zone whose clock never changes.
func (l *entryCheck) withoutChanges(c schedule.Clock) schedule.Timing {
	e := *l.Entry
	e.Clock = c
	e.Clock.Zone = ""
	t, _ := e.Timing(time.UTC) // the zone is known
	return t
}

// commonZones are tried for entries whose zone is unknown.
var commonZones = []string{"Europe/Berlin", "Europe/London", "America/New_York"}

// changes warns of fires in an hour that the clock skips or shows twice, unless the entry sets dst_gap or dst_overlap.
func (l *entryCheck) changes() {
	clock := l.Entry.Clock
	clock.Cron = slices.Clone(clock.Cron)
	for i := len(clock.Cron) - 1; i >= 0; i-- {
		if clock.Cron[i].Wild() {
			clock.Cron = slices.Delete(clock.Cron, i, i+1)
		}
	}
	if len(clock.Cron) == 0 {
		return
	}
	_, gap := l.Field("dst_gap")
	_, overlap := l.Field("dst_overlap")
	t := l.withoutChanges(clock)
	for _, zone := range l.zones() {
		var parts []string
		for _, c := range changesOf(zone, l.From) {
			if at, ok := t.Next(c.from.Add(-1)); !ok || !at.Before(c.to) || c.twice && overlap || !c.twice && gap {
				continue
			}
			parts = append(parts, c.String())
		}
		if len(parts) > 0 {
			more := ""
			if clock.Zone == "" && l.Zone == nil {
				more = "; name a timezone if it has one"
			}
			l.warn(timings, "it fires where the clock of %s changes: %s%s", zone, strings.Join(parts, ", "), more)
			return
		}
	}
}

func (l *entryCheck) zones() []*time.Location {
	switch name := l.Entry.Clock.Zone; {
	case name != "":
		if zone, err := window.Zone(name); err == nil {
			return []*time.Location{zone}
		}
		return nil
	case l.Zone != nil:
		return []*time.Location{l.Zone}
	}
	var zones []*time.Location
	for _, name := range commonZones {
		if zone, err := window.Zone(name); err == nil {
			zones = append(zones, zone)
		}
	}
	return zones
}

// A change is a range of the local clock that comes twice or never, as if it were UTC.
type change struct {
	from, to time.Time
	twice    bool
}

func (c change) String() string {
	times := c.from.Format("2006-01-02 15:04") + "-" + c.to.Format("15:04")
	if c.twice {
		return times + " comes twice (dst_overlap says what then)"
	}
	return times + " is left out (dst_gap says what then)"
}

// changesOf lists the changes of a zone's clock in the coming year.
func changesOf(zone *time.Location, from time.Time) []change {
	var all []change
	_, before := from.In(zone).Zone()
	for _, end := from.In(zone).ZoneBounds(); !end.IsZero() && end.Sub(from) < year; _, end = end.ZoneBounds() {
		_, after := end.Zone()
		old := end.UTC().Add(time.Duration(before) * time.Second)
		latest := end.UTC().Add(time.Duration(after) * time.Second)
		switch {
		case after > before:
			all = append(all, change{from: old, to: latest})
		case after < before:
			all = append(all, change{from: latest, to: old, twice: true})
		}
		before = after
	}
	return all
}
