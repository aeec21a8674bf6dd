package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/coverage/evidence"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/feed"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/reply"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// errInvalid: the request is not valid.
var errInvalid = errors.New("the request is not valid")

// errNoPeel: the peel is not known.
var errNoPeel = errors.New("no such peel")

// An endpoint is the subject of a request and its handler.
type endpoint struct {
	subject string
	handler func(*reply.Request)
}

// answer handles requests until the queue is closed.
func (s *Server) answer(ctx context.Context) {
	for request := range s.requests {
		request(ctx)
	}
}

// handle is handleFrom for requests that do not depend on the caller.
func handle[Q, A any](s *Server, f func(context.Context, Q) (A, error)) func(*reply.Request) {
	return handleFrom(s, func(ctx context.Context, _ grants.Caller, q Q) (A, error) { return f(ctx, q) })
}

// handleFrom makes a handler of a function from caller and request to reply. The handler only enqueues the request.
func handleFrom[Q, A any](s *Server, f func(ctx context.Context, from grants.Caller, q Q) (A, error)) func(*reply.Request) {
	return func(req *reply.Request) {
		request := func(ctx context.Context) {
			if req.Late() {
				return // its caller has given up, and has repeated what may be repeated
			}
			var q Q
			var data []byte
			err := decode(req, &q)
			if err == nil {
				var a A
				if a, err = f(ctx, grants.CallerOf(req.Subject(), req.Headers()), q); err == nil {
					data, err = canon.Marshal(a)
				}
			}
			s.respond(req, data, err)
		}
		if !s.enqueue(request) {
			s.respond(req, nil, errors.New("too many requests are waiting, or this master is stopping"))
		}
	}
}

// enqueue adds a request to the queue; false if the queue is full or closed.
func (s *Server) enqueue(request func(context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	select {
	case s.requests <- request:
		return true
	default:
		return false
	}
}

// decode decodes a request; an empty message is the zero request.
func decode(req *reply.Request, q any) error {
	if len(req.Data()) == 0 {
		return nil
	}
	msg := &nats.Msg{Subject: req.Subject(), Header: req.Headers(), Data: req.Data()}
	if err := wire.Decode(msg, q); err != nil {
		return fmt.Errorf("%w: %w", errInvalid, err)
	}
	return nil
}

func (s *Server) respond(req *reply.Request, data []byte, err error) {
	if err := reply.Send(s.nc, req, data, string(AnswerCode(err)), err); err != nil {
		s.log.Debug("reply not sent", "subject", req.Subject(), "err", err)
	}
}

// AnswerCode returns the code of a reply with an error of a Server's methods.
func AnswerCode(err error) api.Code {
	if _, ok := errors.AsType[*target.SyntaxError](err); ok || errors.Is(err, errInvalid) || errors.Is(err, evidence.ErrTime) {
		return api.CodeInvalid
	}
	if code := credentialCode(err); code != "" {
		return code
	}
	if errors.Is(err, dispatch.ErrEnded) || errors.Is(err, dispatch.ErrCanceled) || errors.Is(err, feed.ErrNoKey) {
		return api.CodeConflict
	}
	if errors.Is(err, job.ErrNotFound) || isAbsent(err) {
		return api.CodeNotFound
	}
	return cmp.Or(api.CodeOf(err), api.CodeUnavailable)
}
