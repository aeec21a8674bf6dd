// Package hold keeps actions until a person decides: those that an assistant asked for, and requests of people that
// need two persons. Call [New], then [Service.Run] on each master; file held.go of package api has the requests.
//
// The service runs nothing. An approved action gets the ID of a job, and the client of the approver dispatches that job
// with the approver's own credential, on the peels that the approver has seen. A request that is no job is sent to the
// masters in the name of the approver, as it was stored.
//
// Guarantees:
//   - The name of the caller is the last token of the subject, which the bus enforces. The name of the assistant is a
//     claim.
//   - An action is decided once: the decision is a compare-and-set of its record, before anything is sent.
//   - Nobody gets rights by an action. Who asks for it must be allowed to run it himself, who approves it as well, and
//     a token approves nothing. An action of a user who was revoked since is not approved, and its job does not begin.
//   - What needs two persons is approved by somebody who is not who asked, nor made by that person, nor the other way
//     round; see [reach.Reach.CheckApart]. Both must be allowed it, at the approval and when it begins.
//   - A request that is no job is carried out once or never: its beginning is a compare-and-set of its record.
//   - An action is approved only while its target selects the peels that it selected before.
//   - A request that is repeated, because its reply was lost, makes one action.
//   - Each request that changes something is in the audit log before its reply.
//   - A user sees the actions that were asked for in his name; operators and auditors see all.
//
// A master may die between any two of its writes. What is stored before an action is taken by the same request when it
// comes again, and counts for a minute otherwise.
//
// Known gap: how many actions of a user are open is counted at the leader of the bucket. The bounds on all actions, and
// on those of a user in 7 days, are exact for a list that has all of them: masters that store at the same time may
// exceed them by one each, and a copy of the bucket that lags by what it lacks.
package hold

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	servedAtOnce = 8
)

// Options configure a [Service]. Audit and Log may be nil, all others are required.
type Options struct {
	JetStream jetstream.JetStream // on the connection of a master
	Jobs      *job.Store
	// Select returns the peels that an expression selects for a caller, sorted.
	Select func(ctx context.Context, from grants.Caller, expr string) ([]target.PeelID, error)
	// Allow returns [grants.ErrNotAllowed] if a caller may not dispatch a job.
	Allow func(ctx context.Context, from grants.Caller, spec *job.Spec) error
	// Check returns [grants.ErrNotAllowed] if a caller may not send the request of a verb.
	Check func(ctx context.Context, from grants.Caller, verb access.Verb) error
	// Needs returns a rule by which a job needs two persons, nil if there is none; if Needs is nil, none does.
	Needs func(ctx context.Context, from grants.Caller, spec *job.Spec) (*access.Second, error)
	// CheckApart returns [grants.ErrNotAllowed] if two people may be one.
	CheckApart func(ctx context.Context, first, second string) error
	// CheckNotRevoked returns [grants.ErrNotAllowed] if a user was revoked.
	CheckNotRevoked func(ctx context.Context, user string) error
	Audit           *audit.Log
	Metrics         *service.Metrics // of requests; nil: nothing is counted
	Log             *slog.Logger
}

// A Service answers zester.api.hold.*.
type Service struct {
	o       Options
	nc      *nats.Conn
	adding  sync.Mutex // held while actions are counted and one is stored
	actions bucket.Records[api.HoldAction]
	peels   bucket.Records[[]target.PeelID]
	same    bucket.Records[api.HoldID]   // the newest action of each caller and request, by their digest
	waiting bucket.Records[[]api.HoldID] // the actions of each caller that may be open, by the digest of the name
}

// New returns a service. It starts nothing.
func New(o Options) *Service {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{o: o, nc: o.JetStream.Conn()}
}

// openPause is the time between two attempts to open the buckets: a bus that is away for a moment must not end the
// master.
const openPause = time.Second

func (s *Service) open(ctx context.Context) (err error) {
	if s.actions, err = bucket.OpenRecords[api.HoldAction](ctx, s.o.JetStream, wire.BucketHeld, "action.",
		"the held action"); err != nil {
		return err
	}
	s.peels, err = bucket.OpenRecords[[]target.PeelID](ctx, s.o.JetStream, wire.BucketHeld, "peels.",
		"the peels of the held action")
	if err == nil {
		s.same, err = bucket.OpenRecords[api.HoldID](ctx, s.o.JetStream, wire.BucketHeld, "same.", "the held action of")
	}
	if err == nil {
		s.waiting, err = bucket.OpenRecords[[]api.HoldID](ctx, s.o.JetStream, wire.BucketHeld, "waiting.",
			"the open actions of")
	}
	return err
}

// Run serves until ctx ends.
func (s *Service) Run(ctx context.Context) (err error) {
	for {
		if err = s.open(ctx); err == nil {
			break
		}
		s.o.Log.Warn("held actions are not served yet", "err", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(openPause):
		}
	}
	return service.Serve(ctx, service.Options{
		Conn:       s.nc,
		Lane:       service.NewLane(servedAtOnce, 0),
		MaxRequest: api.HoldMaxRequest,
		Record:     s.o.Audit.Write,
		Log:        s.o.Log,
		Metrics:    s.o.Metrics,
		Verbs: []service.Verb{
			service.On(api.HoldList, s.list),
			service.On(api.HoldShow, s.show),
			service.On(api.HoldAdd, s.add),
			service.On(api.HoldApprove, s.approve),
			service.On(api.HoldReject, s.reject),
		},
	})
}

// about returns what the audit log says about an action and the peels that it selects now.
func about(a *api.HoldAction, peels []target.PeelID) audit.Entry {
	spec := a.Spec()
	spec.Targets = peels
	e := audit.Dispatch(&spec, nil, false)
	e.Held = string(a.ID)
	return e
}

func refuse(code api.Code, format string, args ...any) error {
	return &api.Error{Code: code, Msg: fmt.Sprintf(format, args...)}
}

// seesAll reports whether a caller sees what others asked for. The bus states the role; for tokens it states none.
func seesAll(from grants.Caller) bool {
	switch from.Role {
	case grants.RoleOperator, grants.RoleDirect, grants.RoleAuditor:
		return true
	}
	return false
}

// find returns an action that a caller may see, with its state now.
func (s *Service) find(ctx context.Context, from grants.Caller, id api.HoldID) (api.HoldAction, error) {
	a, _, err := s.actions.Get(ctx, string(id))
	if errors.Is(err, bucket.ErrAbsent) || err == nil && a.By != from.User && !seesAll(from) {
		return api.HoldAction{}, refuse(api.CodeNotFound, "there is no held action %s", id)
	}
	return a, err
}
