package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Base is what peels were given before: another plan, or what is published.
type Base struct {
	Digests map[target.PeelID]settings.Digest // of the peels that have settings
	// Plan is one that all peels in it have the settings of, nil if none is known. With it the cost of a comparison follows
	// the change where only files have changed since.
	Plan *Plan
	// Settings returns the canonical settings of a digest of Digests. It is called at most once for each.
	Settings func(settings.Digest) (canon.Raw, error)
	// Targets is the plan of the revision that was in force, nil if it is not known. The guard looks at its targets.
	Targets *Plan
}

// Base returns p as the base of another plan.
func (p *Plan) Base() Base {
	digests := make(map[target.PeelID]settings.Digest, len(p.Peels))
	byDigest := map[settings.Digest]canon.Raw{}
	for peel, e := range p.Peels {
		digests[peel] = e.Digest
		byDigest[e.Digest] = e.Settings
	}
	return Base{Digests: digests, Targets: p, Settings: func(d settings.Digest) (canon.Raw, error) { return byDigest[d], nil }}
}

// A Group is a change that several peels have in common.
type Group struct {
	Old, New settings.Digest // Old is empty for peels that had no settings
	Peels    []target.PeelID // sorted
	Entries  schedule.Changes
}

// Counts are numbers of (peel, entry) pairs.
type Counts struct {
	Before  int // of the base
	Added   int
	Changed int
	Removed int
}

// A Difference is what a plan changes for the members of its fleet. Peels that only the base knows are left alone and
// count nowhere.
type Difference struct {
	Groups []Group // the peels whose digest differs, by first peel
	Counts Counts
	// Hash names the change: the peels, what they had and what they get. It is 64 hex digits.
	Hash string

	extent   extent
	emptied  bool // peels had settings before, and now none has any
	topEmpty bool
}

// Diff compares a plan with what its peels had before. Only settings whose digests differ are looked into, each digest
// once. An error is one of base.Settings.
func Diff(base Base, p *Plan) (*Difference, error) {
	d := &Difference{}
	same, changed := compare(base, p)
	effective := map[settings.Digest]*Effective{}
	peelsOf := map[settings.Digest]int{} // of the base
	for e, peels := range same {
		effective[e.Digest] = e
		peelsOf[e.Digest] += peels
	}
	for change, g := range changed {
		effective[g.New] = change.new
		peelsOf[g.Old] += len(g.Peels)
	}
	had, has := false, false
	before, known := map[settings.Digest]content{}, base.effectives()
	for old, peels := range peelsOf {
		c, err := base.content(old, cmp.Or(effective[old], known[old]))
		if err != nil {
			return nil, err
		}
		before[old] = c
		d.Counts.Before += peels * len(c.entries)
		if c.size() > 0 {
			d.extent.before += peels * c.size()
			d.extent.peels += peels
		}
		had = had || old != "" && old != noSettings
	}
	for digest := range effective {
		has = has || digest != noSettings
	}
	d.emptied, d.topEmpty = had && !has, had && p.TopEmpty
	gone, moves := map[string]bool{}, []move{}
	for _, g := range sorted(changed) {
		after, err := effective[g.New].content()
		if err != nil {
			return nil, err
		}
		g.Entries = schedule.Diff(before[g.Old].entries, after.entries)
		m := move{peels: g.Peels, before: before[g.Old], after: after, gone: d.extent.measure(g, before[g.Old], after)}
		for _, key := range m.gone {
			gone[key] = true
		}
		moves = append(moves, m)
		d.Counts.Added += len(g.Peels) * len(g.Entries.Added)
		d.Counts.Changed += len(g.Peels) * (len(g.Entries.Retimed) + len(g.Entries.Swapped))
		d.Counts.Removed += len(g.Peels) * len(g.Entries.Removed)
		d.Groups = append(d.Groups, *g)
	}
	d.Hash = d.hash()
	emptied, err := emptiedTargets(base, before, moves)
	if err != nil {
		return nil, err
	}
	d.extent.targets = emptied
	return d, d.extent.leave(gone, effective)
}

// change is what peels had and what they get.
type change struct {
	old settings.Digest
	new *Effective
}

// effectives are what is known of the base's digests.
func (b Base) effectives() map[settings.Digest]*Effective {
	if b.Plan == nil {
		return nil
	}
	known := make(map[settings.Digest]*Effective, len(b.Plan.results))
	for _, e := range b.Plan.results {
		if e != nil {
			known[e.Digest] = e
		}
	}
	return known
}

// compare counts the peels that keep what they had, and puts those together that change alike. Unless the plan of the
// base is for the same signatures it looks at every peel of the fleet.
func compare(base Base, p *Plan) (same map[*Effective]int, changed map[change]*Group) {
	same, changed = map[*Effective]int{}, map[change]*Group{}
	note := func(old settings.Digest, e *Effective, peels ...target.PeelID) {
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
	if base.Plan == nil || p.assigned == nil || p.assigned != base.Plan.assigned {
		for peel, e := range p.Peels {
			note(base.Digests[peel], e, peel)
		}
		return same, changed
	}
	for i, s := range p.assigned.signatures {
		was, e := base.Plan.results[i], p.results[i]
		switch {
		case e == nil: // they stay behind
		case was != nil:
			note(was.Digest, e, s.Peels...)
		default:
			for _, peel := range s.Peels {
				note(base.Digests[peel], e, peel)
			}
		}
	}
	return same, changed
}

// sorted makes one group of all changes from one digest to one other, and puts them in order.
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
	return slices.SortedFunc(maps.Values(all), func(a, b *Group) int { return cmp.Compare(a.Peels[0], b.Peels[0]) })
}

// noSettings is the digest of a peel that nothing matches.
var noSettings = settings.DigestOf(canon.Raw{0x80})

// scheduleOf returns the entries of published settings. Entries that this build cannot read are there under their names,
// and equal none.
func scheduleOf(digest settings.Digest, raw canon.Raw) (schedule.Set, error) {
	var values map[string]any
	if err := canon.Unmarshal(raw, &values); err != nil {
		return nil, fmt.Errorf("cannot read the settings of digest %s: %w", digest, err)
	}
	entries, ok := values["schedule"].(map[string]any)
	if !ok {
		return nil, nil
	}
	set, _ := schedule.ParseSet(strictyaml.FromValue("published settings", entries))
	for name := range entries {
		if set[name] == nil {
			set[name] = &schedule.Entry{Name: name}
		}
	}
	return set, nil
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

// Writes is the number of peels that get a new document.
func (d *Difference) Writes() int {
	n := 0
	for _, g := range d.Groups {
		n += len(g.Peels)
	}
	return n
}
