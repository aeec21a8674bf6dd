package control

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/reconciler/plan/diff"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// errNoPlan: no revision waits, or not the one in the request.
var errNoPlan = &api.Error{Code: api.CodeNotFound, Msg: "cannot show the plan"}

// A Judged is the plan of a revision as the guard judged it.
type Judged struct {
	Commit settings.Commit
	Hash   string // of the plan, in hex
	Change status.Change
}

// ChangeOf describes a difference within the bounds of [status.Change].
func ChangeOf(d *diff.Difference) status.Change {
	n := d.Counts
	c := status.Change{
		Peels:         d.Writes(),
		Before:        n.Before,
		Added:         n.Added,
		Changed:       n.Changed,
		Removed:       n.Removed,
		Groups:        []status.Group{},
		StatesAdded:   n.StatesAdded,
		StatesChanged: n.StatesChanged,
		StatesRemoved: n.StatesRemoved,
	}
	for _, g := range d.Groups[:min(len(d.Groups), status.MaxGroups)] {
		c.Groups = append(c.Groups, status.Group{
			Peels:   firstOf(g.Peels),
			Count:   len(g.Peels),
			Added:   firstNames(g.Entries.Added, g.States.Added),
			Removed: firstNames(g.Entries.Removed, g.States.Removed),
			Changed: firstNames(slices.Sorted(slices.Values(slices.Concat(g.Entries.Retimed, g.Entries.Swapped))),
				g.States.Changed),
		})
	}
	c.More = len(d.Groups) - len(c.Groups)
	return c
}

// firstNames returns the first names of entries, followed by states.
func firstNames(entries, states []string) []string {
	names := slices.Clone(entries)
	for _, name := range states {
		names = append(names, settings.StateOrigin+name)
	}
	return firstOf(names)
}

func firstOf[T any](names []T) []T {
	return slices.Clone(names[:min(len(names), status.MaxGroupNames)])
}

// waiting returns the revision that does not serve the whole fleet yet, and why; ok is false if there is none.
func waiting(s status.Sync) (p status.Plan, ok bool) {
	p = status.Plan{Commit: s.LastAttempted, Base: s.LastGood.Commit}
	message := func(t status.Type) string {
		for _, c := range s.Conditions {
			if c.Type == t {
				return c.Message
			}
		}
		return ""
	}
	switch {
	case s.Blocked != "":
		p.Waits, p.Hash, p.Reason = status.WaitApproval, s.Blocked, strings.Join(s.Errors, "\n")
	case s.Facts != nil:
		p.Commit = s.LastGood.Commit
		p.Waits = status.WaitFacts
		p.Hash = s.Facts.Hash
		p.Reason = s.Facts.Reason
	case s.Pinned != nil && s.Observed != "" && s.Observed != s.Pinned.Commit:
		p.Commit, p.Waits, p.Reason = s.Observed, status.WaitPin, message(status.Suspended)
	case s.Rollout != nil:
		p.Commit, p.Waits, p.Reason = s.Rollout.Commit, status.WaitWaves, message(status.RolloutProgressing)
	case s.Frozen != nil:
		p.Commit, p.Waits, p.Reason = s.Frozen.Commit, status.WaitFreeze, s.Frozen.String()
	case s.Is(status.HeadSkipped):
		p.Commit, p.Waits, p.Reason = s.Observed, status.WaitRetry, message(status.HeadSkipped)
	case s.LastAttempted != s.LastGood.Commit && len(s.Errors) > 0:
		p.Waits, p.Reason = status.WaitCommit, strings.Join(s.Errors, "\n")
	case s.Paused != nil && s.Observed != "" && s.Observed != s.LastGood.Commit:
		p.Commit, p.Waits, p.Reason = s.Observed, status.WaitPause, message(status.Suspended)
	default:
		return status.Plan{}, false
	}
	return p, true
}

// planOf returns what waits, with its change if the guard judged the same plan.
func planOf(s status.Sync, judged []*Judged, digits string) (*status.Plan, error) {
	p, ok := waiting(s)
	switch {
	case digits != "" && len(digits) < status.MinRevision:
		return nil, record.Refuse("cannot show the plan of %q: give %d digits of a commit or more", digits,
			status.MinRevision)
	case !ok && s.LastGood.Commit == "":
		return nil, fmt.Errorf("%w: no revision has been read yet", errNoPlan)
	case !ok:
		return nil, fmt.Errorf("%w: no revision waits, %s is in force", errNoPlan, s.LastGood.Commit.Short())
	case !strings.HasPrefix(string(p.Commit), digits):
		return nil, fmt.Errorf(
			"%w of %.64s: the master keeps the plan of %s alone, which waits; "+
				"zester plan --head %[2]s in a checkout makes it",
			errNoPlan, digits, p.Commit.Short(),
		)
	}
	for _, j := range judged {
		if j != nil && j.Commit == p.Commit && (p.Hash == "" || p.Hash == j.Hash) {
			p.Hash, p.Change = j.Hash, &j.Change
		}
	}
	return &p, nil
}
