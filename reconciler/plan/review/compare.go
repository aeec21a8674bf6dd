package review

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/diff"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// compare adds the changes of all groups of a difference.
func (r *Review) compare(base, head *plan.Plan, d *diff.Difference, o Options) error {
	c := comparison{
		Options:  o,
		review:   r,
		changes:  map[string]*Change{},
		settings: map[string]*Setting{},
		states:   map[string]*StateChange{},
		effects:  map[diff.StateEffect][]target.PeelID{},
		exposed:  map[string][]target.PeelID{},
	}
	for _, g := range d.Groups {
		if err := c.group(base.Peels[g.Peels[0]], head.Peels[g.Peels[0]], g); err != nil {
			return err
		}
	}
	c.finish()
	r.Warnings = append(r.Warnings, c.exposures()...)
	return nil
}

// A comparison collects the changes of all groups.
type comparison struct {
	Options
	review   *Review
	changes  map[string]*Change
	settings map[string]*Setting
	states   map[string]*StateChange
	effects  map[diff.StateEffect][]target.PeelID
	exposed  map[string][]target.PeelID // peels by warning about a secret
}

// A side holds the settings of the peels of a group, at the base or at the head.
type side struct {
	values  map[string]any // beside the schedule
	rest    map[string]any // values without the states
	entries map[string]any
	set     schedule.Set
	states  diff.StateSide
	e       *plan.Effective
}

func sideOf(e *plan.Effective) (side, error) {
	s := side{e: e, states: diff.ReadStates(nil, isSecret)}
	if e == nil { // the peel was held back at the base
		return s, nil
	}
	values, err := e.Values()
	if err != nil {
		return s, err
	}
	s.entries, _ = values["schedule"].(map[string]any)
	s.states = diff.ReadStates(values, isSecret)
	delete(values, "schedule")
	delete(values, state.CompiledKey)
	s.states.Reads = templateReads(e, values)
	s.values, s.set = values, e.Schedule
	s.rest = maps.Clone(values)
	delete(s.rest, state.Key)
	return s, nil
}

// place returns the position of an entry as file:line.
func (s side) place(name string) string {
	at := s.e.Entries[name]
	return fmt.Sprintf("%s:%d", at.File, at.Line)
}

func (c *comparison) group(old, new *plan.Effective, g diff.Group) error {
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
	c.compareStates(before, after, g.Peels)
	c.keys("", before.rest, after.rest, g.Peels)
	c.expose(before, after, g.Peels)
	return nil
}

// entry adds the change of an entry on some peels.
func (c *comparison) entry(name string, before, after side, peels []target.PeelID) error {
	old, latest := before.set[name], after.set[name]
	key := name + "\x00" + hash(old) + "\x00" + hash(latest)
	if known := c.changes[key]; known != nil {
		known.Peels = append(known.Peels, peels...)
		return nil
	}
	change := &Change{
		Peels:  slices.Clone(peels),
		Entry:  name,
		Action: Modify,
		Fields: fields(before.entries[name], after.entries[name]),
	}
	where := after
	switch {
	case old == nil:
		change.Action = Add
	case latest == nil:
		change.Action, where = Remove, before
	default:
		change.ResetsTimer = old.TimingHash() != latest.TimingHash()
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

// fields returns the fields in which two maps differ.
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

// keys adds the changes of keys outside the schedule on some peels.
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
	sorting.Func(r.Changes, func(a, b Change) int {
		return cmp.Or(strings.Compare(a.Entry, b.Entry), cmp.Compare(a.Peels[0], b.Peels[0]))
	})
	for _, s := range c.settings {
		slices.Sort(s.Peels)
		r.Settings = append(r.Settings, *s)
	}
	sorting.Func(r.Settings, func(a, b Setting) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), cmp.Compare(a.Peels[0], b.Peels[0]))
	})
	slices.Sort(r.Touched)
	slices.Sort(r.Emptied)
	hidden := secrets{}
	c.finishStates(hidden)
	for _, change := range r.Changes {
		for _, field := range slices.Sorted(maps.Keys(change.Fields)) {
			change.Fields[field] = hidden.conceal(field, change.Fields[field])
		}
	}
	for i, s := range r.Settings {
		r.Settings[i].Value = hidden.conceal(s.Key, s.Value)
	}
}

// text returns a value on one line for people.
func text(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v) // a number that JSON lacks
	}
	return strings.TrimSuffix(b.String(), "\n")
}
