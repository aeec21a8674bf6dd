// Package review says what a change of the config repo will do to a fleet, before anybody merges it: which entries of
// which peels come, change and go, field by field, when they fire next, and what that makes of the load. It is
// arithmetic on two plans and reads nothing.
//
// Changes that are equal on many peels are one. What does not change on a peel is not in a review: a comment, another
// order, or an alias of a field changes nothing.
package review

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/lint"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Version is that of the JSON form of a [Review]. Fields may be added to it; one that goes or changes makes another.
const Version = 1

// Options say what is compared.
type Options struct {
	Path       string // of the fleet's files in the repo, empty for all of it
	Base, Head Revision
	From       time.Time // when the change would be merged
	// Zone is that of entries that name none. Nil: nobody knows it, and that of this host is taken for times.
	Zone *time.Location
	// Static are the entries of a peel.yaml, with their places: the head is warned of those that it takes the place of.
	Static  map[string]strictyaml.Pos
	Message string // of the head's commit; its trailer may allow a change that the guard holds back
}

// A Revision is one of the two sides.
type Revision struct {
	Name    string `json:"name"`              // as somebody asked for it; "working tree"
	Commit  string `json:"commit,omitempty"`  // empty for the working tree
	Subject string `json:"subject,omitempty"` // of the commit
}

// A Review is what a change does to a fleet.
type Review struct {
	Version int      `json:"version"`
	Path    string   `json:"path,omitempty"` // of the fleet's files in the repo, empty for all of it
	Base    Revision `json:"base"`
	Head    Revision `json:"head"`
	// Errors are what is wrong with the head, as path:line:column: message. If Refused is set, the fleet would keep what
	// it has, and nothing else of the review is filled.
	Errors  []string `json:"errors,omitempty"`
	Refused bool     `json:"refused,omitempty"`
	Peels   int      `json:"peels"` // of the fleet
	// Touched are the peels whose settings change, Emptied those that lose all their entries, Behind those that mistakes
	// hold back. Each is sorted.
	Touched []target.PeelID `json:"touched"`
	Emptied []target.PeelID `json:"emptied,omitempty"`
	Behind  []target.PeelID `json:"behind,omitempty"`
	// Hash names the change as zester sync approve does, if the base is what the fleet has.
	Hash     string    `json:"hash"`
	Blocked  string    `json:"blocked,omitempty"` // why a guard holds the change back
	Release  string    `json:"release,omitempty"` // how the change can go out nevertheless
	Safety   Safety    `json:"safety"`
	Totals   Totals    `json:"totals"`
	Changes  []Change  `json:"changes"`  // by entry
	Settings []Setting `json:"settings"` // by key
	// Warnings are those of the head. The first NewWarnings are not at the base.
	Warnings    []string `json:"warnings"`
	NewWarnings int      `json:"new_warnings"`
	Load        Load     `json:"load"`
}

// Totals are numbers of entries, counted on each peel that has them.
type Totals struct {
	Before      int `json:"before"` // on all peels, at the base
	Added       int `json:"added"`
	Changed     int `json:"changed"`
	Removed     int `json:"removed"`
	TimersReset int `json:"timers_reset"` // of those changed: the next fire is computed anew
	RunsAtOnce  int `json:"runs_at_once"` // always 0: no commit starts a run. Version 1 of the format has it
}

// Action is what becomes of an entry.
type Action string

// The actions.
const (
	Add    Action = "add"
	Modify Action = "change"
	Remove Action = "remove"
)

// A Change is one entry that changes in the same way on some peels.
type Change struct {
	Peels  []target.PeelID  `json:"peels"` // sorted
	Entry  string           `json:"entry"`
	Action Action           `json:"action"`
	Fields map[string]Value `json:"fields"`
	// ResetsTimer tells that the next fire is computed anew.
	ResetsTimer bool   `json:"resets_timer,omitempty"`
	Next        Next   `json:"next"`
	Origin      string `json:"origin"` // file:line, at the base for one that is removed
}

// A Value is that of a field or key on both sides, as YAML has it. The side that lacks it is nil.
type Value struct {
	Before any `json:"before,omitempty"`
	After  any `json:"after,omitempty"`
}

// Next are up to three nominal times after the merge, in the zone of the entry. What counts from the run before has
// none at the base, because nobody knows that run here.
type Next struct {
	Before []time.Time `json:"before,omitempty"`
	After  []time.Time `json:"after,omitempty"`
}

// A Setting is a key beside schedule that changes in the same way on some peels.
type Setting struct {
	Peels []target.PeelID `json:"peels"` // sorted
	Key   string          `json:"key"`   // the keys from the top, with dots between them
	Value
}

