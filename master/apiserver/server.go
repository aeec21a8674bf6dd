// Package apiserver serves the requests of programs over the bus; package api has the requests, the replies and the client. Make a
// [Server] with [New] and call Run once.
//
// Guarantees: the name of the caller is the last token of the subject, which the bus enforces; any master can reply, because all
// masters read the same buckets and streams; a change is in the audit log before its reply; a master that stops replies to all
// requests that have reached it. The queue of waiting requests is bounded.
package apiserver

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/seed-c01c3da5/zester/master/auditlog"
	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/feed"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/reply"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	answerAtOnce = 8
	stopGrace    = 2 * time.Second
	answerQueue  = 256 // waiting requests
)

// Options are the stores and services that a Server uses.
type Options struct {
	JetStream jetstream.JetStream // on the connection of a master
	Store     *job.Store
	Dispatch  *dispatch.Dispatcher // which runs
	Tokens    *token.Store         // of the REST API
	Users     *user.Store
	Authority *auth.Authority // nil on a master without keys, which leaves what needs them to others
	Audit     *auditlog.Log   // nil: nothing is kept, and nobody can read it
	Fleet     *feed.Feed      // which runs and is ready
	Stored    func() error    // why the bus stores nothing now; nil: it is not watched
	// Readable returns those of the peels whose settings a caller may read, or [grants.ErrNotAllowed]; nil: all are. A user
	// who may select by a setting can find its value by trying.
	Readable func(ctx context.Context, from grants.Caller, peels []target.PeelID) ([]target.PeelID, error)
	// Within returns the peels within the limits of a caller, sorted; all is true without limits. nil: nobody has any.
	Within func(ctx context.Context, from grants.Caller) (peels []target.PeelID, all bool, err error)
	// KeepAudit changes the audit log to what the bus keeps; needed with Authority.
	KeepAudit func(context.Context, bucket.Kept) error
	Coverage  *coverage.Table // which runs; nil: nobody can ask for it
	ID        string          // of the master
	Log       *slog.Logger    // nil: nothing is logged
}

// A Server serves requests about targets, jobs, peels and credentials. Make it with [New] and call Run once. Its other methods may be
// called without Run, from several goroutines; [AnswerCode] returns the kind of their errors.
type Server struct {
	o         Options
	nc        *nats.Conn
	log       *slog.Logger
	requests  chan func(context.Context)
	answering chan struct{} // closed when all that is asked is listened for
	targets   selector
	agents    agents

	mu      sync.Mutex
	stopped bool // requests is closed
}

// New returns a server. It starts nothing.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{
		o: o, nc: o.JetStream.Conn(), log: o.Log, requests: make(chan func(context.Context), answerQueue),
		answering: make(chan struct{}), agents: agents{byUser: map[string]*rate.Limiter{}},
		targets: selector{js: o.JetStream, index: o.Fleet.Index(), store: settings.NewStore(o.JetStream)},
	}
}

// Run serves requests in the queue group of the masters until ctx ends, and then returns nil. An error means that it could not
// subscribe.
func (s *Server) Run(ctx context.Context) error {
	service := reply.NewService(ctx, s.nc)
	defer service.Stop()
	endpoints := map[string]endpoint{
		"target-resolve": {wire.AllResolves, handleFrom(s, s.Resolve)},
		"target-explain": {wire.API("target", "explain", "*"), handleFrom(s, s.explain)},
		"job-list":       {wire.API("job", "list", "*"), handle(s, s.JobList)},
		"job-show":       {wire.API("job", "show", "*"), handle(s, s.JobShow)},
		"job-returns":    {wire.API("job", "returns", "*"), handle(s, s.JobReturns)},
		"job-active":     {wire.API("job", "active", "*"), handle(s, s.jobActive)},
		"job-cancel":     {wire.API("job", "cancel", "*"), act(s, "job.cancel", s.jobCancel)},
		"peel-list":      {wire.API("peel", "list", "*"), handleFrom(s, s.PeelList)},
		"peel-show":      {wire.API("peel", "show", "*"), handle(s, s.peelShow)},
		"peel-rekey":     {wire.API("peel", "rekey", "*"), act(s, "peel.rekey", s.rekey)},
		"master-show":    {wire.API("master", "show", "*"), handle(s, s.health)},
		"bus-show":       {wire.API("bus", "show", "*"), handle(s, s.busShow)},
		"entry-show":     {wire.API("entry", "show", "*"), handle(s, s.entryShow)},
		"coverage-why":   {wire.API("coverage", "explain", "*"), handleFrom(s, s.Why)},
		"token-list":     {wire.API("token", "list", "*"), handleFrom(s, s.tokenList)},
		"token-create":   {wire.API("token", "create", "*"), act(s, "token.create", s.tokenCreate)},
		"token-rotate":   {wire.API("token", "rotate", "*"), act(s, "token.rotate", s.tokenRotate)},
		"token-revoke":   {wire.API("token", "revoke", "*"), act(s, "token.revoke", s.tokenRevoke)},
	}
	if s.o.Audit != nil {
		endpoints["agent-record"] = endpoint{wire.API("agent", "record", "*"), handleFrom(s, s.recordCall)}
		endpoints["audit-list"] = endpoint{wire.API("audit", "list", "*"), handle(s, s.o.Audit.List)}
	}
	if s.o.Coverage != nil {
		maps.Copy(endpoints, s.coverageEndpoints())
	}
	if s.o.Authority != nil {
		endpoints["bus-set"] = endpoint{wire.API("bus", "set", "*"), act(s, "bus.set", s.busSet)}
		maps.Copy(endpoints, s.userEndpoints())
		maps.Copy(endpoints, s.enrollEndpoints())
		maps.Copy(endpoints, s.rotateEndpoints())
	}
	for _, e := range endpoints {
		if err := service.Handle(e.subject, e.handler); err != nil {
			return err
		}
	}
	close(s.answering)
	// Requests that have reached this master when ctx ends get their replies, because their callers do not know that it stops.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var workers sync.WaitGroup
	for range answerAtOnce {
		workers.Go(func() { s.answer(work) })
	}
	workers.Go(func() {
		// The first list reads the keys of all jobs. It is done now, so that no request waits for it. If it fails, the next list
		// repeats it.
		_, _ = s.o.Store.List(ctx, job.Query{Limit: 1})
	})
	<-ctx.Done()
	service.Leave()
	s.mu.Lock()
	s.stopped = true
	close(s.requests)
	s.mu.Unlock()
	defer time.AfterFunc(stopGrace, stop).Stop()
	workers.Wait()
	return nil
}

// Answering is closed when the server has subscribed to all requests. The bus has processed that once it has replied to a later
// request on the same connection.
func (s *Server) Answering() <-chan struct{} { return s.answering }
