package progress

import (
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

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
	peels         map[target.PeelID]bool // those with a document; true: found
	first         chan struct{}          // gets a value when the first peel is found
	all           Unknown
}

// FindUnknown looks from now on for reports of generations between two, from the peels of heads. Other peels are not
// looked at: they may have come with the settings of another fleet. A peel that invents a generation after the second
// is not found. The channel gets one value, when the first peel is found.
func (p *Progress) FindUnknown(after, before uint64, heads settings.Heads) (first <-chan struct{}) {
	f := unknownFinder{after: after, before: before, peels: map[target.PeelID]bool{}, first: make(chan struct{}, 1)}
	for _, held := range heads {
		if held.Peel != "" {
			f.peels[held.Peel] = false
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unknown = f
	return f.first
}

// Unknown returns what was found since [Progress.FindUnknown].
func (p *Progress) Unknown() Unknown {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unknown.all
}

// add looks at the generation that a peel reports.
func (f *unknownFinder) add(id target.PeelID, generation uint64) {
	found, known := f.peels[id]
	if !known || generation <= f.after || generation >= f.before {
		return
	}
	if generation > f.all.Newest || generation == f.all.Newest && id < f.all.Peel {
		f.all.Newest = generation
		f.all.Peel = id
	}
	if found {
		return
	}
	f.peels[id] = true
	if f.all.Peels++; f.all.Peels == 1 {
		f.first <- struct{}{}
	}
}
