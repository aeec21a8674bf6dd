package scheduler

import "time"

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

// A Source is the origin of an entry. It is zero for an entry of peel.yaml.
type Source struct {
	Commit string // that last changed the entry
	File   string // file:line at that commit
	Author string // of that commit
	Ran    string // what the entry runs, see settings.Ran
	Proof  string // by which masters recognise the fields above as theirs

	Generation uint64 // of the settings
}
