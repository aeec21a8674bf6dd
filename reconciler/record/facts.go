package record

import (
	"encoding/binary"
	"time"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// FactsWindow is how long what facts took from peels counts together with what they take later: peels that change one by one
// cannot empty the fleet within the limits. It begins with the first loss, and begins anew with the first one after its end.
// Example: facts take settings from 6 % of the fleet at 10:00 and from 6 % at 20:00 → the second wait, with remove: 10%.
const FactsWindow = 24 * time.Hour

// Facts holds what new facts of peels would take from the fleet and waits for a person, and what they took in the window.
type Facts struct {
	Hash     string    `json:"hash,omitempty"`     // of the change that waits, in hex; empty if none waits
	Reason   string    `json:"reason,omitempty"`   // why it waits, for people
	Peels    Marks     `json:"peels,omitempty"`    // whose change waits
	Shown    Marks     `json:"shown,omitempty"`    // their changes: see [MarkChange]
	Approved *Approval `json:"approved,omitempty"` // of Shown, until the documents are written
	Since    time.Time `json:"since,omitzero"`     // when the window began
	Taken    Losses    `json:"taken,omitempty"`    // what facts took in the window, without an approval
}

// Waits reports whether a change waits for a person.
func (f *Facts) Waits() bool { return f.Hash != "" && f.Approved == nil }

// Holds reports whether the change of a peel waits, or did until it was approved.
func (f *Facts) Holds(id target.PeelID) bool { return f.Peels.Has(MarkPeel(id)) }

// Lets reports whether a person has approved the change with a mark.
func (f *Facts) Lets(change Mark) bool { return f.Approved != nil && f.Shown.Has(change) }

// Window returns the start of the present window, and what facts took in it. A window does not end while a change waits.
func (f *Facts) Window(now time.Time) (since time.Time, taken Losses) {
	if f.Since.IsZero() || f.Hash == "" && now.Sub(f.Since) >= FactsWindow {
		return now, nil
	}
	return f.Since, f.Taken
}

// MarkChange returns the mark of a change of a peel's settings from one digest to another.
func MarkChange(id target.PeelID, from, to settings.Digest) Mark {
	return MarkError(id, string(from)+" "+string(to))
}

// A Loss counts the settings that facts took from one peel in the window.
type Loss struct {
	Had     int // settings before the first loss; the other fields do not exceed it
	Touched int // settings that changed or went
	Removed int // settings that went with nothing in their place
}

// Add returns the loss after another one. A peel that changes there and back counts for no more settings than it had.
func (l Loss) Add(more Loss) Loss {
	if l.Had == 0 {
		l.Had = more.Had
	}
	l.Touched = min(l.Touched+more.Touched, l.Had)
	l.Removed = min(l.Removed+more.Removed, l.Had)
	return l
}

const lossSize = markSize + 3*2

// Losses are the losses of peels, by the mark of the peel: the bytes of each one after another, 14 bytes a peel.
type Losses []byte

// NewLosses encodes losses. A number above 65,535 is stored as 65,535.
func NewLosses(all map[Mark]Loss) (l Losses) {
	for mark, loss := range all {
		l = append(l, mark[:]...)
		for _, n := range []int{loss.Had, loss.Touched, loss.Removed} {
			l = binary.BigEndian.AppendUint16(l, uint16(min(n, 1<<16-1)))
		}
	}
	return l
}

// All decodes the losses.
func (l Losses) All() map[Mark]Loss {
	all := map[Mark]Loss{}
	for ; len(l) >= lossSize; l = l[lossSize:] {
		number := func(i int) int { return int(binary.BigEndian.Uint16(l[markSize+2*i:])) }
		all[Mark(l[:markSize])] = Loss{number(0), number(1), number(2)}
	}
	return all
}
