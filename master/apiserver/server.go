// Package apiserver serves the requests of programs over the bus; package api has the requests, the replies and the
// client. Make a [Server] with [New] and call Run once.
//
// Guarantees: the name of the caller is the last token of the subject, which the bus enforces; any master can reply,
// because all masters read the same buckets and streams; a change is in the audit log before its reply; a master that
// stops replies to all requests that have reached it. The queue of waiting requests is bounded.
package apiserver

import (
	"context"
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/login"
	"github.com/seed-c01c3da5/zester/master/reach"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/master/session"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	answerAtOnce = 8
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
	Audit     *audit.Log      // nil: nothing is kept, and nobody can read it
	Fleet     *fleet.Fleet    // which runs and is ready
	Stored    func() error    // why the bus stores nothing now; nil: it is not watched
	// Readable returns those of the peels whose settings a caller may read, or [grants.ErrNotAllowed]; nil: all are. A
	// user who may select by a setting can find its value by trying.
	Readable func(ctx context.Context, from grants.Caller, peels []target.PeelID) ([]target.PeelID, error)
	// Allow returns [grants.ErrNotAllowed] with the reason if a caller may not dispatch a job; nil: everybody may.
	Allow func(ctx context.Context, from grants.Caller, spec *job.Spec) error
	// Needs returns the rule by which a job of a caller waits for a second person, nil if there is none; nil: no job
	// waits.
	Needs func(ctx context.Context, from grants.Caller, spec *job.Spec) (*access.Second, error)
	// Within returns the peels about which a caller may read; nil: everybody may read about all.
	Within func(ctx context.Context, from grants.Caller) (access.Peels, error)
	// Keys returns the keys of a peel's credentials; nil: they are not known.
	Keys func(ctx context.Context, id target.PeelID) ([]credential.PeelKey, error)
	// KeepAudit changes the audit log to what the bus keeps; needed with Authority.
	KeepAudit func(context.Context, bucket.Kept) error
	Coverage  *coverage.Table // which runs; nil: nobody can ask for it
	Console   Console
	ID        string           // of the master
	Metrics   *service.Metrics // of requests; nil: nothing is counted
	Log       *slog.Logger     // nil: nothing is logged
}

// A Console says how people log in to the console of a master.
type Console struct {
	At       api.ConsoleAt   // where this master serves it
	Sessions *session.Store  // nil: nobody logs in
	Provider *login.Provider // of logins; nil: there is none
}

// A Server serves requests about targets, jobs, peels and credentials. Make it with [New] and call Run once. Its other
// methods may be called without Run, from several goroutines; [AnswerCode] returns the kind of their errors.
type Server struct {
	o          Options
	nc         *nats.Conn
	log        *slog.Logger
	answering  chan struct{} // closed when all that is asked is listened for
	targets    *reach.Selector
	documents  *settings.Store
	agents     agents
	findings   findings
	groupings  *service.Lane // of requests that group returns
	gatherings *service.Lane // of requests that ask other services
	forecasts  *service.Lane // of requests for the load
	loads      loadForecasts
}

// New returns a server. It starts nothing.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{
		o:          o,
		nc:         o.JetStream.Conn(),
		log:        o.Log,
		answering:  make(chan struct{}),
		agents:     agents{byUser: map[string]*rate.Limiter{}},
		groupings:  service.NewLane(groupingsAtOnce, answerQueue),
		gatherings: service.NewLane(gatheringsAtOnce, answerQueue),
		forecasts:  service.NewLane(loadsAtOnce, answerQueue).Each(loadsEach),
		targets:    reach.NewSelector(o.JetStream, o.Fleet.Index()),
		documents:  settings.NewStore(o.JetStream),
	}
}

// Run serves requests in the queue group of the masters until ctx ends, and then returns nil. An error means that it
// could not subscribe.
func (s *Server) Run(ctx context.Context) error {
	var listing sync.WaitGroup
	defer listing.Wait()
	listing.Go(func() {
		// The first list reads the keys of all jobs. It is done now, so that no request waits for it. If it fails, the
		// next list repeats it.
		_, _ = s.o.Store.List(ctx, job.Query{Limit: 1})
	})
	err := service.Serve(ctx, service.Options{
		Conn:    s.nc,
		Verbs:   s.verbs(),
		Lane:    service.NewLane(answerAtOnce, answerQueue),
		Record:  s.o.Audit.Write,
		Code:    AnswerCode,
		Ready:   func() { close(s.answering) },
		Log:     s.log,
		Metrics: s.o.Metrics,
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (s *Server) verbs() []service.Verb {
	verbs := []service.Verb{
		handleFrom(api.TargetResolve, s.Resolve),
		handleFrom(api.TargetExplain, s.explain),
		handleFrom(api.JobList, s.JobList),
		handleFrom(api.JobShow, s.JobShow),
		handleFrom(api.JobReturns, s.JobReturns),
		handleFrom(api.JobGroups, s.jobGroups).In(s.groupings),
		handleFrom(api.JobActive, s.jobActive),
		handleFrom(api.JobCancel, s.jobCancel),
		handleFrom(api.PeelList, s.PeelList),
		handleFrom(api.PeelShow, s.peelShow).In(s.gatherings),
		handleFrom(api.PeelRekey, s.rekey),
		handleFrom(api.MasterShow, s.health),
		handle(api.BusShow, s.busShow),
		handleFrom(api.EntryShow, s.entryShow),
		handleFrom(api.CoverageExplain, s.Why),
		handleFrom(api.TokenList, s.tokenList),
		handleFrom(api.TokenCreate, s.tokenCreate),
		handleFrom(api.TokenRotate, s.tokenRotate),
		handleFrom(api.TokenRevoke, s.tokenRevoke),
	}
	if s.o.Audit != nil {
		verbs = append(verbs, handleFrom(api.AgentRecord, s.recordCall).Read(), handle(api.AuditList, s.o.Audit.List))
	}
	if s.o.Console.Sessions != nil {
		verbs = append(verbs, s.sessionVerbs()...)
	}
	if s.o.Coverage != nil {
		verbs = append(verbs, s.coverageVerbs()...)
		verbs = append(verbs, s.gatherVerbs()...)
	}
	if s.o.Authority != nil {
		verbs = append(verbs, handleFrom(api.BusSet, s.busSet))
		verbs = append(verbs, s.userVerbs()...)
		verbs = append(verbs, s.enrollVerbs()...)
		verbs = append(verbs, s.rotateVerbs()...)
	}
	return verbs
}

// Answering is closed when the server has subscribed to all requests. The bus has processed that once it has replied to
// a later request on the same connection.
func (s *Server) Answering() <-chan struct{} { return s.answering }
