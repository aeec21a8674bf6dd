package coverage

import (
	"net/netip"

	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	fleetpkg "github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	maxTrait   = 64 // bytes of the name and of the value of a fact that is compared
	subnetBits = 24
)

// common says what the peels that do not report have in common; empty: nothing is known.
func (t *Table) common() string {
	var silent, others []cause.Traits
	var names []string
	commits := map[target.PeelID]settings.Commit{}
	var absent, present []target.PeelID
	t.mu.Lock()
	t.eachLocked(nil, func(p *peel, isAbsent bool, _ fleetpkg.Presence) {
		if isAbsent {
			absent = append(absent, p.id)
		} else {
			present = append(present, p.id)
		}
		if p.document != nil {
			commits[p.id] = p.revision.Value().commit
		}
	})
	t.mu.Unlock()
	if len(absent) < cause.Fewest {
		return ""
	}

	traits := func(id target.PeelID) cause.Traits {
		facts, _ := t.o.Fleet.Index().Get(id)
		return func(name string) string { return traitOf(facts, commits[id], name) }
	}
	for _, id := range absent {
		silent = append(silent, traits(id))
	}
	for _, id := range present {
		others = append(others, traits(id))
	}
	facts, _ := t.o.Fleet.Index().Get(absent[0])
	for name := range facts {
		if len(name) <= maxTrait {
			names = append(names, name)
		}
	}
	return cause.Common(append(names, "subnet", "commit"), silent, others)
}

// traitOf returns what a peel has under the name of a trait: a fact that is a text, the network of its first address,
// or the commit of its settings.
func traitOf(facts target.Facts, commit settings.Commit, name string) string {
	switch name {
	case "subnet":
		list, _ := facts["ipv4"].([]any)
		if len(list) == 0 {
			return ""
		}
		text, _ := list[0].(string)
		address, err := netip.ParseAddr(text)
		if err != nil || !address.Is4() {
			return ""
		}
		return netip.PrefixFrom(address, subnetBits).Masked().String()
	case "commit":
		if commit == "" {
			return ""
		}
		return commit.Short()
	}
	text, _ := facts[name].(string)
	if len(text) > maxTrait {
		return ""
	}
	return text
}
