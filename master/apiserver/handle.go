package apiserver

import (
	"context"
	"errors"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/master/why"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// errInvalid: the request is not valid.
var errInvalid = errors.New("the request is not valid")

// errNoPeel: the peel is not known.
var errNoPeel = errors.New("no such peel")

// errNoCoverage: this master does not follow the schedules of peels.
var errNoCoverage = errors.New("what is wrong with schedules is not known: this master does not follow them")

// handle is handleFrom for requests that do not depend on the caller.
func handle[Q, A any](e api.Endpoint[Q, A], f func(context.Context, Q) (*A, error)) service.Verb {
	return handleFrom(e, func(ctx context.Context, _ grants.Caller, q Q) (*A, error) { return f(ctx, q) })
}

// handleFrom makes a verb of a function from caller and request to reply. The stores check requests.
func handleFrom[Q, A any](
	e api.Endpoint[Q, A], f func(context.Context, grants.Caller, Q) (*A, error),
) service.Verb {
	return service.On(e, func(ctx context.Context, c *service.Call, q Q) (*A, error) {
		c.About = about(q)
		return f(ctx, c.From, q)
	}).Unchecked()
}

// AnswerCode returns the code of a reply with an error of a Server's methods.
func AnswerCode(err error) api.Code {
	if _, ok := errors.AsType[*target.SyntaxError](err); ok || errors.Is(err, errInvalid) ||
		errors.Is(err, why.ErrTime) {
		return api.CodeInvalid
	}
	if code := credentialCode(err); code != "" {
		return code
	}
	if errors.Is(err, dispatch.ErrEnded) || errors.Is(err, dispatch.ErrCanceled) || errors.Is(err, fleet.ErrNoKey) {
		return api.CodeConflict
	}
	if errors.Is(err, job.ErrNotFound) || isAbsent(err) {
		return api.CodeNotFound
	}
	return service.CodeOf(err)
}
