// Package apiserver answers what programs ask masters over the bus; [api] has the questions, the answers and the client.
// Make a [Server] with [New] and call Run once.
//
// The name of the caller is the last token of the subject, which the bus enforces. All masters answer as one queue group:
// each reads what it answers from the buckets and from the stream of facts. Requests wait in a queue of limited length; what
// has reached a master when it stops is answered still. What changes something is in the audit log before it is answered.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/master/auditlog"
	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/auth/user"
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
	answerQueue  = 256 // questions that wait
)

// Options are what a Server answers from.
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
	// Readable returns those of the peels whose settings a caller may read, or [grants.ErrNotAllowed]; nil: all are. Whoever
	// may select by a setting can find out its value by trying.
	Readable func(ctx context.Context, from grants.Caller, peels []target.PeelID) ([]target.PeelID, error)
	Log      *slog.Logger // nil: nothing is logged
}

// A Server answers what people ask about targets, jobs and peels. Make it with [New] and call Run once. The methods
// that answer may be called without Run too, from several goroutines; [AnswerCode] says of what kind their errors are.
type Server struct {
	o         Options
	nc        *nats.Conn
	log       *slog.Logger
	questions chan func(context.Context)
	answering chan struct{} // closed when all that is asked is listened for
	targets   selector

	mu      sync.Mutex
	stopped bool // questions is closed
}

// New returns a server. It starts nothing.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{
		o: o, nc: o.JetStream.Conn(), log: o.Log, questions: make(chan func(context.Context), answerQueue),
		answering: make(chan struct{}),
		targets:   selector{js: o.JetStream, index: o.Fleet.Index(), store: settings.NewStore(o.JetStream)},
	}
}

// Run answers as one of the masters' queue group until ctx ends, and then returns nil. An error means that it could
// not begin.
func (s *Server) Run(ctx context.Context) error {
	service, err := micro.AddService(s.nc, micro.Config{Name: "zester-api", Version: "1.0.0", QueueGroup: wire.MastersQueue})
	if err != nil {
		return fmt.Errorf("cannot serve the API: %w", err)
	}
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
		"entry-show":     {wire.API("entry", "show", "*"), handle(s, s.entryShow)},
		"token-list":     {wire.API("token", "list", "*"), handleFrom(s, s.tokenList)},
		"token-create":   {wire.API("token", "create", "*"), act(s, "token.create", s.tokenCreate)},
		"token-rotate":   {wire.API("token", "rotate", "*"), act(s, "token.rotate", s.tokenRotate)},
		"token-revoke":   {wire.API("token", "revoke", "*"), act(s, "token.revoke", s.tokenRevoke)},
	}
	if s.o.Audit != nil {
		endpoints["audit-list"] = endpoint{wire.API("audit", "list", "*"), handle(s, s.o.Audit.List)}
	}
	if s.o.Authority != nil {
		maps.Copy(endpoints, s.userEndpoints())
		maps.Copy(endpoints, s.enrollEndpoints())
		maps.Copy(endpoints, s.rotateEndpoints())
	}
	for name, e := range endpoints {
		if err := service.AddEndpoint(name, e.handler, micro.WithEndpointSubject(e.subject)); err != nil {
			return errors.Join(fmt.Errorf("cannot serve %s: %w", e.subject, err), service.Stop())
		}
	}
	close(s.answering)
	// What has reached this master when ctx ends is answered still: whoever asked could not know that it stops.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var workers sync.WaitGroup
	for range answerAtOnce {
		workers.Go(func() { s.answer(work) })
	}
	workers.Go(func() {
		// The first list reads the keys of all jobs, for which nobody has to wait where it is done before. If it fails the
		// next does it.
		_, _ = s.o.Store.List(ctx, job.Query{Limit: 1})
	})
	<-ctx.Done()
	if err := service.Stop(); err != nil && !s.nc.IsClosed() {
		s.log.Warn("API service not stopped cleanly", "err", err)
	}
	reply.WaitForHandlers(s.nc, stopGrace)
	s.mu.Lock()
	s.stopped = true
	close(s.questions)
	s.mu.Unlock()
	defer time.AfterFunc(stopGrace, stop).Stop()
	workers.Wait()
	return nil
}

// Answering is closed when the server listens for all that people ask. The bus knows that once it has answered anything
// that is asked on the same connection later.
func (s *Server) Answering() <-chan struct{} { return s.answering }
