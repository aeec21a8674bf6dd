package reconciler

import (
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// remindAfter is how many minutes in a row a peel has to be pending before its document is written once more.
const remindAfter = 3

// waits are the peels that were pending a minute ago, for how many minutes, and with what.
type waits map[target.PeelID]struct {
	digest  settings.Digest
	minutes int
}

// remind gives the peels their settings once more that are online and have not come to run them: what was published for
// them may have got lost on its way. Who still does not run them then is pending, and nothing more is done.
func (t *term) remind() {
	now := waits{}
	for id, digest := range t.progress.Pending() {
		w := t.waits[id]
		if w.digest != digest {
			w.digest, w.minutes = digest, 0
		}
		w.minutes++
		now[id] = w
		if held := t.heads.Of(id); w.minutes == remindAfter && held.Digest == digest {
			held.Digest = "" // as if it held something else, so that it is written
			t.holds(held)
			t.stale = true
			t.r.log.Warn("peel does not run its settings, which are given to it once more", "peel", id, "commit", held.Commit)
		}
	}
	t.waits = now
}
