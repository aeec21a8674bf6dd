package view

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// States says which hosts differ from Git.
type States struct {
	// Counts are of all peels with states. They are absent while the master that leads still reads reports.
	Counts status.HostCounts `json:"host_counts"`
	Peels  []status.States   `json:"peels"`
	Next   target.PeelID     `json:"next,omitempty"` // the cursor of the next page; absent on the last
}

// StatesOf returns a page of the hosts with states, by name, after a cursor.
func StatesOf(ctx context.Context, by api.Asker, after target.PeelID) (*States, error) {
	page, err := api.SyncStates.Ask(ctx, by, status.PeelsRequest{Cursor: after})
	if err != nil {
		return nil, err
	}
	sync, err := api.SyncStatus.Ask(ctx, by, api.None{})
	if err != nil {
		return nil, err
	}
	v := &States{Counts: sync.HostCounts, Peels: page.Peels[:min(Rows, len(page.Peels))], Next: page.Next}
	if len(page.Peels) > Rows {
		v.Next = v.Peels[len(v.Peels)-1].Peel
	}
	return v, nil
}

// Differ returns how many hosts are known not to be as Git says.
func (v *States) Differ() int {
	return v.Counts[status.HostDrifted] + v.Counts[status.HostPending] + v.Counts[status.HostFailed]
}

// Total returns how many hosts have states.
func (v *States) Total() int {
	n := 0
	for _, count := range v.Counts {
		n += count
	}
	return n
}
