// Package review describes the effect of a change of the config repo on a fleet before the merge: the entries and
// states that are added, changed and removed on each peel, field by field, the next fires of entries, the contents of
// files that states write, what states will delete or restart, and the load.
//
// Call [Make] with the plans of the base and the head, or [Refuse] if the head does not compile. Then [Review.Facts],
// [Review.Blocks] and [Review.Markdown] return the texts. [Review.Test] adds what the changed entries would have done
// in the past.
//
// Guarantees: it computes from the plans and reads nothing. Equal changes on many peels are one change. Comments,
// order, and aliases of fields are no changes. Values that look like secrets are not shown.
package review

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/backtest"
	"github.com/seed-c01c3da5/zester/reconciler/plan/diff"
	"github.com/seed-c01c3da5/zester/reconciler/plan/lint"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Version is the version of the JSON form of a [Review]. A field that is added does not change it; one that is removed
// or changed does.
const Version = 1

// Options describe the comparison.
type Options struct {
	Path       string // folder of the fleet in the repo; empty or "." for the root
	Base, Head Revision
	From       time.Time // when the change would be merged
	// Zone is the zone of entries that name none. If nil, it is unknown, and times are in the zone of this host.
	Zone *time.Location
	// Static holds the entries of a peel.yaml with their positions. An entry of the head that replaces one gets a
	// warning.
	Static  map[string]strictyaml.Pos
	Message string // of the head's commit; its trailer may allow a change that the guard blocks
}

// A Revision is one of the two sides.
type Revision struct {
	Name    string `json:"name"`              // as given by the user, such as HEAD; or "working tree"
	Commit  string `json:"commit,omitempty"`  // empty for the working tree
	Subject string `json:"subject,omitempty"` // of the commit
}

// A Review is the effect of a change on a fleet.
type Review struct {
	Version int      `json:"version"`
	Path    string   `json:"path,omitempty"` // folder of the fleet in the repo, empty for the root
	Base    Revision `json:"base"`
	Head    Revision `json:"head"`
	// Errors are the mistakes of the head, as path:line:column: message. If Refused is set, the fleet would keep its
	// present settings, and the other fields are empty.
	Errors  []string `json:"errors,omitempty"`
	Refused bool     `json:"refused,omitempty"`
	Extent
	Guard
	Safety   diff.Safety   `json:"safety"`
	Totals   Totals        `json:"totals"`
	Changes  []Change      `json:"changes"`  // by entry
	States   []StateChange `json:"states"`   // by name
	Effects  []Effect      `json:"effects"`  // of states, by kind and state
	Settings []Setting     `json:"settings"` // by key
	// Warnings are the warnings about the head. The first NewWarnings of them are new, the others apply to the base
	// too.
	Warnings    []string `json:"warnings"`
	NewWarnings int      `json:"new_warnings"`
	Load        Load     `json:"load"`
	// Backtest is what the changed entries would have done in the past; nil without [Review.Test].
	Backtest *backtest.Result `json:"backtest,omitempty"`
}

// An Extent holds the peels that a change affects. Each list is sorted.
type Extent struct {
	Peels   int             `json:"peels"`             // number of peels of the fleet
	Touched []target.PeelID `json:"touched"`           // peels whose settings change
	Emptied []target.PeelID `json:"emptied,omitempty"` // peels that lose all their entries
	Behind  []target.PeelID `json:"behind,omitempty"`  // peels that mistakes hold back
}

// A Guard says whether the guard blocks a change.
type Guard struct {
	// Hash is the plan's hash for zester sync approve, if the fleet has the settings of the base.
	Hash    string `json:"hash"`
	Blocked string `json:"blocked,omitempty"` // why the guard blocks the change
	Release string `json:"release,omitempty"` // how to let the blocked change go out
}

// Totals are numbers of entries, counted on each peel that has them.
type Totals struct {
	Before      int `json:"before"` // on all peels, at the base
	Added       int `json:"added"`
	Changed     int `json:"changed"`
	Removed     int `json:"removed"`
	TimersReset int `json:"timers_reset"` // changed entries whose next fire is computed again
	RunsAtOnce  int `json:"runs_at_once"` // always 0, as no commit starts a run; a field of version 1

	StatesAdded   int `json:"states_added"` // states, counted on each peel that has them
	StatesChanged int `json:"states_changed"`
	StatesRemoved int `json:"states_removed"`
}

