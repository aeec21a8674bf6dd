package scheduler

import (
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// An OpenRun is the record of one run. It is on the disk before the run begins, and no longer counts when its end is in
// the history of its entry and its report is stored. A process that finds one at its start completes the run in place
// of the last process.
type OpenRun struct {
	JID       wire.JID           `json:"jid"`
	Entry     string             `json:"entry"`
	Hash      string             `json:"hash"`   // of the entry
	Timing    string             `json:"timing"` // hash of the entry's timing
	Module    string             `json:"module"`
	ReturnJob schedule.ReturnJob `json:"return_job"`
	Source    Source             `json:"source,omitzero"`
	Trigger   wire.Trigger       `json:"trigger"`
	Nominal   time.Time          `json:"nominal"`
	Fired     time.Time          `json:"fired"`
	Started   time.Time          `json:"started"`
	Late      bool               `json:"late,omitempty"`
	Listed    ledger.Fire        `json:"listed,omitzero"` // as it is in the list of the entry
	RunEnd
}

// anchor returns from when an interval from start to start counts after the run; before is from when it counted. The
// wall clock was set by step since.
func (r OpenRun) anchor(before time.Time, step time.Duration) time.Time {
	switch r.Trigger {
	case wire.TriggerTimer:
		return r.Nominal.Add(step)
	case wire.TriggerStart, wire.TriggerNeeds:
		return r.Fired.Add(step)
	}
	return before
}

// A RunEnd is added to the record when the run has ended, and once more when its report is stored.
type RunEnd struct {
	Ended    time.Time `json:"ended,omitzero"`
	Success  bool      `json:"success,omitempty"`
	Error    string    `json:"error,omitempty"`
	Reported bool      `json:"reported,omitempty"`
}
