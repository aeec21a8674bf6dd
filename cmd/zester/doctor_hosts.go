package main

import (
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// recentConflict is how old a conflicting key may be. A host goes on asking, and a master records its key once an hour.
const recentConflict = 90 * time.Minute

// hosts names the peels whose ID another host asks for.
func (d *doctor) hosts(all []credential.Enrolled) {
	var wanted []target.PeelID
	for _, h := range all {
		if h.Conflicting != nil && time.Since(h.Conflicting.Time) < recentConflict {
			wanted = append(wanted, h.ID)
		}
	}
	if len(wanted) > 0 {
		d.found("hosts", warning,
			"zester auth peel list shows its address: is id in its peel.yaml wrong, or was the host set up again?",
			"a host with another key asks to join as %s", some(wanted))
	}
}
