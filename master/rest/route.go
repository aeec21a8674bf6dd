// File route.go makes routes of the declarations in package api: [route] where programs send the request as it is,
// [routeAs] where its fields are others over HTTP, and [routes.over] alone where this master answers in another way.

package rest

import (
	"cmp"
	"context"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// leaderAgain is the Retry-After while no master leads, in seconds: how often masters try to take the lease.
const leaderAgain = 5

type output[A any] struct{ Body A }

// route registers an endpoint. The fields of Q have the tags of parameters.
func route[Q, A any](r *routes, a huma.API, e api.Endpoint[Q, A]) {
	routeAs(r, a, e, func(in *Q) (Q, error) { return *in, nil })
}

// routeAs registers an endpoint whose request is made of an I.
func routeAs[I, Q, A any](r *routes, a huma.API, e api.Endpoint[Q, A], request func(*I) (Q, error)) {
	register(a, r.over(e.HTTP), func(ctx context.Context, in *I) (*output[A], error) {
		q, err := request(in)
		if err != nil {
			return nil, err
		}
		reply, err := forward(ctx, r, e, q)
		if err != nil {
			return nil, err
		}
		return &output[A]{*reply}, nil
	})
}

// register registers a route whose answer has an A as its body. What huma compiles for each type of output is large, so
// that all routes have one type, and the document gets the schema of A here.
func register[I, A any](a huma.API, op huma.Operation, answer func(context.Context, *I) (*output[A], error)) {
	status := cmp.Or(op.DefaultStatus, http.StatusOK)
	schema := a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[A](), true, "")
	op.Responses = map[string]*huma.Response{strconv.Itoa(status): {
		Description: http.StatusText(status),
		Content:     map[string]*huma.MediaType{"application/json": {Schema: schema}},
	}}
	huma.Register(a, op, func(ctx context.Context, in *I) (*output[any], error) {
		out, err := answer(ctx, in)
		if err != nil {
			return nil, err
		}
		return &output[any]{&out.Body}, nil
	})
}

// answered returns the answer of this master to a request.
func answered[A any](reply *A, err error) (*output[A], error) {
	if err != nil {
		return nil, answerError(err)
	}
	out := &output[A]{*reply} // lists below it may be shared, so they stay as they are
	body := reflect.ValueOf(&out.Body).Elem()
	for i := range body.NumField() {
		if tag := body.Type().Field(i); tag.IsExported() {
			fillList(body.Field(i), tag)
		}
	}
	return out, nil
}

// over describes the operation of a route. Its errors are those that all routes have, and its own.
func (r *routes) over(to *api.Route) huma.Operation {
	method, path, _ := strings.Cut(to.Path, " ")
	noun, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	op := huma.Operation{
		Tags:            []string{noun},
		Method:          method,
		Path:            base + path,
		OperationID:     to.ID,
		Summary:         to.Summary,
		MaxBodyBytes:    maxBody,
		BodyReadTimeout: bodyTime,
		Errors:          append([]int{400, 401, 403, 429, 503}, to.Codes...),
	}
	op.Metadata = map[string]any{verbKey: to.Verb}
	for _, scope := range append(slices.Clone(to.Scopes), credential.ScopeAdmin) {
		op.Security = append(op.Security, map[string][]string{"token": {string(scope)}})
	}
	switch {
	case method != http.MethodPost:
	case to.Accepted:
		op.DefaultStatus = http.StatusAccepted
	default:
		op.DefaultStatus = http.StatusOK
	}
	return op
}

// forward sends a request to a service of masters, in the name of the token.
func forward[Q, A any](ctx context.Context, r *routes, e api.Endpoint[Q, A], q Q) (*A, error) {
	reply, err := e.Ask(ctx, r, q)
	if err != nil {
		return nil, forwardProblem(err, e.HTTP)
	}
	fillLists(reflect.ValueOf(reply))
	if !wire.Reads(e.Verb) {
		r.s.log.Info("order given over REST", "noun", e.Noun, "verb", e.Verb, "user", tokenOf(ctx).User(),
			"request", requestOf(ctx))
	}
	return reply, nil
}

// waiting is the answer to a request that waits for a second person: 202, with the place of the held action.
func waiting(id api.HoldID, err error) error {
	return huma.ErrorWithHeaders(huma.NewError(http.StatusAccepted, sentence(err)),
		http.Header{"Location": {base + "/held/" + string(id)}})
}

// forwardProblem returns the problem for an error of a service. A conflict that its route does not declare passes: the
// same request may succeed later.
func forwardProblem(err error, to *api.Route) error {
	if id, ok := api.HeldAs(err); ok {
		return waiting(id, err)
	}
	switch code := api.CodeOf(err); {
	case code == api.CodeInvalid:
		return huma.Error400BadRequest(sentence(err))
	case code == api.CodeForbidden:
		return huma.Error403Forbidden(sentence(err))
	case code == api.CodeNotFound:
		return huma.Error404NotFound(sentence(err))
	case code == api.CodeConflict && slices.Contains(to.Codes, http.StatusConflict):
		return huma.Error409Conflict(sentence(err))
	}
	return huma.ErrorWithHeaders(huma.Error503ServiceUnavailable(sentence(err)), retryAfter(leaderAgain))
}
