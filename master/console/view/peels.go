package view

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Peels is the list of peels.
type Peels struct {
	Target string        `json:"target"`
	Class  verdict.Kind  `json:"class,omitempty"` // the worst problem of all rows; empty: any or none
	Total  int           `json:"total"`
	Rows   []api.Peel    `json:"peels"`
	Lacks  string        `json:"lacks,omitempty"` // why states or problems are not known
	Next   target.PeelID `json:"next,omitempty"`  // the cursor of the next page; absent on the last
}

// PeelsOf returns the peels of a request, at most [Rows] of them.
func PeelsOf(ctx context.Context, by api.Asker, q api.PeelsRequest) (*Peels, error) {
	q.States = true
	page, err := api.PeelList.Ask(ctx, by, q)
	if err != nil {
		return nil, err
	}
	v := &Peels{
		Target: q.Target, Class: q.Class, Total: page.Total, Lacks: page.Lacks, Rows: []api.Peel{}, Next: page.Next,
	}
	v.Rows = append(v.Rows, page.Peels[:min(Rows, len(page.Peels))]...)
	if len(page.Peels) > Rows {
		v.Next = v.Rows[len(v.Rows)-1].ID
	}
	return v, nil
}

// PeelNamed returns what the list of peels says about one peel, which is less than [PeelOf] asks for.
func PeelNamed(ctx context.Context, by api.Asker, id target.PeelID) (*api.Peel, error) {
	if _, err := target.ParsePeelID(string(id)); err != nil {
		return nil, &api.Error{Code: api.CodeNotFound, Msg: err.Error(), Err: err}
	}
	page, err := api.PeelList.Ask(ctx, by, api.PeelsRequest{Target: "L@" + string(id)})
	if err != nil {
		return nil, err
	}
	if len(page.Peels) != 1 {
		return nil, &api.Error{Code: api.CodeNotFound, Msg: "there is no peel " + string(id)}
	}
	return &page.Peels[0], nil
}

// PeelOf returns all about one peel.
func PeelOf(ctx context.Context, by api.Asker, id target.PeelID) (*api.PeelDetail, error) {
	return api.PeelShow.Ask(ctx, by, api.PeelRequest{Peel: id})
}
