package record

import (
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// lostShown is how long a [Lost] is shown.
const lostShown = 7 * 24 * time.Hour

// A Lost says that an older copy of the bus was restored: peels have settings that the copy does not know.
type Lost struct {
	From  time.Time     `json:"from"`  // when the newest settings that the copy has were written
	Until time.Time     `json:"until"` // when the newest settings that a peel reported were written
	Peel  target.PeelID `json:"peel"`  // that reported them
	Peels int           `json:"peels"` // that reported settings from between From and Until
	Seen  time.Time     `json:"seen"`  // when a master found that
}

// IsShown reports whether people still have to be told.
func (l *Lost) IsShown(now time.Time) bool { return l != nil && now.Before(l.Seen.Add(lostShown)) }

// String returns the text for people.
func (l *Lost) String() string {
	const layout = "2006-01-02 15:04:05 MST"
	peels := fmt.Sprintf("%s has", l.Peel)
	if l.Peels > 1 {
		peels = fmt.Sprintf("%s and %d more have", l.Peel, l.Peels-1)
	}
	return fmt.Sprintf("the bus is an older copy: its newest settings are of %s, and %s settings of %s; "+
		"revocations, tokens, approvals and jobs from between may be lost",
		l.From.UTC().Format(layout), peels, l.Until.UTC().Format(layout))
}
