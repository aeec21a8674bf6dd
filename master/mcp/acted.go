package mcp

import (
	"maps"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// actedFor is how long a peel counts towards the limit after an action on it.
const actedFor = time.Hour

// An acted remembers the peels on which assistants have acted within the last hour, by owner.
type acted struct {
	mu      sync.Mutex
	byOwner map[string]map[target.PeelID]time.Time
}

func newActed() *acted { return &acted{byOwner: map[string]map[target.PeelID]time.Time{}} }

// take adds peels, unless an owner's assistants would then have acted on more than limit peels within an hour. It
// reports whether they were added.
func (a *acted) take(owner string, peels []target.PeelID, limit int, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, peels := range a.byOwner {
		maps.DeleteFunc(peels, func(_ target.PeelID, at time.Time) bool { return now.Sub(at) >= actedFor })
		if len(peels) == 0 {
			delete(a.byOwner, name)
		}
	}
	all := map[target.PeelID]time.Time{}
	maps.Copy(all, a.byOwner[owner])
	for _, id := range peels {
		all[id] = now
	}
	if len(all) > limit {
		return false
	}
	a.byOwner[owner] = all
	return true
}
