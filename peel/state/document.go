//go:build linux

package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// A stateSet has the states of a document.
type stateSet struct {
	usable state.Set // in their order
	broken []state.Broken
	files  map[string][]string // the names of the states to which each settings file contributed
}

// read returns the states of a document.
func read(d Document) (stateSet, error) {
	if d.Values == nil {
		return stateSet{}, nil
	}
	values, _ := d.Values.Reveal().(map[string]any)
	found, err := state.FromSettings(values)
	if err != nil {
		return stateSet{}, fmt.Errorf("this peel cannot use the states of its settings: %w", err)
	}
	found.Set.MarkSecrets(d.Values.Get(state.Key))
	return stateSet{found.Set, found.Broken, found.Compiled.Refs}, nil
}

// origin returns where a state comes from, nil if that is not known.
func (d Document) origin(name string) *settings.Origin {
	o, known := d.Settings.Origins[settings.StateOrigin+name]
	if !known {
		return nil
	}
	o.Proof = "" // is long, and of no use in a result
	return &o
}

// choose returns the request for the states of some settings files and what they require, or for all if refs is nil.
func choose(all stateSet, refs []string) (Request, error) {
	set, files := all.usable, all.files
	q := Request{Set: set, Broken: all.broken, Whole: true, Files: func(ref string) []string { return files[ref] }}
	if refs == nil {
		return q, nil
	}
	var names []string
	for _, ref := range refs {
		found, known := files[ref]
		if !known {
			return q, fmt.Errorf("no settings file %q has states for this peel%s", ref, near(ref, files))
		}
		names = append(names, found...)
	}
	chosen := set.Required(names, q.Files)
	q.Set = nil
	q.Others = nil
	q.Broken = nil
	q.Whole = false
	for _, b := range all.broken {
		// One that others wait for by require_in or onchanges_in counts, too: without it they would run at once.
		if chosen[b.Name] || slices.ContainsFunc(b.Before, func(name string) bool { return chosen[name] }) {
			q.Broken = append(q.Broken, b)
		} else {
			q.OthersBroken = append(q.OthersBroken, b)
		}
	}
	for _, s := range set {
		if chosen[s.Name] {
			q.Set = append(q.Set, s)
		} else {
			q.Others = append(q.Others, s)
		}
	}
	return q, nil
}

// near names the settings file that was probably meant, or all of them.
func near(ref string, files map[string][]string) string {
	known := slices.Sorted(maps.Keys(files))
	if s := strictyaml.Suggest(ref, known); s != "" {
		return s
	}
	if len(known) == 0 {
		return "; it has no states"
	}
	return "; those that have are " + strings.Join(known, ", ")
}
