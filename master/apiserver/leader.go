package apiserver

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// For returns an asker in the name of a user whom this master has authenticated. Masters see and record the user as one
// who asks on the bus. Requests wait until their context ends. Errors are [*api.Error]; the code is
// [api.CodeUnavailable] if no master serves the request, or none replied in time.
func (s *Server) For(from grants.Caller) api.Asker { return &asker{s, from} }

type asker struct {
	s    *Server
	from grants.Caller
}

// Ask sends a request to the masters, this one among them.
func (a *asker) Ask(ctx context.Context, noun, verb string, question, answer any) error {
	leader, absent := "a master", "no master answers just now"
	switch noun {
	case "sync", "schedule":
		leader, absent = "the reconciler", ""
	case "alert":
		leader, absent = "the master that leads the alerts", "no master leads the alerts just now"
	case "hold":
		leader, absent = "the service of held actions", "no master serves held actions just now"
	}
	data, err := canon.Marshal(question)
	if err != nil {
		return &api.Error{Code: api.CodeInvalid, Msg: "cannot ask " + leader + ": " + err.Error(), Err: err}
	}
	q := &nats.Msg{Subject: api.Subject(noun, verb, a.from.User), Header: a.from.Header(), Data: data}
	msg, err := a.s.nc.RequestMsgWithContext(ctx, q)
	switch {
	case errors.Is(err, nats.ErrNoResponders) && absent != "":
		return &api.Error{Code: api.CodeUnavailable, Msg: absent}
	case errors.Is(err, nats.ErrNoResponders):
		return a.s.noLeader(ctx)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return &api.Error{
			Code: api.CodeUnavailable,
			Msg:  leader + " did not reply in time; an order may have been carried out, as its status shows",
		}
	case err != nil:
		return &api.Error{Code: api.CodeUnavailable, Msg: "cannot ask " + leader + ": " + err.Error(), Err: err}
	}
	if err := api.ReplyError(msg); err != nil {
		return err
	}
	if err := canon.Unmarshal(msg.Data, answer); err != nil {
		return &api.Error{
			Code: api.CodeUnavailable,
			Msg:  "cannot read the reply of " + leader + ": " + err.Error(),
			Err:  err,
		}
	}
	if sync, ok := answer.(*status.Sync); ok && sync.HostCounts != nil {
		isLimited, err := a.s.isLimited(ctx, a.from)
		if err != nil || isLimited {
			sync.HostCounts = nil // they are of all peels
		}
		return err
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
