package apiserver

import (
	"context"
	"fmt"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/why"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// maxAsked bounds the entry and the time of a [api.WhyRequest] in bytes.
const maxAsked = 256

// Why says what became of one fire of an entry on a peel. Callers with limits get [grants.ErrNotAllowed] for a peel
// outside them.
func (s *Server) Why(ctx context.Context, from grants.Caller, q api.WhyRequest) (*api.WhyAnswer, error) {
	if _, err := target.ParsePeelID(string(q.Peel)); err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	if q.Entry == "" || len(q.Entry)+len(q.Time) > maxAsked {
		return nil, fmt.Errorf("%w: it needs an entry, and entry and time have at most %d bytes", errInvalid, maxAsked)
	}
	c := &why.Collector{JetStream: s.o.JetStream, Jobs: s.o.Store, Fleet: s.o.Fleet, Audit: s.o.Audit, Select: s.Select}
	if s.o.Coverage != nil {
		c.Cause = s.o.Coverage.CauseOn
	}
	peels, err := s.within(ctx, from)
	if err == nil && !peels.Has(q.Peel) {
		err = fmt.Errorf("%w: it is outside the limits of %s", grants.ErrNotAllowed, from.User)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot explain a fire of %s: %w", q.Peel, err)
	}
	if !peels.All {
		c.Cause = nil // it counts runs on all peels
	}
	c.History = func(ctx context.Context) ([]status.Attempt, error) {
		h, err := api.SyncHistory.Ask(ctx, s.For(from), api.None{})
		if err != nil {
			return nil, err
		}
		return h.Attempts, nil
	}
	c.Ask = func(ctx context.Context, spec job.Spec) (*wire.Return, error) { return s.ask(ctx, from, spec) }
	found, err := c.Collect(ctx, q.Peel, q.Entry, q.Time)
	if err != nil {
		return nil, err
	}
	return found.Explain()
}

// ask runs a job on one peel in the name of a caller, who may read what it returns, and waits for the return until
// ctx ends.
func (s *Server) ask(ctx context.Context, from grants.Caller, spec job.Spec) (*wire.Return, error) {
	id := spec.Targets[0]
	returned, err := s.nc.SubscribeSync(wire.StoredOf(spec.JID, id.Wire()))
	if err != nil {
		return nil, err
	}
	defer func() { _ = returned.Unsubscribe() }() // fails only on a closed connection
	if err := s.nc.FlushWithContext(ctx); err != nil {
		return nil, err
	}
	_, err = s.o.Dispatch.Submit(ctx, spec, from.User)
	s.o.Audit.Write(ctx, audit.Dispatch(&spec, err, dispatch.IsRefusal(err)).By(from))
	if err != nil {
		return nil, err
	}
	msg, err := returned.NextMsgWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s did not return job %s: %w", id, spec.JID, err)
	}
	return job.ReadReturn(spec.JID, id, msg.Data), nil
}
