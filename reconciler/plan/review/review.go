// Package review says what a change of the config repo will do to a fleet, before anybody merges it: which entries of
// which peels come, change and go, field by field, when they fire next, and what that makes of the load. It is
// arithmetic on two plans and reads nothing.
//
// Changes that are equal on many peels are one. What does not change on a peel is not in a review: a comment, another
// order, or an alias of a field changes nothing.
package review

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/diff"
	"github.com/seed-c01c3da5/zester/reconciler/plan/lint"
	"github.com/seed-c01c3da5/zester/reconciler/plan/safety"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Version is the version of the JSON form of a [Review]. A field that is added does not change it; one that is removed or
// changed does.
const Version = 1

// Options say what is compared.
type Options struct {
	Path       string // of the fleet's files in the repo; empty or "." for all of it
	Base, Head Revision
	From       time.Time // when the change would be merged
	// Zone is the zone of entries that name none. If nil, it is not known, and times are in the zone of this host.
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
	Hash     string        `json:"hash"`
	Blocked  string        `json:"blocked,omitempty"` // why a guard holds the change back
	Release  string        `json:"release,omitempty"` // how the change can go out nevertheless
	Safety   safety.Safety `json:"safety"`
	Totals   Totals        `json:"totals"`
	Changes  []Change      `json:"changes"`  // by entry
	Settings []Setting     `json:"settings"` // by key
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
	TimersReset int `json:"timers_reset"` // changed entries whose next fire is computed again
	RunsAtOnce  int `json:"runs_at_once"` // always 0: no commit starts a run. Version 1 of the format has it
}

// An Action says how an entry changes.
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
	// ResetsTimer reports whether the next fire is computed again.
	ResetsTimer bool   `json:"resets_timer,omitempty"`
	Next        Next   `json:"next"`
	Origin      string `json:"origin"` // file:line, at the base for one that is removed
}

// A Value is the value of a field or key on both sides, as YAML has it. It is nil on a side without it.
type Value struct {
	Before any `json:"before,omitempty"`
	After  any `json:"after,omitempty"`
}

// Next are up to three nominal times after the merge, in the zone of the entry. What counts from the run before has
// none at the base, as that run is not known here.
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

// Empty reports whether no peel changes.
func (r *Review) Empty() bool { return len(r.Touched) == 0 }

// Make compares what a fleet runs at the base with what it would run at the head. Both plans are of the same fleet.
func Make(base, head *plan.Plan, o Options) (*Review, error) {
	d, err := diff.Make(diff.Of(base), head)
	if err != nil {
		return nil, err
	}
	r := &Review{
		Version: Version, Path: shownPath(o.Path), Base: o.Base, Head: o.Head, Peels: len(head.Peels) + len(head.Behind), Hash: d.Hash,
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
	if r.Safety, err = safety.Of(base, head, peelsOf(d), o.From); err != nil {
		return nil, err
	}
	if stop, ok := errors.AsType[*diff.BlockedError](d.Guard(r.Safety.Limits)); ok && !stop.AllowedBy(o.Message) {
		r.Blocked, r.Release = stop.Reason, release(stop)
	}
	if err := r.compare(base, head, d, o); err != nil {
		return nil, err
	}
	if r.Load, err = loadOf(base, kept(base, head), o); err != nil {
		return nil, err
	}
	lints.Wait()
	r.warn(before, after)
	return r, nil
}

// peelsOf returns the peels that change, sorted.
func peelsOf(d *diff.Difference) (peels []target.PeelID) {
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

// shownPath returns a path as a [Review] has it.
func shownPath(p string) string {
	if p = path.Clean(p); p == "." {
		return ""
	}
	return p
}

// Refuse is the review of a head that does not compile.
func Refuse(err *plan.Error, o Options) *Review {
	return &Review{
		Version: Version, Path: shownPath(o.Path), Base: o.Base, Head: o.Head, Errors: Errors(err), Refused: true,
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
