package reconciler

import (
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/rollout"
)

// observed returns what the rollout under way depends on, for the fleet as it is now.
func (t *term) observed() rollout.Observed {
	now, runs := time.Now(), t.rolling.runs.Failures()
	o := rollout.Observed{Now: now, Fleet: t.fleet.Index(), Freezes: t.safety(t.rolling.base, t.rolling.plan).Freezes}
	if s := t.last.Suspended; s != nil {
		o.Paused = "paused by " + s.By + " at " + stamp(s.Time)
	}
	for id, e := range t.rolling.plan.Peels {
		if !t.rolling.changes(id) {
			continue
		}
		view := t.progress.View(id)
		p := rollout.Peel{ID: id, Applied: view.Digest == e.Digest, Errors: view.Errors, Report: view.Sequence, Run: runs[id]}
		switch seen, online := t.fleet.Presence(id); {
		case online:
			p.Presence, p.Seen = rollout.Online, seen
		case t.fleet.Unknown(id):
			p.Presence, p.Seen = rollout.Unknown, seen
		default:
			p.Seen = seen
		}
		p.Lacking = t.rolling.lacking(p, t.last.Rollout.Has(id), now)
		o.Peels = append(o.Peels, p)
	}
	return o
}

// lacking returns how long this term has seen a member online without the revision.
func (r *rolling) lacking(p rollout.Peel, member bool, now time.Time) time.Duration {
	if !member || p.Applied || p.Presence != rollout.Online {
		delete(r.late, p.ID)
		return 0
	}
	if r.late[p.ID].IsZero() {
		r.late[p.ID] = now
	}
	return now.Sub(r.late[p.ID])
}
