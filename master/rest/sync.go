package rest

import (
	"context"
	"errors"
	"net/http"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/danielgtaylor/huma/v2"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// leaderAgain is the Retry-After while no master leads, in seconds: how often masters try to take the lease.
const leaderAgain = 5

// registerSync registers the routes of the settings service. This master forwards requests to the master that leads.
func (r *routes) registerSync(a huma.API) {
	huma.Register(a, r.operation("GET", "/sync", "sync-status", "Show the revision in force, conditions, and how many peels run it", readScope), r.bare(api.SyncStatus))
	huma.Register(a, r.operation("GET", "/sync/peels", "sync-peels", "List how far each peel is with the revision in force", readScope), r.syncPeels)
	huma.Register(a, r.operation("GET", "/sync/states", "sync-states", "List what the newest run of the states of each peel has found", readScope), r.syncStates)
	huma.Register(a, r.operation("GET", "/sync/history", "sync-history", "List the revisions that were tried, newest first", readScope), r.syncHistory)
	huma.Register(a, r.operation("GET", "/sync/plan", "sync-plan", "Show what the revision that waits would change", readScope, 404), r.syncPlan)
	order := func(verb, summary string, problems ...int) huma.Operation {
		op := r.operation("POST", "/sync/"+verb, "sync-"+verb, summary, syncScope, problems...)
		op.DefaultStatus = http.StatusOK
		return op
	}
	const refused = http.StatusConflict
	withBody := []int{refused, 408, 413, 415}
	huma.Register(a, order("approve", "Let the revision that waits for approval go out", withBody...), r.syncApprove)
	huma.Register(a, order("pause", "Keep new commits from the fleet", refused), r.bare(api.SyncPause))
	huma.Register(a, order("resume", "Let new commits go to the fleet again", refused), r.bare(api.SyncResume))
	huma.Register(a, order("pin", "Hold the fleet at a revision that was served before", withBody...), r.syncPin)
	huma.Register(a, order("unpin", "Follow the branch again after a pin", refused), r.bare(api.SyncUnpin))
	huma.Register(a, order("retry", "Try a revision again that was rolled back", withBody...), r.syncRetry)
	huma.Register(a, order("now", "Read the branch at once, and wait until that has ended"), r.syncNow)
}

// forward sends a request to the master that leads, in the name of the token.
func forward[Q, A any](ctx context.Context, r *routes, e api.Endpoint[Q, A], q Q) (*A, error) {
	answer, err := e.Ask(ctx, r, q)
	if err != nil {
		return nil, syncError(err)
	}
	if !wire.Reads(e.Verb) {
		r.s.log.Info("order given over REST", "verb", e.Verb, "user", tokenOf(ctx).User(), "request", requestOf(ctx))
	}
	return answer, nil
}

// syncError returns the problem for an error of the reconciler.
func syncError(err error) error {
	switch api.CodeOf(err) {
	case api.CodeInvalid:
		return huma.Error400BadRequest(sentence(err))
	case api.CodeNotFound:
		return huma.Error404NotFound(sentence(err))
	case api.CodeConflict:
		return huma.Error409Conflict(sentence(err))
	}
	return huma.ErrorWithHeaders(huma.Error503ServiceUnavailable(sentence(err)), retryAfter(leaderAgain))
}

type syncOutput struct{ Body status.Sync }

// order sends a request whose reply is the status.
func order[Q any](ctx context.Context, r *routes, e api.Endpoint[Q, status.Sync], q Q) (*syncOutput, error) {
	s, err := forward(ctx, r, e, q)
	if err != nil {
		return nil, err
	}
	return &syncOutput{*s}, nil
}

// bare returns the handler of a request without fields.
func (r *routes) bare(e api.Endpoint[api.None, status.Sync]) func(context.Context, *struct{}) (*syncOutput, error) {
	return func(ctx context.Context, _ *struct{}) (*syncOutput, error) { return order(ctx, r, e, api.None{}) }
}

// syncNow replies 503 while the remote limits requests; it can be repeated later.
func (r *routes) syncNow(ctx context.Context, _ *struct{}) (*syncOutput, error) {
	out, err := order(ctx, r, api.SyncNow, api.None{})
	if p, ok := errors.AsType[huma.StatusError](err); ok && p.GetStatus() == http.StatusConflict {
		return nil, unavailable(err)
	}
	return out, err
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
	if out.Body.Peels == nil {
		out.Body.Peels = []status.Peel{}
	}
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
	if out.Body.Peels == nil {
		out.Body.Peels = []status.States{}
	}
	if n := len(page.Peels); page.More && n > 0 {
		out.Body.Next = page.Peels[n-1].Peel
	}
	return out, nil
}

type syncHistoryOutput struct{ Body status.History }

func (r *routes) syncHistory(ctx context.Context, _ *struct{}) (*syncHistoryOutput, error) {
	h, err := forward(ctx, r, api.SyncHistory, api.None{})
	if err != nil {
		return nil, err
	}
	if h.Attempts == nil {
		h.Attempts = []status.Attempt{}
	}
	return &syncHistoryOutput{*h}, nil
}

type syncPlanInput struct {
	Revision string `query:"revision" minLength:"4" maxLength:"64" pattern:"^[0-9a-f]+$" doc:"The commit that waits, or the beginning of it; absent: whichever waits. The reconciler compiles nothing for this request, so that another commit is answered with 404."`
}

type syncPlanOutput struct{ Body status.Plan }

func (r *routes) syncPlan(ctx context.Context, in *syncPlanInput) (*syncPlanOutput, error) {
	p, err := forward(ctx, r, api.SyncPlan, status.PlanRequest{Revision: in.Revision})
	if err != nil {
		return nil, err
	}
	return &syncPlanOutput{*p}, nil
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

func (r *routes) syncApprove(ctx context.Context, in *syncApproveInput) (*syncOutput, error) {
	if (in.Body.Hash == "") == (in.Body.Wave == "") {
		return nil, huma.Error400BadRequest("give either the hash of a plan or the name of a wave")
	}
	return order(ctx, r, api.SyncApprove, status.ApproveRequest{
		Hash: in.Body.Hash, Wave: in.Body.Wave, Override: in.Body.OverrideFreeze, Reason: in.Body.Reason, Revision: in.Body.Revision,
	})
}

type syncPinInput struct {
	Body struct {
		Revision   string `json:"revision" minLength:"4" maxLength:"64" pattern:"^[0-9a-f]+$" doc:"A stored commit, or the beginning of it."`
		UntilNewer bool   `json:"until_newer,omitempty" doc:"The next commit that comes after it ends the pin."`
	}
}

func (r *routes) syncPin(ctx context.Context, in *syncPinInput) (*syncOutput, error) {
	return order(ctx, r, api.SyncPin, status.PinRequest{Revision: in.Body.Revision, UntilNewer: in.Body.UntilNewer})
}

type syncRetryInput struct {
	Body *struct {
		Revision string `json:"revision,omitempty" minLength:"4" maxLength:"64" pattern:"^[0-9a-f]+$" doc:"A commit that was rolled back, or the beginning of it; absent: the newest."`
	}
}

func (r *routes) syncRetry(ctx context.Context, in *syncRetryInput) (*syncOutput, error) {
	var q status.RetryRequest
	if in.Body != nil {
		q.Revision = in.Body.Revision
	}
	return order(ctx, r, api.SyncRetry, q)
}
