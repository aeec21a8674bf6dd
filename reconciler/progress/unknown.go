package progress

import "github.com/seed-c01c3da5/zester/settings/target"

// Unknown are the peels that reported settings which the bus does not know, because it is an older copy.
type Unknown struct {
	Peels  int
	Peel   target.PeelID // with the newest settings
	Newest uint64        // their generation
}

// An unknownFinder finds reports with a generation between two: the newest one that the bus had, and the time when this
// master took the lead, in ms.
type unknownFinder struct {
	after, before uint64
	peels         map[target.PeelID]uint64 // the newest such generation of each
}

// FindUnknown looks from now on for reports of generations between two. A peel that invents a generation after the
// second is not found.
func (p *Progress) FindUnknown(after, before uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unknown = unknownFinder{after, before, map[target.PeelID]uint64{}}
}

// Unknown returns what was found since [Progress.FindUnknown].
func (p *Progress) Unknown() (u Unknown) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u.Peels = len(p.unknown.peels)
	for id, generation := range p.unknown.peels {
		if generation > u.Newest || generation == u.Newest && id < u.Peel {
			u.Peel = id
			u.Newest = generation
		}
	}
	return u
}

// add looks at the generation that a peel reports.
func (f *unknownFinder) add(id target.PeelID, generation uint64) {
	if f.after < generation && generation < f.before {
		f.peels[id] = max(generation, f.peels[id])
	}
}
