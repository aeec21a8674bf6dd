package record

import (
	"encoding/binary"
	"time"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// FactsWindow is how long what facts took from a peel counts together with what they take later: peels that change one
// by one cannot empty the fleet within the limits. It is counted from the last loss of each peel. Example: facts take
// settings from 6 % of the fleet at 10:00 and from 6 % at 09:00 of the next day → the second wait, with remove: 10%.
const FactsWindow = 24 * time.Hour

// Facts holds what new facts of peels would take from the fleet and waits for a person, and what they took in the
// window.
type Facts struct {
	Hash     string    `json:"hash,omitempty"`     // of the change that waits, in hex; empty if none waits
	Reason   string    `json:"reason,omitempty"`   // why it waits, for people
	Peels    Marks     `json:"peels,omitempty"`    // whose change waits
	Shown    Marks     `json:"shown,omitempty"`    // their changes: see [MarkChange]
	Approved *Approval `json:"approved,omitempty"` // of Shown, until the documents are written
	Taken    Losses    `json:"taken,omitempty"`    // what facts took within [FactsWindow], without an approval
}

// Waits reports whether a change waits for a person.
func (f *Facts) Waits() bool { return f.Hash != "" && f.Approved == nil }

// Holds reports whether the change of a peel waits, or did until it was approved.
func (f *Facts) Holds(id target.PeelID) bool { return f.Peels.Has(MarkPeel(id)) }

// Lets reports whether a person has approved the change with a mark.
func (f *Facts) Lets(change Mark) bool { return f.Approved != nil && f.Shown.Has(change) }

// MarkChange returns the mark of a change of a peel's settings from one digest to another.
func MarkChange(id target.PeelID, from, to settings.Digest) Mark {
	return MarkError(id, string(from)+" "+string(to))
}

// A Loss counts the settings that facts took from one peel.
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

// A DatedLoss is what facts took from one peel, and when they took something last.
type DatedLoss struct {
	Loss
	Last time.Time // in whole seconds
}

const lossSize = markSize + 3*2 + 4

// Losses are the losses of peels, by the mark of the peel: the bytes of each one after another, 18 bytes a peel.
type Losses []byte

// NewLosses encodes losses. A number above 65,535 is stored as 65,535.
func NewLosses(all map[Mark]DatedLoss) (l Losses) {
	for mark, loss := range all {
		l = append(l, mark[:]...)
		for _, n := range []int{loss.Had, loss.Touched, loss.Removed} {
			l = binary.BigEndian.AppendUint16(l, uint16(min(n, 1<<16-1)))
		}
		l = binary.BigEndian.AppendUint32(l, uint32(loss.Last.Unix()))
	}
	return l
}

// Within decodes the losses that count at a time: those whose last one is less than [FactsWindow] ago.
func (l Losses) Within(now time.Time) map[Mark]DatedLoss {
	all := map[Mark]DatedLoss{}
	for ; len(l) >= lossSize; l = l[lossSize:] {
		number := func(i int) int { return int(binary.BigEndian.Uint16(l[markSize+2*i:])) }
		last := time.Unix(int64(binary.BigEndian.Uint32(l[markSize+3*2:])), 0)
		if now.Sub(last) < FactsWindow {
			all[Mark(l[:markSize])] = DatedLoss{Loss{number(0), number(1), number(2)}, last}
		}
	}
	return all
}
