package view

import (
	"context"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Peels is the list of peels.
type Peels struct {
	Target string                  `json:"target"`
	Total  int                     `json:"total"`
	Rows   []PeelRow               `json:"peels"`
	Next   target.PeelID           `json:"next,omitempty"` // the cursor of the next page; absent on the last
	States Extra[status.PeelsPage] `json:"-"`              // of the settings service
}

// A PeelRow is one peel.
type PeelRow struct {
	ID       target.PeelID   `json:"id"`
	Online   bool            `json:"online"`
	Unknown  bool            `json:"unknown,omitempty"` // not known yet whether it is online
	LastSeen time.Time       `json:"last_seen,omitzero"`
	State    status.State    `json:"state,omitempty"` // of its settings; empty: not known
	Commit   settings.Commit `json:"commit,omitempty"`
}

// PeelsOf returns the peels that an expression selects, all for an empty one, after a cursor.
func PeelsOf(ctx context.Context, by api.Asker, expr string, after target.PeelID) (*Peels, error) {
	page, err := api.PeelList.Ask(ctx, by, api.PeelsRequest{Target: expr, After: after})
	if err != nil {
		return nil, err
	}
	v := &Peels{Target: expr, Total: page.Total, Rows: []PeelRow{}}
	v.States = ask(ctx, by, api.SyncPeels, status.PeelsRequest{After: after})
	states := map[target.PeelID]status.Peel{}
	if v.States.Value != nil {
		for _, p := range v.States.Value.Peels {
			states[p.Peel] = p
		}
	}
	for _, p := range page.Peels[:min(Rows, len(page.Peels))] {
		s := states[p.ID]
		v.Rows = append(v.Rows, PeelRow{
			ID: p.ID, Online: p.Online, Unknown: p.Unknown, LastSeen: p.LastSeen, State: s.State, Commit: s.Commit,
		})
	}
	if len(page.Peels) > Rows || page.More {
		v.Next = v.Rows[len(v.Rows)-1].ID
	}
	return v, nil
}

// Peel is one peel.
type Peel struct {
	Peel api.Peel        `json:"peel"`
	Jobs Extra[job.Page] `json:"jobs"` // its newest
}

// recentJobs is how many jobs the page of a peel has.
const recentJobs = 20

// PeelOf returns a peel with its facts.
func PeelOf(ctx context.Context, by api.Asker, id target.PeelID) (*Peel, error) {
	p, err := api.PeelShow.Ask(ctx, by, api.PeelRequest{Peel: id})
	if err != nil {
		return nil, err
	}
	return &Peel{Peel: *p, Jobs: ask(ctx, by, api.JobList, job.Query{Target: id, Limit: recentJobs})}, nil
}
