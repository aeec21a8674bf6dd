// Package lint says what in a revision is allowed and probably not meant: entries that never fire, that all peels start
// at the same moment, whose splay is as long as the time between two fires, that fire where clocks change, that no peel
// can run, or that stand in the way of an entry of peel.yaml; and values that look like secrets in plain text, which it
// does not repeat.
//
// It asks no clock and reads nothing: the same entries and options give the same warnings in the same order. What is
// wrong, and not only odd, is an error of package plan.
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
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

const (
	herd    = 10                       // peels that are too many to start something at the same moment
	gaps    = 64                       // times between fires that are looked at
	horizon = 5 * 365 * 24 * time.Hour // in which an entry has to fire
	year    = 400 * 24 * time.Hour     // in which changes of clocks are looked for
)

// Options say against what entries are held.
type Options struct {
	From time.Time // the present
	// Zone is the zone of entries that name none. If nil, it is not known, and the usual zones are tried.
	Zone *time.Location
	// Static are the entries of a peel.yaml, with their places.
	Static map[string]strictyaml.Pos
}

// A Linter looks once at what revisions share that one compiler has read. It is not safe for concurrent use.
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

// New returns a linter that has seen nothing yet.
func New(o Options) *Linter {
	return &Linter{o: o, keys: map[string]key{}, files: map[*strictyaml.Node]strictyaml.Errors{}, entries: map[place]strictyaml.Errors{}}
}

// All returns all warnings about a revision, those of the compiler first.
func (l *Linter) All(p *plan.Plan) strictyaml.Errors {
	var all strictyaml.Errors
	for _, w := range p.Warnings {
		all = append(all, strictyaml.Error{Pos: w.Pos, Msg: w.Msg})
	}
	all = append(all, l.Secrets(p.PlainFiles())...)
	return append(all, l.Check(p.DeclaredEntries())...)
}

// Unchecked returns a warning for each encrypted file that was not checked because there is no identity. The author of
// the revision cannot mend it.
func Unchecked(p *plan.Plan) strictyaml.Errors {
	var all strictyaml.Errors
	for _, name := range p.UncheckedFiles() {
		all = append(all, strictyaml.Error{Pos: strictyaml.Pos{File: name}, Msg: "the MAC was not checked, because there is no identity here; a master checks it"})
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
	slices.SortStableFunc(found, func(a, b strictyaml.Error) int { return a.Pos.Compare(b.Pos) })
	return slices.Compact(found)
}

// Unknown returns the findings of Check that are surely mistakes: an argument that a function does not take, a function
// whose name resembles a known one, and a function missing from a known module. A function of an unknown module may belong to
// a newer version of zester-peel.
func (l *Linter) Unknown(entries []*plan.DeclaredEntry) strictyaml.Errors {
	var found strictyaml.Errors
	for _, w := range entries {
		if !w.Entry.Enabled {
			continue
		}
		l := look{Options: l.o, DeclaredEntry: w}
		if l.function() {
			found = append(found, l.found...)
		}
	}
	slices.SortStableFunc(found, func(a, b strictyaml.Error) int { return a.Pos.Compare(b.Pos) })
	return slices.Compact(found)
}

func check(w *plan.DeclaredEntry, o Options) strictyaml.Errors {
	l := look{Options: o, DeclaredEntry: w}
	l.shadow()
	if w.Entry.Enabled {
		l.function()
		l.herd()
		l.timing()
	}
	return l.found
}

// A look is at one entry.
type look struct {
	Options
	*plan.DeclaredEntry
	found strictyaml.Errors
}

// warn is about one of several names that a field may have, or about the entry.
func (l *look) warn(fields []string, format string, args ...any) {
	at, path := l.Pos, "schedule."+l.Entry.Name
	for _, name := range fields {
		if pos, ok := l.Field(name); ok {
			at, path = pos, path+"."+name
			break
		}
	}
	l.found = append(l.found, strictyaml.Error{Pos: at, Path: path, Msg: fmt.Sprintf(format, args...)})
}

// timings are the names of fields that say when.
var timings = []string{"cron", "when", "schedule", "interval", "every", "at", "after"}

func (l *look) shadow() {
	at, there := l.Static[l.Entry.Name]
	switch {
	case there && l.Entry.Enabled:
		l.warn(nil, "it takes the place of the entry of the same name in %s", at)
	case there:
		l.warn(nil, "it switches off the entry of the same name in %s", at)
	}
}

// function checks the module and its arguments against the catalogue of functions. It reports whether what it found is
// surely a mistake: a newer zester-peel is not likely to know the function either.
func (l *look) function() (sure bool) {
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
		l.warn([]string{"args", "payload"}, "%s", e.Error())
	}
	return true
}

func (l *look) herd() {
	t, err := l.Entry.Timing(time.UTC)
	if err != nil || t.FollowsRuns() || l.Peels < herd || l.Entry.Splay.Max > 0 || !clocked(l.Entry) || l.Entry.Clock.After > 0 {
		return
	}
	l.warn(timings, "%d peels start it at the same moment; a splay spreads them", l.Peels)
}

// clocked reports whether an entry has a timing of its own.
func clocked(e *schedule.Entry) bool {
	c := e.Clock
	return c.Interval != schedule.Interval{} || len(c.Cron) > 0 || len(c.At) > 0 || c.After > 0
}

func (l *look) timing() {
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
		return // this host does not know the zone, which the compiler has said
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

// splay holds the splay against the shortest time between two fires.
func (l *look) splay() {
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

// period is the shortest time between fires as the clock on the wall shows them, 0 if there are no two.
func (l *look) period() time.Duration {
	t := l.onTheWall(l.Entry.Clock)
	if t.FollowsRuns() {
		next, _ := t.Next(l.From)
		return next.Sub(l.From)
	}
	var shortest time.Duration
	last, ok := t.Next(l.From)
	for range gaps {
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

// onTheWall is a timing in a zone whose clock never changes.
func (l *look) onTheWall(c schedule.Clock) schedule.Timing {
	e := *l.Entry
	e.Clock = c
	e.Clock.Zone = ""
	t, _ := e.Timing(time.UTC) // the zone is known
	return t
}

// usual are zones in whose changed hours entries without a zone are looked for.
var usual = []string{"Europe/Berlin", "Europe/London", "America/New_York"}

// changes looks for fires in an hour that the clock jumps over or shows twice, unless the entry says what then.
func (l *look) changes() {
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
	t := l.onTheWall(clock)
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

func (l *look) zones() []*time.Location {
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
	for _, name := range usual {
		if zone, err := window.Zone(name); err == nil {
			zones = append(zones, zone)
		}
	}
	return zones
}

// change is a range of the clock on the wall that comes twice or never, written down as UTC.
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
