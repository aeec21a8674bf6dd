// File actions.go has the routes of held actions, which assistants ask for and people decide. Call [registerActions];
// any master answers.
//
// A program sees what was asked for in the name of its token, and can withdraw it. No route approves: an approved
// action runs with the rights of the person who approves, by that person's own client.

package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
)

// An ActionAsker sends a request of zester.api.hold in the name of the caller and decodes the reply into answer.
type ActionAsker func(ctx context.Context, verb string, question, answer any) error

// An ActionOperation describes a route that tokens with one of the scopes may use. problems are its error statuses
// beside those that all routes have.
type ActionOperation func(method, path, id, summary string, scopes []credential.Scope, problems ...int) huma.Operation

type actionListInput struct {
	All    bool   `query:"all" doc:"Also actions that were decided or have expired in the last 7 days."`
	Before string `query:"before" maxLength:"27" doc:"Only actions older than the one with this ID: the last of the previous page."`
}

type actionIDInput struct {
	ID string `path:"id" maxLength:"27" doc:"ID of a held action."`
}

type actionOutput[A any] struct{ Body A }

// registerActions registers the routes. problem returns the answer for an error of request.
func registerActions(a huma.API, operation ActionOperation, problem func(error) error, request ActionAsker) {
	read, ask := []credential.Scope{credential.ScopeRead, credential.ScopeDispatch}, []credential.Scope{credential.ScopeDispatch}
	huma.Register(a, operation("GET", "/held", "list-held-actions", "List the actions of this token that wait for a person", read), func(ctx context.Context, in *actionListInput) (*actionOutput[api.HoldPage], error) {
		return actionAnswer[api.HoldPage](ctx, request, problem, "list", api.HoldQuery{All: in.All, Before: api.HoldID(in.Before)})
	})
	huma.Register(a, operation("GET", "/held/{id}", "show-held-action", "Show an action of this token, its state and its job", read, 404), func(ctx context.Context, in *actionIDInput) (*actionOutput[api.HoldShown], error) {
		return actionAnswer[api.HoldShown](ctx, request, problem, "show", api.HoldRequest{ID: api.HoldID(in.ID)})
	})
	reject := operation("POST", "/held/{id}/reject", "reject-held-action", "Withdraw an action of this token", ask, 404, 409)
	reject.DefaultStatus = http.StatusOK
	huma.Register(a, reject, func(ctx context.Context, in *actionIDInput) (*actionOutput[api.HoldAction], error) {
		return actionAnswer[api.HoldAction](ctx, request, problem, "reject", api.HoldRequest{ID: api.HoldID(in.ID)})
	})
}

func actionAnswer[A any](ctx context.Context, ask ActionAsker, problem func(error) error, verb string, question any) (*actionOutput[A], error) {
	out := &actionOutput[A]{}
	if err := ask(ctx, verb, question, &out.Body); err != nil {
		return nil, problem(err)
	}
	return out, nil
}
