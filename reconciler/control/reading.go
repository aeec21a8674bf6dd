package control

import (
	"slices"

	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// partOf returns a status for a caller who may read about some peels alone, which of has: it counts and names these. It
// has no text that could name another peel, and nothing that is counted over the whole fleet.
func partOf(s *status.Sync, peels access.Peels, of []status.Peel) *status.Sync {
	part := *s
	part.Written = status.Written{Generation: s.Generation}
	part.Errors, part.Warnings = nil, nil
	part.Facts = nil
	part.PausedErrors = slices.DeleteFunc(slices.Clone(s.PausedErrors), func(e status.PausedEntries) bool {
		return !peels.Has(e.Peel)
	})
	part.Duplicates = peels.Only(s.Duplicates)
	part.Outdated = peels.Only(s.Outdated)
	part.Conditions = slices.Clone(s.Conditions)
	for i := range part.Conditions {
		part.Conditions[i].Message, part.Conditions[i].Where = "", ""
	}
	part.Conditions = slices.DeleteFunc(part.Conditions, func(c status.Condition) bool {
		return c.Reason == status.FactsChanged
	})
	if s.Rollout != nil {
		r := *s.Rollout
		r.Reason, r.Counts, r.Steps = "", status.Counts{}, nil
		part.Rollout = &r
	}
	part.Counts, part.HostCounts = countsOf(of)
	return &part
}

// countsOf counts peels by their states. Decommissioned ones do not count.
func countsOf(peels []status.Peel) (c status.Counts, hosts status.HostCounts) {
	hosts = status.HostCounts{}
	for i := range peels {
		p := &peels[i]
		if p.State == status.Decommissioned {
			continue
		}
		c.Peels++
		switch p.State {
		case status.Applied:
			c.Applied++
		case status.Failed:
			c.Failed++
		case status.Offline:
			c.Offline++
		default:
			c.Pending++
		}
		if p.HostState != "" {
			hosts[p.HostState]++
		}
	}
	return c, hosts
}

// outlineOf returns an attempt without texts that could name peels, and without counts.
func outlineOf(a status.Attempt) status.Attempt {
	a.Reason, a.Approvals, a.Steps = "", nil, nil
	return a
}
