package rest

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings/target"
)

type peelsInput struct {
	Target string        `query:"target" maxLength:"65536" doc:"Expression that selects the peels; absent: all."`
	Class  verdict.Kind  `query:"class" maxLength:"32" example:"failed" doc:"Only peels with this worst problem."`
	Cursor target.PeelID `query:"cursor" maxLength:"128" doc:"The next of the page before."`
}

func (r *routes) listPeels(ctx context.Context, in *peelsInput) (*output[api.PeelsPage], error) {
	q := api.PeelsRequest{Target: in.Target, Cursor: in.Cursor, States: true, Class: in.Class}
	return answered(r.Questions.PeelList(ctx, callerOf(ctx), q))
}

type peelInput struct {
	ID target.PeelID `path:"id" maxLength:"128" doc:"ID of a peel."`
}

func (r *routes) showPeel(ctx context.Context, in *peelInput) (*output[api.PeelDetail], error) {
	return answered(r.Questions.PeelShow(ctx, callerOf(ctx), api.PeelRequest{Peel: in.ID}))
}

func (r *routes) resolveTarget(ctx context.Context, in *api.ResolveRequest) (*output[api.TargetsPage], error) {
	return answered(r.Questions.Resolve(ctx, callerOf(ctx), *in))
}
