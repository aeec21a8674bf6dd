// Package propose changes the schedule entries of the config repo on request: each change is a commit in the name of
// the person or program that asked for it. It serves zester.api.schedule.*, for the REST API and the command line.
//
// Call [New] with the options of master.yaml, then [Service.Run] on each master. Package edit makes the changes of
// files, package push the commits, and package propose decides when an entry with delete_after_run is removed.
//
// Guarantees:
//   - The commit is pushed before the reply: to the branch that the fleet follows, or to a branch of its own. For that,
//     a pull request is opened if a forge is configured.
//   - Masters write schedules in no other way.
//   - Where commits have to be signed, nothing is committed on a commit that the fleet would not accept: a master's
//     signature vouches for no commit of others. What a master does unasked it does on the revision in force alone.
//   - The result compiles and has no mistake that lint finds: else it is refused with the messages of lint, and nothing
//     is pushed.
//   - A push never overwrites a commit: if others push meanwhile, the change is made again on their commit. After the
//     third time the request is refused.
//   - A request with a key makes one commit, also if the master dies between the push and the reply, for 7 days.
//   - A change that is proposed has a branch that is named by the request. A repeated request finds it, and only opens
//     the pull request if that is not open.
//   - The name of the caller is the last token of the subject, which the bus enforces. Whether the caller was revoked
//     is read again before the push.
//   - The rules about the caller, and about who asked for a held action, allow each file that the change touches, at
//     each try. They are asked before anything of these files is in a reply.
//   - An entry with delete_after_run that a request made is removed once it has run, by one commit of one master. That
//     it is to be removed is stored before the commit, so that another master makes the commit if this one dies.
//   - Every change is in the audit log.
//
// Known gaps: a signed commit needs an SSH key; a pull request is not closed when its change is made elsewhere; without
// write.mode entries with delete_after_run stay in the repo.
package propose

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/forge"
	"github.com/seed-c01c3da5/zester/master/reach"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/push"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/edit"
	"github.com/seed-c01c3da5/zester/reconciler/record"
)

// A Mode says where commits go.
type Mode string

// The modes.
const (
	Direct  Mode = "direct"  // to the branch that the fleet follows
	Propose Mode = "propose" // to a branch of their own, with a pull request if the forge is known
	Off     Mode = ""        // nowhere: a request is answered with the patch
)

// The defaults of [Options].
const (
	DefaultMax    = 1000
	DefaultDomain = "zester.invalid"
)

// Options configure a service.
type Options struct {
	Mode   Mode
	Write  push.Options  // the repository, with a directory of its own and a credential that may push
	Path   string        // directory of the fleet in the repository; "." is its root
	Forge  *forge.Client // opens pull requests; nil: the pushed branch is named
	Branch string        // that the fleet follows
	Domain string        // of the mail addresses of authors: NAME@Domain
	Target string        // of entries that name none; empty: a request has to name one
	Max    int           // entries that requests may have made, at a time
	// Check returns an error if a user was revoked; it may be nil.
	Check   func(ctx context.Context, js jetstream.JetStream, user string) error
	Metrics *service.Metrics // of requests; nil: nothing is counted
	Log     *slog.Logger
}

// A Service answers zester.api.schedule.*.
type Service struct {
	o       Options
	reader  *source
	writer  *source
	changes *service.Lane // one at a time
}

const (
	queued      = 64 // changes that wait
	readAtOnce  = 8
	changeLimit = 2 * time.Minute
)

