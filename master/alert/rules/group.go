package rules

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A group is the peels that have the troubles of an alert now.
type group struct {
	Alert
	rule    *Rule
	peels   map[target.PeelID]trouble
	kinds   []verdict.Kind
	entries int // of an alert tooMany: the entries without room
}

// A trouble is what one peel of a group has.
type trouble struct {
	text  string // of the first kind
	kinds kindSet
	n     int // of an alert tooMany: the entries without room on this peel
}

// A kindSet has bit i set for the kind group.kinds[i].
type kindSet uint32

// add adds a peel with a kind of trouble.
func (g *group) add(k verdict.Kind, peel target.PeelID, text string) {
	i := slices.Index(g.kinds, k)
	if i < 0 {
		i, g.kinds = len(g.kinds), append(g.kinds, k)
	}
	t, again := g.peels[peel]
	if !again {
		t.text = text
	}
	t.kinds |= 1 << i
	g.peels[peel] = t
}

// holds returns the peels of a group, sorted, and reports whether there are enough of them for an alert.
func (g *group) holds() (peels []target.PeelID, enough bool) {
	switch {
	case g == nil || len(g.peels) == 0:
		return nil, false
	case policy.Trouble(g.Trouble).OfFleet():
		return nil, true
	}
	return slices.Sorted(maps.Keys(g.peels)), len(g.peels) >= g.rule.MinPeels.Of(g.rule.Peels)
}

// find returns the groups that the rules make of the problems, by the ID of their alert.
func find(in Input) map[string]*group {
	type kind struct {
		verdict.Kind
		entry string
	}
	kinds := map[kind][]verdict.Problem{}
	for _, p := range in.Problems {
		k := kind{p.Kind, p.Entry}
		kinds[k] = append(kinds[k], p)
	}
	sorted := sorting.Values(maps.Keys(kinds), func(a, b kind) int {
		return cmp.Or(strings.Compare(a.entry, b.entry), cmp.Compare(a.Kind, b.Kind))
	})
	found := map[string]*group{}
	for i := range in.Rules {
		rule := &in.Rules[i]
		for _, k := range sorted {
			if !rule.Covers(policy.Trouble(k.Kind), k.entry) || in.isOld(k.Kind) {
				continue
			}
			a := Alert{Rule: rule.Name, Entry: k.entry}
			if k.entry == "" {
				a.Trouble = k.Kind
			}
			g := found[a.ID()]
			if g == nil {
				g = &group{Alert: a, rule: rule, peels: map[target.PeelID]trouble{}}
				found[a.ID()] = g
			}
			for _, p := range kinds[k] {
				if !policy.Trouble(k.Kind).OfFleet() && rule.Selects != nil && !rule.Selects(p.Peel) {
					continue
				}
				g.add(k.Kind, p.Peel, p.Text)
			}
		}
	}
	return found
}
