package reconciler

import (
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// size is the number of settings of a content: the mark, the effect, the job and the entries beside it of each group.
func (c walkContent) size() (n int) {
	for _, text := range c {
		n += 3
		if f := strings.Fields(text); len(f) > 2 {
			n += strings.Count(f[2], ",") + 1
		}
	}
	return n
}

// judgeFacts judges that a document takes the group of a fact from a peel, though nothing but its fact has changed for a while.
// It counts only what is surely over the limits: what no peel has any longer, or more than a tenth of all settings since a
// person approved something, of each peel the largest loss.
func (o *walkOracle) judgeFacts(id target.PeelID, old, c walkContent, now time.Time) {
	for _, a := range o.acts {
		if (a.verb == "facts" || a.verb == "approve") && !a.refused && now.Sub(a.at) < slack {
			clear(o.taken)
			return
		}
	}
	lost := walkContent{"tier": old["tier"]}
	if old["tier"] == "" || c["tier"] != "" || o.force == nil || o.force.rules.off || o.roll != nil || now.Sub(o.moved) < slack {
		return
	}
	o.taken[id] = max(o.taken[id], lost.size())
	all, taken, last := 0, 0, true
	for _, h := range o.hosts {
		all += h.held.size()
		last = last && h.held["tier"] == ""
	}
	for _, n := range o.taken {
		taken += n
	}
	switch {
	case all+taken < 10:
	case last:
		o.failf(factsWait, "%s was the last that had the group of a fact, and loses it without an approval", id)
	case 10*taken > all+taken:
		o.failf(factsWait, "facts have taken %d settings, %d are left, and nobody has approved it", taken, all)
	}
}
