// Package control serves zester.api.sync.*: it answers with the state of the reconciler, and turns orders of people
// into changes of the record.
//
// Call [Service.Run] in each leadership session. It serves every request in a goroutine of its own and hands each
// [Order] to the loop, which alone changes the record.
//
// Guarantees:
//   - A caller who may read about some peels alone is shown, and counted, these: see reading.go.
//   - The user is the last token of the subject, which the bus checks.
//   - An order is answered as soon as its consequences are complete, and at most 500 ms after the loop has stored its
//     change, whatever the network, the repo and the worker do. Record is called before each answer.
//   - sync.now is answered when an attempt to read the branch that began after it has ended, with all its consequences,
//     or after 2 min.
//   - At most 64 requests are served at a time, and besides 16 of sync.now; one more is refused. So requests that wait
//     for the remote do not delay orders. One of sync.commit is served at a time, because it compiles two revisions.
//
// Known gap: an answer after 500 ms shows the status at that time. An approval that ends later, because the fleet
// changed at the same time, shows only in sync.status and in the history.
package control

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/progress"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	servedAtOnce = 64                     // requests, but for sync.now
	nowAtOnce    = 16                     // requests of sync.now, which wait for the remote
	orderLimit   = 500 * time.Millisecond // for the consequences of an order
	nowLimit     = 2 * time.Minute        // for the consequences of sync.now, and for the loop to take an order
)

// A Service answers zester.api.sync.* for the master that leads. All fields but Record are required.
type Service struct {
	NC       *nats.Conn
	JS       jetstream.JetStream
	Orders   chan<- *Order    // to the loop
	Newest   func() *Snapshot // of the loop; returns at once
	Archive  *archive.Archive
	Progress *progress.Progress
	Settings *settings.Store
	Fleet    *fleet.Fleet
	// Within returns the peels about which a caller may read.
	Within func(context.Context, grants.Caller) (access.Peels, error)
	Record func(context.Context, audit.Entry) // stores an entry in the audit log; if nil, nothing is stored
	// Remove removes the settings of a peel, and reports whether there were any. It may take long.
	Remove func(context.Context, target.PeelID) (bool, error)
	// Read reads a revision from the repo or the archive, nil if neither has it. It may take long.
	Read    func(context.Context, settings.Commit) (*archive.Revision, error)
	Metrics *service.Metrics // of requests; nil: nothing is counted
	Log     *slog.Logger

	compared comparisons
}

var (
	errHandover     = errors.New("the attempt did not end in time, or another master takes the lead; try again")
	errStatesUnread = errors.New("the master that leads still reads the reports on states: ask again")
	errNoPeel       = &api.Error{Code: api.CodeNotFound, Msg: "no such peel is known"}
)

// Run serves until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	return service.Serve(ctx, service.Options{
		Conn: s.NC, Lane: service.NewLane(servedAtOnce, 0), Record: s.Record, Log: s.Log,
		Metrics: s.Metrics,
		Verbs: []service.Verb{
			service.On(api.SyncStatus, s.status),
			service.On(api.SyncHistory, s.history),
			service.On(api.SyncPeels, s.peels),
			service.On(api.SyncStates, s.states),
			service.On(api.SyncGroups, s.groups),
			service.On(api.SyncDiff, s.document),
			service.On(api.SyncPlan, s.plan),
			service.On(api.SyncCommit, s.commit).In(service.NewLane(1, commitsWait).Each(commitsEach)),
			service.On(api.SyncNow, s.now).In(service.NewLane(nowAtOnce, 0)),
			service.On(api.SyncApprove, s.approve).Naming(s.nameApproved),
			service.On(api.SyncPause, s.pause),
			service.On(api.SyncResume, s.resume).Naming(s.nameResumed),
			service.On(api.SyncPin, s.pin).Naming(s.namePinned),
			service.On(api.SyncUnpin, s.unpin).Naming(s.nameUnpinned),
			service.On(api.SyncRetry, s.retry).Naming(s.nameRetried),
			service.On(api.SyncAdopt, s.adopt),
			service.On(api.SyncRemove, s.remove),
		},
	})
}

// do gives an order to the loop, and returns the status when the consequences are complete or limit has passed.
func (s *Service) do(ctx context.Context, o *Order, limit time.Duration) (*status.Sync, error) {
	taken, cancel := context.WithTimeout(ctx, nowLimit)
	defer cancel()
	select {
	case s.Orders <- o:
	case <-taken.Done():
		return nil, errHandover
	}
	select {
	case err := <-o.accepted:
		if err != nil {
			return nil, err
		}
	case <-taken.Done():
		select {
		case err := <-o.accepted: // both at the same time
			if err != nil {
				return nil, err
			}
		default:
			return nil, errHandover
		}
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-o.settled:
		return s.Status(), nil
	case <-late.C:
	case <-taken.Done():
	}
	if limit == nowLimit {
		return nil, errHandover
	}
	return s.Status(), nil // the order is stored, also if this master hands over
}
