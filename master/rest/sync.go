package rest

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// registerSync registers the routes of the settings service. This master forwards requests to the master that leads.
func (r *routes) registerSync(a huma.API) {
	route(r, a, api.SyncStatus)
	huma.Register(a, r.over(api.SyncPeels.HTTP), r.syncPeels)
	huma.Register(a, r.over(api.SyncStates.HTTP), r.syncStates)
	route(r, a, api.SyncHistory)
	routeAs(r, a, api.SyncPlan, (*syncPlanInput).request)
	routeAs(r, a, api.SyncApprove, (*syncApproveInput).request)
	route(r, a, api.SyncPause)
	route(r, a, api.SyncResume)
	routeAs(r, a, api.SyncPin, (*syncPinInput).request)
	route(r, a, api.SyncUnpin)
	routeAs(r, a, api.SyncRetry, (*syncRetryInput).request)
	route(r, a, api.SyncNow)
}

type syncPeelsInput struct {
	Cursor target.PeelID `query:"cursor" maxLength:"128" doc:"The next of the page before."`
}

// SyncPeelsPage is a page of peels, by ID.
type SyncPeelsPage struct {
	Peels []status.Peel `json:"peels"`
	Next  target.PeelID `json:"next,omitempty" doc:"The cursor of the next page; absent on the last."`
}

type syncPeelsOutput struct{ Body SyncPeelsPage }

func (r *routes) syncPeels(ctx context.Context, in *syncPeelsInput) (*syncPeelsOutput, error) {
	page, err := forward(ctx, r, api.SyncPeels, status.PeelsRequest{After: in.Cursor})
	if err != nil {
		return nil, err
	}
	out := &syncPeelsOutput{Body: SyncPeelsPage{Peels: page.Peels}}
	if n := len(page.Peels); page.More && n > 0 {
		out.Body.Next = page.Peels[n-1].Peel
	}
	return out, nil
}

// SyncStatesPage is a page of the newest runs of states, by ID.
type SyncStatesPage struct {
	Peels []status.States `json:"peels"`
	Next  target.PeelID   `json:"next,omitempty" doc:"The cursor of the next page; absent on the last."`
}

type syncStatesOutput struct{ Body SyncStatesPage }

func (r *routes) syncStates(ctx context.Context, in *syncPeelsInput) (*syncStatesOutput, error) {
	page, err := forward(ctx, r, api.SyncStates, status.PeelsRequest{After: in.Cursor})
	if err != nil {
		return nil, err
	}
	out := &syncStatesOutput{Body: SyncStatesPage{Peels: page.Peels}}
	if n := len(page.Peels); page.More && n > 0 {
		out.Body.Next = page.Peels[n-1].Peel
	}
	return out, nil
}

type syncPlanInput struct {
	Revision string `query:"revision" minLength:"4" maxLength:"64" pattern:"^[0-9a-f]+$" doc:"The commit that waits, or the beginning of it; absent: whichever waits. The reconciler compiles nothing for this request, so that another commit is answered with 404."`
}

func (in *syncPlanInput) request() (status.PlanRequest, error) {
	return status.PlanRequest{Revision: in.Revision}, nil
}

type syncApproveInput struct {
	Body struct {
		Hash           string `json:"hash,omitempty" minLength:"8" maxLength:"64" pattern:"^[0-9a-f]+$" doc:"Hash of the plan, or its first 8 digits or more. With override_freeze: of the commit that waits."`
		Wave           string `json:"wave,omitempty" maxLength:"100" doc:"In place of hash: the wave whose gate is to be opened."`
		OverrideFreeze bool   `json:"override_freeze,omitempty" doc:"The commit goes out although a freeze holds it; needs a reason."`
		Reason         string `json:"reason,omitempty" maxLength:"300" doc:"One line for the history and the audit log."`
		Revision       string `json:"revision,omitempty" minLength:"4" maxLength:"64" pattern:"^[0-9a-f]+$" doc:"The commit that may go on, as the status showed it, or the beginning of it. The order is refused if it is another."`
	}
}

func (in *syncApproveInput) request() (q status.ApproveRequest, err error) {
	if (in.Body.Hash == "") == (in.Body.Wave == "") {
		return q, huma.Error400BadRequest("give either the hash of a plan or the name of a wave")
	}
	return status.ApproveRequest{
		Hash: in.Body.Hash, Wave: in.Body.Wave, Override: in.Body.OverrideFreeze, Reason: in.Body.Reason,
		Revision: in.Body.Revision,
	}, nil
}

type syncPinInput struct {
	Body struct {
		Revision   string `json:"revision" minLength:"4" maxLength:"64" pattern:"^[0-9a-f]+$" doc:"A stored commit, or the beginning of it."`
		UntilNewer bool   `json:"until_newer,omitempty" doc:"The next commit that comes after it ends the pin."`
	}
}

func (in *syncPinInput) request() (status.PinRequest, error) {
	return status.PinRequest{Revision: in.Body.Revision, UntilNewer: in.Body.UntilNewer}, nil
}

type syncRetryInput struct {
	Body *struct {
		Revision string `json:"revision,omitempty" minLength:"4" maxLength:"64" pattern:"^[0-9a-f]+$" doc:"A commit that was rolled back, or the beginning of it; absent: the newest."`
	}
}

func (in *syncRetryInput) request() (q status.RetryRequest, err error) {
	if in.Body != nil {
		q.Revision = in.Body.Revision
	}
	return q, nil
}
