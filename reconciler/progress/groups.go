package progress

import (
	"cmp"
	"slices"

	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// StateGroups returns the results that make hosts of a set differ from Git, equal ones together. ok is as in
// [Progress.States].
func (p *Progress) StateGroups(of access.Peels) (groups status.StateGroups, ok bool) {
	var found stateGrouping
	for page, after := (status.SyncStatesPage{}), target.PeelID(""); ; after = page.Next {
		if page, ok = p.States(of, after, groupedAtOnce); !ok {
			return groups, false
		}
		for i := range page.Peels {
			found.add(&page.Peels[i])
		}
		if page.Next == "" {
			break
		}
	}
	return found.shown(), true
}

// groupedAtOnce is how many hosts are read under one lock.
const groupedAtOnce = 2000

// stateGrouping puts equal results of states together.
type stateGrouping struct {
	at  map[status.StateResult]int // index in all
	all []status.StateGroup
}

// add counts the results of a host. Hosts are added by ID.
func (g *stateGrouping) add(s *status.States) {
	if !slices.Contains([]status.HostState{status.HostFailed, status.HostDrifted, status.HostPending}, s.State) {
		return
	}
	for i, r := range s.Results {
		if slices.Contains(s.Results[:i], r) {
			continue
		}

		r.Before = false
		at, known := g.at[r]
		if !known {
			if g.at == nil {
				g.at = map[status.StateResult]int{}
			}
			at = len(g.all)
			g.at[r] = at
			g.all = append(g.all, status.StateGroup{StateResult: r})
		}

		group := &g.all[at]
		group.Count++
		if len(group.Peels) < status.MaxGroupPeels {
			group.Peels = append(group.Peels, s.Peel)
		}
	}
}

// shown returns the groups of a reply.
func (g *stateGrouping) shown() status.StateGroups {
	failedFirst := func(s status.StateGroup) int {
		if s.Result == "failed" {
			return 0
		}
		return 1
	}
	sorting.Stable(g.all, func(a, b status.StateGroup) int {
		return cmp.Or(cmp.Compare(failedFirst(a), failedFirst(b)), cmp.Compare(b.Count, a.Count))
	})
	shown := g.all[:min(len(g.all), status.MaxStateGroups)]
	return status.StateGroups{Groups: append([]status.StateGroup{}, shown...), Left: len(g.all) - len(shown)}
}
