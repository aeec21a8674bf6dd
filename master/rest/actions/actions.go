// Package actions has the routes of held actions, which assistants ask for and people decide. Call [Register]; any master answers.
//
// A program sees what was asked for in the name of its token, and can withdraw it. No route approves: an approved action runs with the
// rights of the person who approves, by that person's own client.
package actions

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/hold/held"
)

// An Asker sends a request of zester.api.hold in the name of the caller and decodes the reply into answer.
type Asker func(ctx context.Context, verb string, question, answer any) error

// An Operation describes a route that tokens with one of the scopes may use. problems are its error statuses beside those that all
// routes have.
type Operation func(method, path, id, summary string, scopes []credential.Scope, problems ...int) huma.Operation

type listInput struct {
	All    bool   `query:"all" doc:"Also actions that were decided or have expired in the last 7 days."`
	Before string `query:"before" maxLength:"27" doc:"Only actions older than the one with this ID: the last of the previous page."`
}

type idInput struct {
	ID string `path:"id" maxLength:"27" doc:"ID of a held action."`
}

type output[A any] struct{ Body A }

// Register registers the routes. problem returns the answer for an error of request.
func Register(a huma.API, operation Operation, problem func(error) error, request Asker) {
	read, ask := []credential.Scope{credential.ScopeRead, credential.ScopeDispatch}, []credential.Scope{credential.ScopeDispatch}
	huma.Register(a, operation("GET", "/held", "list-held-actions", "List the actions of this token that wait for a person", read), func(ctx context.Context, in *listInput) (*output[held.Page], error) {
		return answer[held.Page](ctx, request, problem, "list", held.Query{All: in.All, Before: held.ID(in.Before)})
	})
	huma.Register(a, operation("GET", "/held/{id}", "show-held-action", "Show an action of this token, its state and its job", read, 404), func(ctx context.Context, in *idInput) (*output[held.Shown], error) {
		return answer[held.Shown](ctx, request, problem, "show", held.Request{ID: held.ID(in.ID)})
	})
	reject := operation("POST", "/held/{id}/reject", "reject-held-action", "Withdraw an action of this token", ask, 404, 409)
	reject.DefaultStatus = http.StatusOK
	huma.Register(a, reject, func(ctx context.Context, in *idInput) (*output[held.Action], error) {
		return answer[held.Action](ctx, request, problem, "reject", held.Request{ID: held.ID(in.ID)})
	})
}

func answer[A any](ctx context.Context, ask Asker, problem func(error) error, verb string, question any) (*output[A], error) {
	out := &output[A]{}
	if err := ask(ctx, verb, question, &out.Body); err != nil {
		return nil, problem(err)
	}
	return out, nil
}
