package hold

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Second returns a [dispatch.WaitsError] if a job waits for a second person. Before, it stores the job as an action of
// the caller. A job that its user approved as an action of somebody else does not wait: its metadata names the action,
// which [Service.Approved] has checked.
func (s *Service) Second(ctx context.Context, from grants.Caller, spec *job.Spec) error {
	rule, err := s.needs(ctx, from, spec)
	if err != nil || rule == "" {
		return err
	}
	if id := spec.Metadata[job.MetaHeld]; id != "" {
		a, _, err := s.actions.Get(ctx, id)
		if err == nil {
			err = s.o.CheckApart(ctx, a.By, from.User)
		}
		if err == nil && a.Kind == api.HoldSecond {
			err = s.o.Allow(ctx, a.Asker(), spec)
		}
		if err != nil {
			return fmt.Errorf("action %s: %w", id, err)
		}
		return nil
	}
	a, err := s.hold(ctx, from, spec)
	if err != nil {
		return fmt.Errorf("by %s this needs a second person, and cannot wait for one: %w", rule, err)
	}
	return &dispatch.WaitsError{Held: string(a.ID), Text: api.Waits(a.ID).Error()}
}

// needs returns the rule by which a job needs two persons; "" if there is none.
func (s *Service) needs(ctx context.Context, from grants.Caller, spec *job.Spec) (string, error) {
	if s.o.Needs == nil {
		return "", nil
	}
	rule, err := s.o.Needs(ctx, from, spec)
	if err != nil || rule == nil {
		return "", err
	}
	return strings.TrimSuffix(rule.From, ","), nil
}

// hold stores a job as an action of its caller.
func (s *Service) hold(ctx context.Context, from grants.Caller, spec *job.Spec) (*api.HoldAction, error) {
	bare := *spec
	bare.JID, bare.Targets, bare.TargetExpr = "", nil, ""
	bare.Metadata = job.OwnMetadata(spec.Metadata)
	data, err := canon.Marshal(bare)
	if err != nil {
		return nil, err
	}
	q := api.HoldAddRequest{
		Kind: api.HoldSecond, Verb: audit.ActionDispatch, Data: data,
		Target: s.exprOf(ctx, from, spec), Hash: audit.PeelsHash(spec.Targets),
	}
	if err := q.Check(); err != nil {
		return nil, refuse(api.CodeInvalid, "%v", err)
	}
	return s.add(ctx, &service.Call{From: from}, q)
}

// exprOf returns an expression that selects exactly the targets of a job now: its own, or a list of the targets.
func (s *Service) exprOf(ctx context.Context, from grants.Caller, spec *job.Spec) string {
	if spec.TargetExpr != "" {
		peels, err := s.o.Select(ctx, from, spec.TargetExpr)
		if err == nil && audit.PeelsHash(peels) == audit.PeelsHash(spec.Targets) {
			return spec.TargetExpr
		}
	}
	var names []string
	for _, id := range spec.Targets {
		names = append(names, string(id))
	}
	return "L@" + strings.Join(names, ",")
}

// checkPersons returns [grants.ErrNotAllowed] unless an action that needs two persons is approved by a second one, and
// the first may still do it.
func (s *Service) checkPersons(ctx context.Context, from grants.Caller, a *api.HoldAction,
	peels []target.PeelID,
) error {
	if a.Kind != api.HoldSecond {
		spec := a.Spec()
		spec.Targets = peels
		if rule, err := s.needs(ctx, from, &spec); err != nil || rule == "" {
			return err
		}
	}
	if err := s.o.CheckApart(ctx, a.By, from.User); err != nil {
		return err
	}
	if err := s.allowed(ctx, a.Asker(), a, peels); err != nil {
		return fmt.Errorf("action %s was asked for by %s: %w", a.ID, a.By, err)
	}
	return nil
}

// send has the masters carry out the request of an approved action in the name of the approver, and notes the reply.
// The service that gets it notes before that it begins, so another copy of the request is refused.
func (s *Service) send(ctx context.Context, from grants.Caller, a *api.HoldAction) (*api.HoldAction, error) {
	noun, verb, _ := strings.Cut(a.Verb, ".")
	header := from.Header()
	if header == nil {
		header = nats.Header{}
	}
	header.Set(service.HeldHeader, string(a.ID))
	msg, err := s.nc.RequestMsgWithContext(ctx, &nats.Msg{
		Subject: api.Subject(noun, verb, from.User), Header: header, Data: a.Data,
	})
	if err == nil {
		err = api.ReplyError(msg)
	} else {
		err = refuse(api.CodeUnavailable,
			"no master replied to %s in time: zester approve %s shows whether it was begun", a.Verb, a.ID)
	}
	noted, failed := s.actions.Change(ctx, string(a.ID), func(a *api.HoldAction) error {
		switch {
		case err != nil:
			a.Failed = audit.Bounded(err.Error(), api.HoldMaxReason)
		case len(msg.Data) <= api.HoldMaxAnswer:
			a.Answer = msg.Data
		}
		return nil
	})
	if failed != nil {
		s.o.Log.Warn("reply of an approved action not noted", "action", a.ID, "err", failed)
		noted = *a
	}
	noted.Dispatched = !noted.Begun.IsZero()
	return &noted, err
}
