package rest

import (
	"context"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
)

type coverageInput struct {
	Target string    `query:"target" maxLength:"65536" doc:"Expression that selects the peels; absent: all."`
	Entry  string    `query:"entry" maxLength:"256" doc:"Glob of the entries; absent: all."`
	Since  time.Time `query:"since" doc:"Fires since this hour of UTC, up to 35 days ago; absent: a day ago."`
	By     string    `query:"by" enum:"entry,peel" default:"entry" doc:"A row for each entry, or for each peel."`
	Cursor string    `query:"cursor" maxLength:"256" doc:"The next of the page before."`
}

func (r *routes) coverage(ctx context.Context, in *coverageInput) (*output[api.Coverage], error) {
	return answered(r.Questions.Coverage(ctx, callerOf(ctx), api.CoverageRequest{
		Target: in.Target, Entry: in.Entry, Since: in.Since, ByPeel: in.By == "peel", Cursor: in.Cursor,
	}))
}

func (r *routes) coverageEntry(ctx context.Context, in *api.CoverageEntryRequest) (*output[api.Coverage], error) {
	return answered(r.Questions.CoverageEntry(ctx, callerOf(ctx), *in))
}

func (r *routes) problems(ctx context.Context, in *api.ProblemsRequest) (*output[api.Problems], error) {
	return answered(r.Questions.Problems(ctx, callerOf(ctx), *in))
}

func (r *routes) timeline(ctx context.Context, in *api.TimelineRequest) (*output[api.Timeline], error) {
	return answered(r.Questions.Timeline(ctx, callerOf(ctx), *in))
}

func (r *routes) why(ctx context.Context, in *api.WhyRequest) (*output[api.WhyAnswer], error) {
	return answered(r.Questions.Why(ctx, callerOf(ctx), *in))
}

func (r *routes) load(ctx context.Context, in *api.LoadRequest) (*output[api.Load], error) {
	return answered(r.Questions.Load(ctx, callerOf(ctx), *in))
}

func (r *routes) now(ctx context.Context, _ *struct{}) (*output[api.Now], error) {
	return answered(r.Questions.Now(ctx, callerOf(ctx)))
}

func (r *routes) approvals(ctx context.Context, _ *struct{}) (*output[api.Approvals], error) {
	return answered(r.Questions.Approvals(ctx, callerOf(ctx)))
}
