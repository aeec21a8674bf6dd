// Package diff compares a plan with the previous settings of the peels. Call [Make] with a [Base]; [Of] makes one from
// another plan. [Difference.Guard] then blocks a change that is rarely intended: one that exceeds the limits of
// zester.yaml, removes a setting from its last peel, empties a target, or removes all settings.
//
// If only files have changed since the plan of the base, the cost follows the settings that change, not the number of
// peels.
package diff

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Base holds the previous settings of peels: those of another plan, or the stored documents.
type Base struct {
	Digests map[target.PeelID]settings.Digest // of the peels that have settings
	// Plan is a plan whose peels all have its settings, nil if none is known. It saves comparing peel by peel if only
	// files have changed since.
	Plan *plan.Plan
	// Settings returns the canonical settings of a digest of Digests. It is called at most once for each.
	Settings func(settings.Digest) (canon.Raw, error)
	// Targets is the plan of the previous revision, nil if it is not known. The guard checks its targets.
	Targets *plan.Plan
	// Removed has the names of entries that masters removed on request, or because they had run. The guard does not
	// count their loss.
	Removed map[string]bool
}

// Of returns p as the base of another plan.
func Of(p *plan.Plan) Base {
	digests := make(map[target.PeelID]settings.Digest, len(p.Peels))
	byDigest := map[settings.Digest]canon.Raw{}
	for peel, e := range p.Peels {
		digests[peel] = e.Digest
		byDigest[e.Digest] = e.Settings
	}
	return Base{
		Digests:  digests,
		Targets:  p,
		Settings: func(d settings.Digest) (canon.Raw, error) { return byDigest[d], nil },
	}
}

// A Group is a change of several peels from the same settings to the same settings.
type Group struct {
	Old, New settings.Digest // Old is empty for peels that had no settings
	Peels    []target.PeelID // sorted
	Entries  schedule.Changes
	States   StateChanges
	Takes    Taking // of each of the peels
}

// A Taking counts settings that a change takes from a peel: schedule entries, states, and values beside them.
type Taking struct {
	Had     int // settings before the change
	Touched int // settings that change or go
	Removed int // settings that go with nothing in their place
}

// StateChanges are the sorted names of the states that differ. A state differs also if the content of a file differs
// that it names.
type StateChanges struct{ Added, Changed, Removed []string }

// Counts are numbers of (peel, entry) and of (peel, state) pairs.
type Counts struct {
	Before  int // entries of the base
	Added   int
	Changed int
	Removed int

	StatesAdded, StatesChanged, StatesRemoved int
}

// A Difference holds the changes of a plan for the members of its fleet. Peels that only the base has keep their
// settings and are not counted.
type Difference struct {
	Groups []Group // the peels whose digest differs, by first peel
	Counts Counts
	// Hash identifies the change: the peels, their old and their new digests. It has 64 hex digits.
	Hash string

	extent   extent
	emptied  bool // peels had settings before, and now none has any
	topEmpty bool
}

// Make compares a plan with the previous settings of its peels. It reads only settings whose digests differ, each
// digest once. An error comes from base.Settings.
func Make(base Base, p *plan.Plan) (*Difference, error) {
	same, changed := compare(base, p)
	effective := map[settings.Digest]*plan.Effective{}
	peelsOf := map[settings.Digest]int{} // of the base
	for e, peels := range same {
		effective[e.Digest] = e
		peelsOf[e.Digest] += peels
	}
	for change, g := range changed {
		effective[g.New] = change.new
		peelsOf[g.Old] += len(g.Peels)
	}
	before, err := base.contents(peelsOf, effective)
	if err != nil {
		return nil, err
	}
	d := &Difference{}
	d.measureBase(before, peelsOf)
	had := hasSettings(maps.Keys(peelsOf)) && base.wouldLose(before)
	d.emptied, d.topEmpty = had && !hasSettings(maps.Keys(effective)), had && p.TopEmpty
	moves, err := d.addGroups(sorted(changed), before, base.Removed, effective)
	if err != nil {
		return nil, err
	}
	d.Hash = d.hash()
	if d.extent.targets, err = emptiedTargets(base, before, moves); err != nil {
		return nil, err
	}
	return d, d.extent.leave(moves, effective)
}

// hasSettings reports whether one of the digests belongs to settings that are not empty.
func hasSettings(digests iter.Seq[settings.Digest]) bool {
	for digest := range digests {
		if digest != "" && digest != noSettings {
			return true
		}
	}
	return false
}

// contents returns the settings of the digests of the base. It does not call b.Settings for settings of a known plan.
func (b Base) contents(peelsOf map[settings.Digest]int,
	effective map[settings.Digest]*plan.Effective,
) (map[settings.Digest]content, error) {
	contents, known := map[settings.Digest]content{}, b.effectives()
	for digest := range peelsOf {
		c, err := b.content(digest, cmp.Or(effective[digest], known[digest]))
		if err != nil {
			return nil, err
		}
		contents[digest] = c
	}
	return contents, nil
}

// measureBase counts the settings of the base.
func (d *Difference) measureBase(before map[settings.Digest]content, peelsOf map[settings.Digest]int) {
	for digest, peels := range peelsOf {
		c := before[digest]
		d.Counts.Before += peels * len(c.entries)
		if c.size() > 0 {
			d.extent.before += peels * c.size()
			d.extent.peels += peels
		}
	}
}