// New checks the options. It touches neither the network nor the disk.
func New(o Options) (*Service, error) {
	switch o.Mode {
	case Direct, Propose, Off:
	default:
		return nil, fmt.Errorf("cannot write in the mode %.40q: it is direct or propose", string(o.Mode))
	}
	if o.Max < 0 {
		return nil, fmt.Errorf("cannot allow %d schedules", o.Max)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Write.Key != "" {
		if _, err := push.Fingerprint(o.Write.Key); err != nil {
			return nil, err
		}
	}
	s := &Service{o: o, changes: service.NewLane(1, queued)}
	var err error
	if s.reader, err = newSource(o, "read"); err != nil {
		return nil, err
	}
	if s.writer, err = newSource(o, "write"); err != nil {
		return nil, err
	}
	return s, nil
}

// A session is the service on one connection.
type session struct {
	*Service
	nc      *nats.Conn
	js      jetstream.JetStream
	store   jetstream.KeyValue
	rollout jetstream.KeyValue // the reconciler's record
	audit   *audit.Log
	reach   reach.Reach
	fleet   *fleet.Fleet
	// compiler keeps what it compiled between two looks for entries that are spent. Only these use it.
	compiler *plan.Compiler
}

// Run serves until ctx ends.
func (s *Service) Run(ctx context.Context, nc *nats.Conn, fleet *fleet.Fleet) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	store, err := js.KeyValue(ctx, bucketSchedules)
	if err != nil {
		return fmt.Errorf("cannot open the bucket %s: %w", bucketSchedules, err)
	}
	rollout, err := js.KeyValue(ctx, record.Bucket)
	if err != nil {
		return fmt.Errorf("cannot open the bucket %s: %w", record.Bucket, err)
	}
	rules, err := reach.Open(ctx, js, nil)
	if err != nil {
		return err
	}
	on := &session{
		reach:    rules,
		Service:  s,
		nc:       nc,
		js:       js,
		store:    store,
		rollout:  rollout,
		audit:    audit.OpenLog(js, s.o.Log),
		fleet:    fleet,
		compiler: plan.NewCompiler(),
	}
	ctx, cancel := context.WithCancel(ctx)
	var deleting sync.WaitGroup
	defer deleting.Wait()
	defer cancel()
	if s.o.Mode != Off {
		deleting.Go(func() {
			if err := on.deleteSpent(ctx); err != nil && ctx.Err() == nil {
				s.o.Log.Error("entries with delete_after_run are not removed", "err", err)
			}
		})
	}
	return service.Serve(ctx, service.Options{
		Conn: nc, Lane: service.NewLane(readAtOnce, 0), MaxRequest: api.ScheduleMaxRequest, Limit: changeLimit,
		Record: on.audit.Write, Code: codeOf, Log: s.o.Log, Metrics: s.o.Metrics,
		Verbs: []service.Verb{
			service.On(api.ScheduleList, on.list),
			service.On(api.ScheduleFile, on.file),
			change(on, api.ScheduleAdd, on.add),
			change(on, api.ScheduleRemove, on.remove),
			change(on, api.ScheduleEnable, on.enable),
			change(on, api.ScheduleDisable, on.disable),
			change(on, api.ScheduleReplace, on.replace),
		},
	})
}

// change returns the verb of a change, which is made after those before it.
func change[Q any](
	on *session, e api.Endpoint[Q, api.ScheduleChanged],
	f func(context.Context, *service.Call, Q) (*api.ScheduleChanged, error),
) service.Verb {
	changed := func(ctx context.Context, c *service.Call, q Q) (*api.ScheduleChanged, error) {
		out, err := f(ctx, c, q)
		c.Dry = out != nil && out.Dry
		return out, err
	}
	return service.On(e, changed).In(on.changes)
}

// A refusal is a final error with its code.
type refusal struct {
	code string
	err  error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// Code returns the code of a reply with the refusal.
func (r *refusal) Code() string { return r.code }

func refuse(code, format string, args ...any) error {
	return &refusal{code, fmt.Errorf(format, args...)}
}

// codeOf returns the code of an error in a reply.
func codeOf(err error) api.Code {
	_, refused := errors.AsType[*refusal](err)
	switch {
	case refused:
	case errors.Is(err, edit.ErrInvalid), err != nil && edit.Mistakes(err) != nil:
		return api.CodeInvalid
	case errors.Is(err, edit.ErrExists), errors.Is(err, edit.ErrByHand):
		return api.CodeConflict
	}
	return service.CodeOf(err)
}
