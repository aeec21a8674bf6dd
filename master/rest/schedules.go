package rest

import (
	"context"
	"errors"

	"github.com/danielgtaylor/huma/v2"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// registerSchedules registers the routes of schedules. They need the scope admin, because a schedule runs on any peel.
func (r *routes) registerSchedules(a huma.API) {
	registerSchedules(a, scheduleOptions{
		Coverage: r.Coverage,
		Over:     r.over,
		IsAdmin:  func(ctx context.Context) bool { return tokenOf(ctx).Has(credential.ScopeAdmin) },
		Asker:    r,
		Submit: func(ctx context.Context, spec job.Spec) (*job.Job, error) {
			return r.submitter(tokenOf(ctx), callerOf(ctx))(ctx, spec)
		},
		Returns: func(ctx context.Context, jid wire.JID) (*job.RowsPage, error) {
			return r.Questions.JobReturns(ctx, callerOf(ctx), api.JobRequest{JID: jid})
		},
	})
}

// submitter returns a function that dispatches jobs in the name of a token and writes the audit log.
func (r *routes) submitter(t *credential.Token, from grants.Caller) func(context.Context, job.Spec) (*job.Job, error) {
	return func(ctx context.Context, spec job.Spec) (*job.Job, error) {
		if err := r.allow(ctx, t, &spec); err != nil {
			return nil, err
		}
		j, err := r.Dispatcher.Submit(ctx, spec, t.User())
		markRecorded(ctx)
		r.Audit.Write(ctx, dispatch.EntryOf(&spec, err).By(from))
		if waits, ok := errors.AsType[*dispatch.WaitsError](err); ok {
			return nil, api.Waits(api.HoldID(waits.Held))
		}
		if err != nil {
			return nil, dispatchError(err)
		}
		return j, nil
	}
}
