package apiserver

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// AskReconciler sends a request to the reconciler that leads, on this master or another, and returns its reply. It is [Server.Ask]
// for the noun sync; the code of an error is [api.CodeConflict] for a command that is refused.
func AskReconciler[A any](ctx context.Context, s *Server, from grants.Caller, verb string, question any) (*A, error) {
	a := new(A)
	if err := s.Ask(ctx, from, "sync", verb, question, a); err != nil {
		return nil, err
	}
	return a, nil
}

// Ask sends a request to a service of the config repo, of alerts or of held actions, on this master or another, and decodes its reply into
// answer. The request is made for the user in from, whom this master has authenticated: the name is the last token of the subject, as for a person on the
// bus, and is stored in the history and the audit log. It waits until ctx ends. Errors are [*api.Error]; the code is
// [api.CodeUnavailable] if no master serves it, or none replied in time.
func (s *Server) Ask(ctx context.Context, from grants.Caller, noun, verb string, question, answer any) error {
	leader, absent := "the reconciler", ""
	switch noun {
	case "alert":
		leader, absent = "the master that leads the alerts", "no master leads the alerts just now"
	case "hold":
		leader, absent = "the service of held actions", "no master serves held actions just now"
	}
	data, err := canon.Marshal(question)
	if err != nil {
		return &api.Error{Code: api.CodeInvalid, Msg: "cannot ask " + leader + ": " + err.Error(), Err: err}
	}
	msg, err := s.nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: wire.API(noun, verb, from.User), Header: from.Header(), Data: data})
	switch {
	case errors.Is(err, nats.ErrNoResponders) && absent != "":
		return &api.Error{Code: api.CodeUnavailable, Msg: absent}
	case errors.Is(err, nats.ErrNoResponders):
		return s.noLeader(ctx)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return &api.Error{Code: api.CodeUnavailable, Msg: leader + " did not reply in time; an order may have been carried out, as its status shows"}
	case err != nil:
		return &api.Error{Code: api.CodeUnavailable, Msg: "cannot ask " + leader + ": " + err.Error(), Err: err}
	}
	if err := api.ReplyError(msg); err != nil {
		return err
	}
	if err := canon.Unmarshal(msg.Data, answer); err != nil {
		return &api.Error{Code: api.CodeUnavailable, Msg: "cannot read the reply of " + leader + ": " + err.Error(), Err: err}
	}
	return nil
}

// noLeader returns why no reconciler replies.
func (s *Server) noLeader(ctx context.Context) error {
	if led, err := s.led(ctx); err == nil && !led {
		return &api.Error{Code: api.CodeUnavailable, Msg: "no reconciler replies: no master runs with a config repo"}
	}
	return &api.Error{Code: api.CodeUnavailable, Msg: "no reconciler replies: no master leads just now"}
}
