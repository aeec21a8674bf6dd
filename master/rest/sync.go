package rest

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// registerSync registers the routes of the settings service. This master forwards requests to the master that leads.
func (r *routes) registerSync(a huma.API) {
	route(r, a, api.SyncStatus)
	route(r, a, api.SyncPeels)
	route(r, a, api.SyncStates)
	route(r, a, api.SyncGroups)
	route(r, a, api.SyncHistory)
	routeAs(r, a, api.SyncPlan, (*syncPlanInput).request)
	route(r, a, api.SyncCommit)
	routeAs(r, a, api.SyncApprove, (*syncApproveInput).request)
	route(r, a, api.SyncPause)
	routeAs(r, a, api.SyncResume, release)
	routeAs(r, a, api.SyncPin, (*syncPinInput).request)
	routeAs(r, a, api.SyncUnpin, release)
	routeAs(r, a, api.SyncRetry, (*syncRetryInput).request)
	route(r, a, api.SyncNow)
}

// release ends whatever pause or pin there is.
func release(*api.None) (q status.ReleaseRequest, err error) { return q, nil }

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
