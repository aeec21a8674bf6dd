package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// A Hold keeps a revision from peels.
type Hold struct {
	Reason string    // for people
	Until  time.Time // when it ends; zero if a person has to end it, or if a freeze lasts for more than two years
}

// HoldOf returns the hold of the freezes on a revision that changes some peels, if one holds now.
func HoldOf(freezes []policy.Freeze, peels []target.PeelID, fleet *peelindex.Index, now time.Time) (h Hold, held bool) {
	var concerned []policy.Freeze
	for _, f := range freezes {
		selected, err := selects(f.Target, fleet)
		// a target that this version cannot read selects every peel
		if err != nil || slices.ContainsFunc(peels, selected) {
			concerned = append(concerned, f)
		}
	}
	i := slices.IndexFunc(concerned, func(f policy.Freeze) bool { return f.Holds(now) })
	if i < 0 || len(peels) == 0 {
		return h, false
	}
	h.Reason = fmt.Sprintf("freeze (%s) holds the revision", concerned[i])
	h.Until, _ = policy.Thaw(concerned, now)
	return h, true
}
