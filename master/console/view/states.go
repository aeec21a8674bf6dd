package view

import (
	"context"
	"slices"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// States says which hosts differ from Git.
type States struct {
	// Counts are of all peels with states. They are absent while the master that leads still reads reports.
	Counts status.HostCounts   `json:"host_counts"`
	Groups *status.StateGroups `json:"groups,omitempty"` // nil: Peels is the list
	Peels  []status.States     `json:"peels,omitempty"`
	Next   target.PeelID       `json:"next,omitempty"` // the cursor of the next page; absent on the last
}

// StatesOf returns the results of states that differ from Git, equal ones together.
func StatesOf(ctx context.Context, by api.Asker) (*States, error) {
	sync, err := api.SyncStatus.Ask(ctx, by, api.None{})
	if err != nil {
		return nil, err
	}
	groups, err := api.SyncGroups.Ask(ctx, by, api.None{})
	if err != nil {
		return nil, err
	}
	return &States{Counts: sync.HostCounts, Groups: groups}, nil
}

// StatesByHost returns a page of the hosts with states, by name, after a cursor.
func StatesByHost(ctx context.Context, by api.Asker, after target.PeelID) (*States, error) {
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

// StatePeels returns the hosts whose newest run has the result of a state; every host that differs if the name
// of the state is empty. The error of the state does not count.
func StatePeels(ctx context.Context, by api.Asker, want status.StateResult) (peels []target.PeelID, err error) {
	has := func(r status.StateResult) bool {
		return r.State == want.State && r.Result == want.Result && r.Cause == want.Cause
	}
	for q := (status.PeelsRequest{}); ; {
		page, err := api.SyncStates.Ask(ctx, by, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Peels {
			s := &page.Peels[i]
			differs := s.State == status.HostFailed || s.State == status.HostDrifted || s.State == status.HostPending
			if differs && (want.State == "" || slices.ContainsFunc(s.Results, has)) {
				peels = append(peels, s.Peel)
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return peels, nil
		}
	}
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
