package verdict

import (
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/status"
)

// rolledBackTime is how long a revision that was rolled back is [WaveFailed]. After that it is [Held]: the fleet runs
// what it ran before, and the revision waits for a newer one or for a retry, maybe for weeks.
const rolledBackTime = 24 * time.Hour

// OfRevision returns the problems that keep the newest revision of the config repo from the fleet, at most one of each
// kind. Their text begins with the commit and the place in the repo.
func OfRevision(s *status.Sync, now time.Time) (all []Problem) {
	for _, c := range s.Conditions {
		kind := ofCondition(s, c)
		if kind == WaveFailed && now.Sub(c.LastTransitionTime) >= rolledBackTime {
			kind = Held
		}
		if kind == "" || slices.ContainsFunc(all, func(p Problem) bool { return p.Kind == kind }) {
			continue
		}

		text := c.Message
		if c.Where != "" && !strings.HasPrefix(text, c.Where) {
			text = c.Where + ": " + text
		}
		if c.ObservedRevision != "" {
			text = c.ObservedRevision.Short() + ": " + text
		}
		all = append(all, Problem{Kind: kind, Since: c.LastTransitionTime, Text: text, Revision: c.ObservedRevision})
	}
	return all
}

// ofCondition returns the kind of problem that a condition means; empty: none.
func ofCondition(s *status.Sync, c status.Condition) Kind {
	switch {
	case c.Type == status.CompileFailed && c.Status, c.Type == status.SourceVerified && !c.Status,
		c.Type == status.GuardBlocked && c.Status && s.Blocked == "" && c.Reason != status.FactsChanged:
		return Refused
	case c.Type == status.Stalled && c.Status:
		return Stalled
	case c.Type == status.RolloutProgressing && !c.Status && c.Reason == "WaveFailed",
		c.Type == status.HeadSkipped && c.Status:
		return WaveFailed
	case c.Status && slices.Contains([]status.Type{status.GuardBlocked, status.Suspended, status.Frozen}, c.Type):
		return Held
	case c.Type == status.RolloutProgressing && c.Status && s.Rollout != nil && s.Rollout.State == "gate":
		return Held
	}
	return ""
}
