package publish

import (
	"slices"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// republishAfter is how many minutes in a row a peel has to be pending before its document is written again.
const republishAfter = 3

// pendingFor holds, for each pending peel, the wanted digest and for how many minutes it has been pending.
type pendingFor map[target.PeelID]struct {
	digest  settings.Digest
	minutes int
}

// next returns the state one minute later, and the peels whose documents are to be written again, in order: each once
// while it is pending with the same settings.
func (w pendingFor) next(pending map[target.PeelID]settings.Digest) (later pendingFor, stale []target.PeelID) {
	later = pendingFor{}
	for id, digest := range pending {
		p := w[id]
		if p.digest != digest {
			p.digest, p.minutes = digest, 0
		}
		if p.minutes++; p.minutes == republishAfter {
			stale = append(stale, id)
		}
		later[id] = p
	}
	slices.Sort(stale)
	return later, stale
}

// RepublishStale makes the documents of peels due again that are online and have not applied them for three minutes, as
// the message may have been lost. Call it once a minute with the pending peels and their wanted digests. It returns the
// peels, in order. A peel that does not apply its settings after that stays pending.
func (p *Published) RepublishStale(pending map[target.PeelID]settings.Digest) (peels []target.PeelID) {
	var stale []target.PeelID
	p.pending, stale = p.pending.next(pending)
	for _, id := range stale {
		if held := p.heads.Of(id); held.Peel == id && held.Digest == pending[id] {
			p.resend[id], p.plan = true, nil
			peels = append(peels, id)
		}
	}
	return peels
}
