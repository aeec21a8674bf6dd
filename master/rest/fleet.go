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

// PeelsPage is a page of peels, by ID.
type PeelsPage struct {
	Peels []api.Peel    `json:"peels"`
	Total int           `json:"total" doc:"On all pages."`
	Lacks string        `json:"lacks,omitempty" doc:"Why what the peels run, or what is wrong with them, is not known."`
	Next  target.PeelID `json:"next,omitempty" doc:"The cursor of the next page; absent on the last."`
}

type peelsOutput struct{ Body PeelsPage }

func (r *routes) listPeels(ctx context.Context, in *peelsInput) (*peelsOutput, error) {
	page, err := r.Questions.PeelList(ctx, callerOf(ctx), api.PeelsRequest{
		Target: in.Target, After: in.Cursor, States: true, Class: in.Class,
	})
	if err != nil {
		return nil, answerError(err)
	}
	out := &peelsOutput{Body: PeelsPage{Peels: page.Peels, Total: page.Total, Lacks: page.Lacks}}
	if out.Body.Peels == nil {
		out.Body.Peels = []api.Peel{}
	}
	if n := len(page.Peels); page.More && n > 0 {
		out.Body.Next = page.Peels[n-1].ID
	}
	return out, nil
}

type peelInput struct {
	ID target.PeelID `path:"id" maxLength:"128" doc:"ID of a peel."`
}

func (r *routes) showPeel(ctx context.Context, in *peelInput) (*output[api.Peel], error) {
	p, err := r.Questions.PeelShow(ctx, api.PeelRequest{Peel: in.ID})
	if err != nil {
		return nil, answerError(err)
	}
	return &output[api.Peel]{*p}, nil
}

type targetsInput struct {
	Expr   string        `query:"expr" required:"true" minLength:"1" maxLength:"65536" example:"web-* and not L@web-03" doc:"The expression."`
	Cursor target.PeelID `query:"cursor" maxLength:"128" doc:"The next of the page before."`
}

// TargetsPage is a page of the peels that an expression selects, by ID.
type TargetsPage struct {
	Peels   []target.PeelID `json:"peels"`
	Total   int             `json:"total" doc:"On all pages."`
	Offline []target.PeelID `json:"offline,omitempty" doc:"Those on this page that are known to be offline."`
	Unknown []target.PeelID `json:"unknown,omitempty" doc:"Named by L@, but no peel of this ID has ever told its facts; on the first page."`
	Next    target.PeelID   `json:"next,omitempty" doc:"The cursor of the next page; absent on the last."`
}

type targetsOutput struct{ Body TargetsPage }

func (r *routes) resolveTarget(ctx context.Context, in *targetsInput) (*targetsOutput, error) {
	page, err := r.Questions.Resolve(ctx, callerOf(ctx), api.ResolveRequest{Expr: in.Expr, After: in.Cursor})
	if err != nil {
		return nil, answerError(err)
	}
	out := &targetsOutput{
		Body: TargetsPage{Peels: page.Peels, Total: page.Total, Offline: page.Offline, Unknown: page.Unknown},
	}
	if out.Body.Peels == nil {
		out.Body.Peels = []target.PeelID{}
	}
	if n := len(page.Peels); page.More && n > 0 {
		out.Body.Next = page.Peels[n-1]
	}
	return out, nil
}