// addGroups adds the changes of all groups, and returns the move of each.
func (d *Difference) addGroups(groups []*Group, before map[settings.Digest]content, released map[string]bool,
	effective map[settings.Digest]*plan.Effective,
) (moves []move, err error) {
	for _, g := range groups {
		after, err := contentOf(effective[g.New])
		if err != nil {
			return nil, err
		}
		g.Entries, g.States = schedule.Diff(before[g.Old].entries, after.entries), compareStates(before[g.Old].values,
			after.values)
		gone, unlike := d.extent.measure(g, before[g.Old].without(released), after)
		moves = append(moves, move{peels: g.Peels, before: before[g.Old], after: after, gone: gone, unlike: unlike})
		d.Counts.Added += len(g.Peels) * len(g.Entries.Added)
		d.Counts.Changed += len(g.Peels) * (len(g.Entries.Retimed) + len(g.Entries.Swapped))
		d.Counts.Removed += len(g.Peels) * len(g.Entries.Removed)
		d.Counts.StatesAdded += len(g.Peels) * len(g.States.Added)
		d.Counts.StatesChanged += len(g.Peels) * len(g.States.Changed)
		d.Counts.StatesRemoved += len(g.Peels) * len(g.States.Removed)
		d.Groups = append(d.Groups, *g)
	}
	return moves, nil
}

// compareStates returns the states in which two sets of flat settings differ.
func compareStates(before, after map[string]string) (c StateChanges) {
	for key, value := range before {
		name, isState := strings.CutPrefix(key, state.Key+".")
		if !isState {
			continue
		}
		switch other, there := after[key]; {
		case !there:
			c.Removed = append(c.Removed, name)
		case other != value:
			c.Changed = append(c.Changed, name)
		}
	}
	for key := range after {
		name, isState := strings.CutPrefix(key, state.Key+".")
		if _, there := before[key]; isState && !there {
			c.Added = append(c.Added, name)
		}
	}
	slices.Sort(c.Added)
	slices.Sort(c.Changed)
	slices.Sort(c.Removed)
	return c
}

// A change is the old digest and the new settings of peels.
type change struct {
	old settings.Digest
	new *plan.Effective
}

// effectives returns the settings of the base's plan, by digest.
func (b Base) effectives() map[settings.Digest]*plan.Effective {
	if b.Plan == nil {
		return nil
	}
	known := map[settings.Digest]*plan.Effective{}
	for e := range b.Plan.Effectives() {
		known[e.Digest] = e
	}
	return known
}

// compare counts the peels that keep their settings, and groups the others by change. Unless the plan of the base has
// the same signatures it compares peel by peel.
func compare(base Base, p *plan.Plan) (same map[*plan.Effective]int, changed map[change]*Group) {
	same, changed = map[*plan.Effective]int{}, map[change]*Group{}
	note := func(old settings.Digest, e *plan.Effective, peels ...target.PeelID) {
		if old == e.Digest {
			same[e] += len(peels)
			return
		}
		c := change{old, e}
		if changed[c] == nil {
			changed[c] = &Group{Old: old, New: e.Digest}
		}
		changed[c].Peels = append(changed[c].Peels, peels...)
	}
	signatures, ok := p.BySignature(base.Plan)
	if !ok {
		for peel, e := range p.Peels {
			note(base.Digests[peel], e, peel)
		}
		return same, changed
	}
	for _, s := range signatures {
		switch {
		case s.After == nil: // mistakes hold these peels back
		case s.Before != nil:
			note(s.Before.Digest, s.After, s.Peels...)
		default:
			for _, peel := range s.Peels {
				note(base.Digests[peel], s.After, peel)
			}
		}
	}
	return same, changed
}

// sorted merges the groups with the same old and new digests, and sorts them by first peel.
func sorted(changed map[change]*Group) []*Group {
	type pair struct{ old, new settings.Digest }
	all := map[pair]*Group{}
	for _, g := range changed {
		if first := all[pair{g.Old, g.New}]; first != nil {
			first.Peels = append(first.Peels, g.Peels...)
		} else {
			all[pair{g.Old, g.New}] = g
		}
	}
	for _, g := range all {
		slices.Sort(g.Peels)
	}
	return sorting.Values(maps.Values(all), func(a, b *Group) int { return cmp.Compare(a.Peels[0], b.Peels[0]) })
}

// noSettings is the digest of empty settings, which a peel has that no rule matches.
var noSettings = settings.DigestOf(canon.Raw{0x80})

// scheduleOf returns the entries of stored settings. For an entry that this build cannot parse it returns one that
// equals no other.
func scheduleOf(values map[string]any) schedule.Set {
	entries, ok := values["schedule"].(map[string]any)
	if !ok {
		return nil
	}
	set, _ := schedule.ParseSet(strictyaml.FromValue("published settings", entries))
	for name := range entries {
		if set[name] == nil {
			set[name] = &schedule.Entry{Name: name}
		}
	}
	return set
}

func (d *Difference) hash() string {
	h := sha256.New()
	for _, g := range d.Groups {
		// None of these holds a line end.
		fmt.Fprintf(h, "%s %s\n", g.Old, g.New)
		for _, peel := range g.Peels {
			_, _ = io.WriteString(h, string(peel)+"\n")
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Writes returns the number of peels that get a new document.
func (d *Difference) Writes() int {
	n := 0
	for _, g := range d.Groups {
		n += len(g.Peels)
	}
	return n
}
