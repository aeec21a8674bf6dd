package diff

import (
	"fmt"
	"maps"
	"slices"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/top"
)

// A move holds the old and the new settings of a group's peels, and the settings that they lose.
type move struct {
	peels         []target.PeelID
	before, after content
	gone          []string
	unlike        []string // removed with none of the same function in their place
}

// A targetCheck finds targets that lose all their settings.
type targetCheck struct {
	base   Base
	before map[settings.Digest]content
	moves  []move
	losing map[target.PeelID]*move // by peel, where the move loses settings
	keys   fileKeys
}

// emptiedTargets returns the targets of base.Targets whose peels all lose every setting that they had only from the
// target, while no other peel gets these settings.
func emptiedTargets(base Base, before map[settings.Digest]content, moves []move) (emptied []string, err error) {
	c := targetCheck{base, before, moves, map[target.PeelID]*move{}, fileKeys{}}
	for i := range moves {
		if m := &moves[i]; len(m.gone) > 0 {
			for _, peel := range m.peels {
				c.losing[peel] = m
			}
		}
	}
	if base.Targets == nil || len(c.losing) == 0 {
		return nil, nil
	}
	for _, rule := range base.Targets.Rules() {
		peels, err := c.emptied(rule)
		if err != nil {
			return nil, err
		}
		if peels > 0 {
			emptied = append(emptied, fmt.Sprintf("%s (peels: %d)", rule.Expr, peels))
		}
	}
	return emptied, nil
}

// emptied returns how many peels lose the settings of a rule, 0 if a peel still gets one of them.
func (c *targetCheck) emptied(rule top.Rule) (peels int, err error) {
	own, lost := map[*plan.Effective][]string{}, map[string]bool{}
	for _, peel := range c.base.Targets.Select(rule.Expr) {
		e := c.base.Targets.Peels[peel]
		if e == nil {
			continue
		}
		if _, known := own[e]; !known {
			if own[e], err = c.keys.only(rule, e); err != nil {
				return 0, err
			}
		}
		had, m := c.before[c.base.Digests[peel]].among(own[e]), c.losing[peel]
		for _, key := range had {
			if m == nil || !slices.Contains(m.gone, key) {
				return 0, nil
			}
			lost[key] = true
		}
		if len(had) > 0 {
			peels++
		}
	}
	if given(slices.Collect(maps.Keys(lost)), c.moves) {
		return 0, nil
	}
	return peels, nil
}

// given reports whether peels that lacked some of the keys have all of them after their move. Peels without settings
// before, such as new ones, do not count.
func given(keys []string, moves []move) bool {
	return slices.ContainsFunc(moves, func(m move) bool {
		return m.before.size() > 0 && len(m.before.among(keys)) < len(keys) && len(m.after.among(keys)) == len(keys)
	})
}

// fileKeys holds the keys of all settings in a file. The key of an entry is entryPrefix and its name.
type fileKeys map[*plan.File]map[string]bool

// only returns the keys in files of a rule that no other file of e sets.
func (k fileKeys) only(rule top.Rule, e *plan.Effective) ([]string, error) {
	own, others := map[string]bool{}, map[string]bool{}
	for _, f := range e.Files() {
		if err := k.read(f); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(rule.Refs, func(r top.Ref) bool { return plan.SettingsPath(r.Name) == f.Path }) {
			maps.Copy(own, k[f])
		} else {
			maps.Copy(others, k[f])
		}
	}
	maps.DeleteFunc(own, func(key string, _ bool) bool { return others[key] })
	return slices.Collect(maps.Keys(own)), nil
}

func (k fileKeys) read(f *plan.File) error {
	if k[f] != nil {
		return nil
	}
	all, _ := f.Node.Any().(map[string]any) // nil for an empty file
	flat, err := plan.Flatten(all)
	if err != nil {
		return fmt.Errorf("cannot read the settings of %s: %w", f.Path, err)
	}
	k[f] = map[string]bool{}
	for key := range flat {
		k[f][key] = true
	}
	for name := range f.Entries {
		k[f][entryPrefix+name] = true
	}
	return nil
}