// Empty tells that no peel would notice the change.
func (r *Review) Empty() bool { return len(r.Touched) == 0 }

// Make compares what a fleet runs at the base with what it would run at the head. Both plans are of the same fleet.
func Make(base, head *plan.Plan, o Options) (*Review, error) {
	d, err := plan.Diff(base.Base(), head)
	if err != nil {
		return nil, err
	}
	r := &Review{
		Version: Version, Path: o.Path, Base: o.Base, Head: o.Head, Peels: len(head.Peels) + len(head.Behind), Hash: d.Hash,
		Touched: []target.PeelID{}, Changes: []Change{}, Settings: []Setting{}, Warnings: []string{},
		Totals: Totals{Before: d.Counts.Before, Added: d.Counts.Added, Changed: d.Counts.Changed, Removed: d.Counts.Removed},
	}
	var before, after strictyaml.Errors
	var lints sync.WaitGroup
	linter := lint.New(lint.Options{From: o.From, Zone: o.Zone, Static: o.Static})
	lints.Go(func() { before, after = linter.All(base), linter.All(head) })
	defer lints.Wait()
	if o.Zone == nil {
		o.Zone = time.Local
	}
	if head.Mistakes != nil {
		r.Errors, r.Behind = Errors(head.Mistakes), slices.Sorted(maps.Keys(head.Behind))
	}
	if r.Safety, err = safetyOf(base, head, peelsOf(d), o.From); err != nil {
		return nil, err
	}
	if stop, ok := errors.AsType[*plan.BlockedError](d.Guard(r.Safety.Limits)); ok && !stop.AllowedBy(o.Message) {
		r.Blocked, r.Release = stop.Reason, release(stop)
	}
	c := comparison{Options: o, review: r, changes: map[string]*Change{}, settings: map[string]*Setting{}, exposed: map[string][]target.PeelID{}}
	for _, g := range d.Groups {
		if err := c.group(base.Peels[g.Peels[0]], head.Peels[g.Peels[0]], g); err != nil {
			return nil, err
		}
	}
	c.finish()
	r.Warnings = append(r.Warnings, c.exposures()...)
	if r.Load, err = loadOf(base, kept(base, head), o); err != nil {
		return nil, err
	}
	lints.Wait()
	r.warn(before, after)
	return r, nil
}

// peelsOf returns the peels that change, sorted.
func peelsOf(d *plan.Difference) (peels []target.PeelID) {
	for _, g := range d.Groups {
		peels = append(peels, g.Peels...)
	}
	slices.Sort(peels)
	return peels
}

// kept has the peels that mistakes of the head hold back run what they have.
func kept(base, head *plan.Plan) *plan.Plan {
	all := head.HoldBack(nil)
	for id := range head.Behind {
		if e := base.Peels[id]; e != nil {
			all.Peels[id] = e
		}
	}
	return all
}

// warn lists the warnings of the head, the new ones first. One that has only moved within its file is not new.
func (r *Review) warn(base, head strictyaml.Errors) {
	known := map[[3]string]bool{}
	key := func(w strictyaml.Error) [3]string { return [3]string{w.Pos.File, w.Path, w.Msg} }
	for _, w := range base {
		known[key(w)] = true
	}
	var old []string
	for _, w := range head {
		if known[key(w)] {
			old = append(old, w.Error())
		} else {
			r.Warnings = append(r.Warnings, w.Error())
		}
	}
	r.NewWarnings = len(r.Warnings)
	r.Warnings = append(r.Warnings, old...)
}

// Refuse is the review of a head that does not compile.
func Refuse(err *plan.Error, o Options) *Review {
	return &Review{
		Version: Version, Path: o.Path, Base: o.Base, Head: o.Head, Errors: Errors(err), Refused: true,
		Touched: []target.PeelID{}, Changes: []Change{}, Settings: []Setting{}, Warnings: []string{},
	}
}

// Errors gives a line for each error.
func Errors(err *plan.Error) []string {
	lines := make([]string, len(err.Errors))
	for i, e := range err.Errors {
		lines[i] = e.Error()
	}
	if err.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", err.More))
	}
	return lines
}

// A comparison collects the changes of all groups.
type comparison struct {
	Options
	review   *Review
	changes  map[string]*Change
	settings map[string]*Setting
	exposed  map[string][]target.PeelID // peels by warning about a secret
}

// A side is what the peels of a group run on one side.
type side struct {
	values  map[string]any // beside the schedule
	entries map[string]any
	set     schedule.Set
	e       *plan.Effective
}

func sideOf(e *plan.Effective) (side, error) {
	s := side{e: e}
	if e == nil { // at the base the peel was held back
		return s, nil
	}
	values, err := e.Values()
	if err != nil {
		return s, err
	}
	s.entries, _ = values["schedule"].(map[string]any)
	delete(values, "schedule")
	s.values, s.set = values, e.Schedule
	return s, nil
}

