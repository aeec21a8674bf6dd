package status

import (
	"time"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A HostState says how a host compares with the states in its wanted settings, by its newest run of all of them.
type HostState string

// The host states. The first that fits counts, in this order. A run is an application or a test.
const (
	HostNever   HostState = "never"          // no run was reported
	HostOther   HostState = "other_settings" // the run was of other settings than the wanted ones
	HostFailed  HostState = "failed"         // a state failed
	HostDrifted HostState = "drifted"        // a test found a change on the host that no settings wanted
	HostPending HostState = "pending"        // a test found states that are not applied yet, or a reaction is due
	HostUnknown HostState = "unknown"        // the run was canceled, or could not predict all states
	HostClean   HostState = "clean"          // every state holds
)

// HostStates lists the host states in the order in which people read them.
var HostStates = []HostState{HostClean, HostDrifted, HostPending, HostFailed, HostUnknown, HostNever, HostOther}

// HostCounts are numbers of peels whose wanted settings have states, by host state.
type HostCounts map[HostState]int

// States describes the newest run of all states of one peel.
type States struct {
	Peel   target.PeelID   `json:"peel"`
	State  HostState       `json:"state"`
	Wanted settings.Digest `json:"wanted"`           // of the settings that the peel is to run
	Commit settings.Commit `json:"commit,omitempty"` // of the settings that were run
	Digest settings.Digest `json:"digest,omitempty"`
	Test   bool            `json:"test"` // the run changed nothing
	Time   time.Time       `json:"time,omitzero"`
	Counts map[string]int  `json:"counts,omitempty"` // of states by result
	// Results are of states that changed, would change, failed or are unknown, failed ones first, at most 50.
	Results []StateResult `json:"results,omitempty"`
	Owed    []string      `json:"owed,omitempty"` // states whose reaction is due at the next run, at most 50
}

// A StateResult is the result of one state.
type StateResult struct {
	State  string `json:"state"`
	Result string `json:"result"`           // changed, would_change, failed or unknown
	Cause  string `json:"cause,omitempty"`  // drift or intended
	Error  string `json:"error,omitempty"`  // the beginning of the error of a failed state
	Before bool   `json:"before,omitempty"` // it also failed in the newest run of other settings
}

// SyncStatesPage is one page of sync.states: the newest runs of states, by ID of the peel. The request is a
// [PeelsRequest].
type SyncStatesPage struct {
	Peels []States      `json:"peels"`
	Next  target.PeelID `json:"next,omitempty" doc:"The cursor of the next page; absent on the last."`
}

// Limits of [StateGroups].
const (
	MaxStateGroups = 100 // groups of a reply
	MaxGroupPeels  = 20  // peels that a group names
)

// StateGroups are the results of states that make hosts differ from Git, equal ones together: failed ones first, then
// the larger groups. Only hosts that are failed, drifted or pending count.
type StateGroups struct {
	Groups []StateGroup `json:"groups" doc:"At most 100."`
	Left   int          `json:"left,omitempty" doc:"Groups that are left out."`
}

// A StateGroup is an equal result of one state on some hosts.
type StateGroup struct {
	StateResult
	Count int             `json:"count" doc:"Hosts with this result."`
	Peels []target.PeelID `json:"peels" doc:"The first 20 of them by ID."`
}