// An Action is the kind of a change.
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
	Origin      string `json:"origin"` // file:line of the entry; at the base if it is removed
}

// A Value holds the values of a field or key at the base and at the head; nil if there is none.
type Value struct {
	Before any `json:"before,omitempty"`
	After  any `json:"after,omitempty"`
}

// Next holds up to three fires after the merge, without splay, in the zone of the entry. An entry whose time depends on
// its previous run has none at the base, as that run is not known here.
type Next struct {
	Before []time.Time `json:"before,omitempty"`
	After  []time.Time `json:"after,omitempty"`
}

// A Setting is a key beside the schedule and the states that changes in the same way on some peels.
type Setting struct {
	Peels []target.PeelID `json:"peels"` // sorted
	Key   string          `json:"key"`   // the keys from the top, with dots between them
	Value
}

// Empty reports whether no peel changes.
func (r *Review) Empty() bool { return len(r.Touched) == 0 }

// Make compares the settings of a fleet at the base and at the head. Both plans are for the same fleet.
func Make(base, head *plan.Plan, o Options) (*Review, error) {
	d, err := diff.Make(diff.Of(base), head)
	if err != nil {
		return nil, err
	}
	r := &Review{
		Version: Version, Path: shownPath(o.Path), Base: o.Base, Head: o.Head,
		Extent:  Extent{Peels: len(head.Peels) + len(head.Behind), Touched: []target.PeelID{}},
		Changes: []Change{}, States: []StateChange{}, Effects: []Effect{}, Settings: []Setting{}, Warnings: []string{},
		Totals: Totals{
			Before:  d.Counts.Before,
			Added:   d.Counts.Added,
			Changed: d.Counts.Changed,
			Removed: d.Counts.Removed,
		},
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
	if r.Safety, err = diff.SafetyOf(base, head, peelsOf(d), o.From); err != nil {
		return nil, err
	}
	r.Hash = diff.SafetyHash(d.Hash, r.Safety.Weakens)
	r.block(d, o.Message)
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

// hashShown is how many digits of its hash the command to approve a plan has.
const hashShown = 12

// block sets Blocked and Release. message is of the head's commit.
func (r *Review) block(d *diff.Difference, message string) {
	approve := "zester sync approve " + r.Hash[:min(len(r.Hash), hashShown)] + " after the merge lets it out"
	var reasons []string
	if len(r.Safety.Weakens) > 0 {
		reasons, r.Release = []string{diff.SafetyReason(r.Safety.Weakens)}, approve
	}
	if stop, ok := errors.AsType[*diff.BlockedError](d.Guard(r.Safety.Limits)); ok &&
		(len(reasons) > 0 || !stop.AllowedBy(message)) {
		if r.Release = approve; len(reasons) == 0 && !stop.RemovesAll {
			r.Release = "the line " + stop.Trailer() + " at the end of the commit's message, or " + approve
		}
		reasons = append(reasons, stop.Reason)
	}
	r.Blocked = strings.Join(reasons, "; ")
}

// peelsOf returns the peels that change, sorted.
func peelsOf(d *diff.Difference) (peels []target.PeelID) {
	for _, g := range d.Groups {
		peels = append(peels, g.Peels...)
	}
	slices.Sort(peels)
	return peels
}

// kept returns the head with the settings of the base for the peels that are held back.
func kept(base, head *plan.Plan) *plan.Plan {
	all := head.HoldBack(nil)
	for id := range head.Behind {
		if e := base.Peels[id]; e != nil {
			all.Peels[id] = e
		}
	}
	return all
}

// warn sets Warnings, the new ones first. A warning that has only moved within its file is not new.
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

// shownPath returns the path in the form of [Review].Path.
func shownPath(p string) string {
	if p = path.Clean(p); p == "." {
		return ""
	}
	return p
}

// Refuse returns the review of a head that does not compile.
func Refuse(err *plan.Error, o Options) *Review {
	return &Review{
		Version:  Version,
		Path:     shownPath(o.Path),
		Base:     o.Base,
		Head:     o.Head,
		Errors:   Errors(err),
		Refused:  true,
		Extent:   Extent{Touched: []target.PeelID{}},
		Changes:  []Change{},
		States:   []StateChange{},
		Effects:  []Effect{},
		Settings: []Setting{},
		Warnings: []string{},
	}
}

// Errors returns a line for each error.
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