// place says where an entry is.
func (s side) place(name string) string {
	at := s.e.Entries[name]
	return fmt.Sprintf("%s:%d", at.File, at.Line)
}

func (c *comparison) group(old, new *plan.Effective, g plan.Group) error {
	before, err := sideOf(old)
	if err != nil {
		return err
	}
	after, err := sideOf(new)
	if err != nil {
		return err
	}
	r := c.review
	r.Touched = append(r.Touched, g.Peels...)
	if len(before.set) > 0 && len(after.set) == 0 {
		r.Emptied = append(r.Emptied, g.Peels...)
	}
	r.Totals.TimersReset += len(g.Peels) * len(g.Entries.Retimed)
	for _, name := range slices.Concat(g.Entries.Added, g.Entries.Retimed, g.Entries.Swapped, g.Entries.Removed) {
		if err := c.entry(name, before, after, g.Peels); err != nil {
			return err
		}
	}
	c.keys("", before.values, after.values, g.Peels)
	c.expose(before, after, g.Peels)
	return nil
}

// entry adds peels to the change of an entry.
func (c *comparison) entry(name string, before, after side, peels []target.PeelID) error {
	old, latest := before.set[name], after.set[name]
	key := name + "\x00" + hash(old) + "\x00" + hash(latest)
	if known := c.changes[key]; known != nil {
		known.Peels = append(known.Peels, peels...)
		return nil
	}
	change := &Change{Peels: slices.Clone(peels), Entry: name, Action: Modify, Fields: fields(before.entries[name], after.entries[name])}
	where := after
	switch {
	case old == nil:
		change.Action = Add
	case latest == nil:
		change.Action, where = Remove, before
	default:
		change.ResetsTimer = !old.TimingEqual(latest)
	}
	change.Origin = where.place(name)
	var err error
	if change.Next.Before, err = c.fires(old, false); err == nil {
		change.Next.After, err = c.fires(latest, true)
	}
	c.changes[key] = change
	return err
}

func hash(e *schedule.Entry) string {
	if e == nil {
		return ""
	}
	return e.Hash()
}

// fields are those in which two maps differ.
func fields(before, after any) map[string]Value {
	old, _ := before.(map[string]any)
	latest, _ := after.(map[string]any)
	out := map[string]Value{}
	for name, value := range old {
		if other, ok := latest[name]; !ok || !reflect.DeepEqual(value, other) {
			out[name] = Value{Before: value, After: other}
		}
	}
	for name, value := range latest {
		if _, ok := old[name]; !ok {
			out[name] = Value{After: value}
		}
	}
	return out
}

// keys adds the keys beside the schedule in which two sides differ.
func (c *comparison) keys(above string, before, after map[string]any, peels []target.PeelID) {
	for name, value := range fields(before, after) {
		key := above + name
		old, was := value.Before.(map[string]any)
		latest, is := value.After.(map[string]any)
		if was && is {
			c.keys(key+".", old, latest, peels)
			continue
		}
		id := key + "\x00" + text(value.Before) + "\x00" + text(value.After)
		if known := c.settings[id]; known != nil {
			known.Peels = append(known.Peels, peels...)
		} else {
			c.settings[id] = &Setting{Peels: slices.Clone(peels), Key: key, Value: value}
		}
	}
}

func (c *comparison) finish() {
	r := c.review
	for _, change := range c.changes {
		slices.Sort(change.Peels)
		r.Changes = append(r.Changes, *change)
	}
	slices.SortFunc(r.Changes, func(a, b Change) int {
		return cmp.Or(strings.Compare(a.Entry, b.Entry), cmp.Compare(a.Peels[0], b.Peels[0]))
	})
	for _, s := range c.settings {
		slices.Sort(s.Peels)
		r.Settings = append(r.Settings, *s)
	}
	slices.SortFunc(r.Settings, func(a, b Setting) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), cmp.Compare(a.Peels[0], b.Peels[0]))
	})
	slices.Sort(r.Touched)
	slices.Sort(r.Emptied)
	hidden := secrets{}
	for _, change := range r.Changes {
		for _, field := range slices.Sorted(maps.Keys(change.Fields)) {
			change.Fields[field] = hidden.conceal(field, change.Fields[field])
		}
	}
	for i, s := range r.Settings {
		r.Settings[i].Value = hidden.conceal(s.Key, s.Value)
	}
}

// text is a value as people read it, on one line.
func text(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v) // a number that JSON lacks
	}
	return strings.TrimSuffix(b.String(), "\n")
}
