package scheduler

import (
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
)

// An Override is an operator's pause or skip of an entry.
type Override struct {
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
	Until  time.Time `json:"until,omitzero"` // zero: until it is taken back
}

// Why returns the pause in words.
func (o *Override) Why() string {
	text := "paused"
	if o.By != "" {
		text += " by " + o.By
	}
	if !o.Until.IsZero() {
		text += " until " + o.Until.Format(time.RFC3339)
	}
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	return text
}

// TakeSkip removes the operator's skip, and reports whether it held for a fire at now.
func (h *History) TakeSkip(now time.Time) bool {
	skip := h.Skip
	h.Skip = nil
	return skip != nil && (skip.Until.IsZero() || now.Before(skip.Until))
}

// A Trigger says what made an entry fire.
type Trigger string

// The triggers.
const (
	TriggerTimer   Trigger = "timer"
	TriggerStart   Trigger = "start"    // run_on_start, without splay
	TriggerCatchUp Trigger = "catch_up" // it was missed at its time
	TriggerManual  Trigger = "manual"   // a person ran it
	TriggerNeeds   Trigger = "needs"    // another entry's run ended
)

// A Source is the origin of an entry. It is zero for an entry of peel.yaml.
type Source struct {
	Commit string // that last changed the entry
	File   string // file:line at that commit
	Author string // of that commit
	Ran    string // what the entry runs, see settings.Ran
	Proof  string // by which masters recognise the fields above as theirs

	Generation uint64 // of the settings
}

// Class returns the class of the fires that a trigger makes.
func (t Trigger) Class() ledger.Class {
	switch t {
	case TriggerStart:
		return ledger.Start
	case TriggerManual:
		return ledger.Hand
	case TriggerNeeds:
		return ledger.Needs
	}
	return ledger.Timer
}
