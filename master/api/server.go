package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/feed"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	answerAtOnce = 8
	stopGrace    = 2 * time.Second
	answerQueue  = 256  // questions that wait
	maxTargets   = 2000 // in the answer about one job
)

// errInvalid is of a question that makes no sense.
var errInvalid = errors.New("the request is not valid")

// errNoPeel is of a peel that nobody has heard of.
var errNoPeel = errors.New("no such peel")

// ServerOptions are what a Server answers from.
type ServerOptions struct {
	JetStream jetstream.JetStream // on the connection of a master
	Store     *job.Store
	Dispatch  *dispatch.Dispatcher // which runs
	Tokens    *auth.Tokens         // of the REST API
	Users     *auth.Users
	Authority *auth.Authority // nil on a master without keys, which leaves what needs them to others
	Audit     *audit.Log      // nil: nothing is kept, and nobody can read it
	Fleet     *feed.Feed      // which runs and is ready
	Stored    func() error    // why the bus stores nothing now; nil: it is not watched
	// Readable returns those of the peels whose settings a caller may read, or [grants.ErrNotAllowed]; nil: all are. Whoever
	// may select by a setting can find out its value by trying.
	Readable func(ctx context.Context, from grants.Caller, peels []target.PeelID) ([]target.PeelID, error)
	Log      *slog.Logger // nil: nothing is logged
}

// A Server answers what people ask about targets, jobs and peels. Make it with [NewServer] and call Run once. The methods
// that answer may be called without Run too, from several goroutines; [AnswerCode] says of what kind their errors are.
type Server struct {
	o         ServerOptions
	nc        *nats.Conn
	log       *slog.Logger
	questions chan func(context.Context)
	answering chan struct{} // closed when all that is asked is listened for
	targets   selector

	mu      sync.Mutex
	stopped bool // questions is closed
}

// An endpoint is where a question is asked and what answers it.
type endpoint struct {
	subject string
	handler micro.Handler
}

// NewServer returns a server. It starts nothing.
func NewServer(o ServerOptions) *Server {
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
	wire.HandOver(s.nc, stopGrace)
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

// answer works on questions until there are no more.
func (s *Server) answer(ctx context.Context) {
	for question := range s.questions {
		question(ctx)
	}
}

// handle is handleFrom for what does not depend on who asks.
func handle[Q, A any](s *Server, f func(context.Context, Q) (A, error)) micro.Handler {
	return handleFrom(s, func(ctx context.Context, _ grants.Caller, q Q) (A, error) { return f(ctx, q) })
}

// handleFrom makes a service's handler of a function from caller and request to answer. The handler itself only hands over.
func handleFrom[Q, A any](s *Server, f func(ctx context.Context, from grants.Caller, q Q) (A, error)) micro.Handler {
	return micro.HandlerFunc(func(req micro.Request) {
		question := func(ctx context.Context) {
			var q Q
			var data []byte
			err := decode(req, &q)
			if err == nil {
				var a A
				if a, err = f(ctx, grants.CallerOf(req.Subject(), nats.Header(req.Headers())), q); err == nil {
					data, err = canon.Marshal(a)
				}
			}
			s.respond(req, data, err)
		}
		if !s.hand(question) {
			s.respond(req, nil, errors.New("too many questions are waiting, or this master is stopping"))
		}
	})
}

// hand gives a question to the workers; false if there is no room or they have stopped.
func (s *Server) hand(question func(context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	select {
	case s.questions <- question:
		return true
	default:
		return false
	}
}

// decode reads a question; none at all is the zero one.
func decode(req micro.Request, q any) error {
	if len(req.Data()) == 0 {
		return nil
	}
	msg := &nats.Msg{Subject: req.Subject(), Header: nats.Header(req.Headers()), Data: req.Data()}
	if err := wire.Decode(msg, q); err != nil {
		return fmt.Errorf("%w: %w", errInvalid, err)
	}
	return nil
}

func (s *Server) respond(req micro.Request, data []byte, err error) {
	if err := wire.Answer(s.nc, req, data, string(AnswerCode(err)), err); err != nil {
		s.log.Debug("question not answered", "subject", req.Subject(), "err", err)
	}
}

// AnswerCode is the code with which a service answers an error of a Server's methods.
func AnswerCode(err error) Code {
	if _, ok := errors.AsType[*target.SyntaxError](err); ok || errors.Is(err, errInvalid) {
		return CodeInvalid
	}
	if code := credentialCode(err); code != "" {
		return code
	}
	if errors.Is(err, dispatch.ErrEnded) || errors.Is(err, dispatch.ErrCanceled) || errors.Is(err, feed.ErrNoKey) {
		return CodeConflict
	}
	if errors.Is(err, job.ErrNotFound) || isAbsent(err) {
		return CodeNotFound
	}
	return CodeUnavailable
}

// page cuts what follows after from sorted IDs, at most n of them.
func page(ids []target.PeelID, after target.PeelID, n int) (cut []target.PeelID, more bool) {
	i, found := slices.BinarySearch(ids, after)
	if found {
		i++
	}
	ids = ids[i:]
	return ids[:min(n, len(ids))], len(ids) > n
}

// Select returns all peels that an expression selects, sorted.
func (s *Server) Select(ctx context.Context, expr string) ([]target.PeelID, error) {
	_, ids, err := s.targets.selected(ctx, expr)
	return ids, err
}

// SelectFor returns the peels that an expression selects for a caller, sorted: where it asks for settings, only those
// whose settings the caller may read.
func (s *Server) SelectFor(ctx context.Context, from grants.Caller, expr string) ([]target.PeelID, error) {
	_, ids, err := s.selectFor(ctx, from, expr)
	return ids, err
}

func (s *Server) selectFor(ctx context.Context, from grants.Caller, expr string) (*target.Expr, []target.PeelID, error) {
	e, ids, err := s.targets.selected(ctx, expr)
	if err != nil || s.o.Readable == nil || !e.UsesSettings() {
		return e, ids, err
	}
	if ids, err = s.o.Readable(ctx, from, ids); err != nil {
		return nil, nil, fmt.Errorf("cannot select by settings (I@, J@): %w", err)
	}
	return e, ids, nil
}

// Resolve returns a page of the peels that an expression selects for a caller, as [Server.SelectFor] does.
func (s *Server) Resolve(ctx context.Context, from grants.Caller, q ResolveRequest) (*Resolved, error) {
	e, ids, err := s.selectFor(ctx, from, q.Expr)
	if err != nil {
		return nil, err
	}
	a := &Resolved{Total: len(ids)}
	a.Peels, a.More = page(ids, q.After, resolvedInPage)
	for _, id := range a.Peels {
		if _, online := s.o.Fleet.Presence(id); !online && !s.o.Fleet.Unknown(id) {
			a.Offline = append(a.Offline, id)
		}
	}
	if q.After != "" {
		return a, nil
	}
	for _, id := range e.Lists() {
		if _, known := s.o.Fleet.Index().Get(id); !known && len(a.Unknown) < resolvedInPage {
			a.Unknown = append(a.Unknown, id)
		}
	}
	return a, nil
}

func (s *Server) explain(ctx context.Context, from grants.Caller, q ExplainRequest) (*Explained, error) {
	e, err := s.targets.parse(ctx, q.Expr)
	if err != nil {
		return nil, err
	}
	if e.UsesSettings() && s.o.Readable != nil {
		all := s.targets.index.IDs() // the explanation counts over the whole fleet
		readable, err := s.o.Readable(ctx, from, all)
		if err == nil && len(readable) < len(all) {
			err = fmt.Errorf("%w: it counts peels whose settings are outside the limits of %s", grants.ErrNotAllowed, from.User)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot explain an expression over settings (I@, J@): %w", err)
		}
	}
	explanation, err := s.targets.index.Explain(e)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	return &Explained{Parsed: e.String(), Total: s.targets.index.Len(), Explanation: *explanation}, nil
}

// JobList returns a page of jobs, newest first.
func (s *Server) JobList(ctx context.Context, q job.Query) (*job.Page, error) {
	if q.Status != "" && !q.Status.Known() {
		return nil, fmt.Errorf("%w: no job has the status %q", errInvalid, q.Status)
	}
	if q.Before != "" {
		if _, err := wire.ParseJID(string(q.Before)); err != nil {
			return nil, fmt.Errorf("%w: cannot list what is before: %w", errInvalid, err)
		}
	}
	return s.o.Store.List(ctx, q)
}

// JobShow returns a job with its arguments, and its targets unless there are thousands.
func (s *Server) JobShow(ctx context.Context, q JobRequest) (*job.Job, error) {
	j, err := s.o.Store.Get(ctx, q.JID)
	if err == nil && len(j.Targets) > maxTargets {
		j.Targets = nil // job.returns tells them, in pages
	}
	return j, err
}

// JobReturns returns a page of a job's targets.
func (s *Server) JobReturns(ctx context.Context, q JobRequest) (*job.RowsPage, error) {
	return s.o.Store.Rows(ctx, q.JID, q.After)
}

// factsInPage is how many bytes of facts a page of peels may pass.
const factsInPage = wire.MaxMessage / 2

// PeelList returns a page of peels, selected as by [Server.SelectFor].
func (s *Server) PeelList(ctx context.Context, from grants.Caller, q PeelsRequest) (*PeelsPage, error) {
	ids := s.o.Fleet.Index().IDs()
	if strings.TrimSpace(q.Target) != "" {
		var err error
		if _, ids, err = s.selectFor(ctx, from, q.Target); err != nil {
			return nil, err
		}
	}
	a := &PeelsPage{Total: len(ids)}
	ids, a.More = page(ids, q.After, peelsInPage)
	facts := 0
	for _, id := range ids {
		p := s.peel(id)
		if q.Facts {
			p.Facts, _ = s.o.Fleet.Index().Get(id)
			encoded, err := canon.Marshal(p.Facts)
			if err != nil {
				return nil, err
			}
			facts += len(encoded)
		}
		if a.Peels = append(a.Peels, p); facts > factsInPage {
			a.More = a.More || len(a.Peels) < len(ids)
			break
		}
	}
	return a, nil
}

// jobCancel lets who has limits cancel no job but his own.
func (s *Server) jobCancel(ctx context.Context, from grants.Caller, q JobRequest) (*job.Job, error) {
	if from.Role == grants.RoleLimited {
		j, err := s.o.Store.Get(ctx, q.JID)
		if err != nil {
			return nil, err
		}
		if j.User != from.User {
			return nil, fmt.Errorf("cannot cancel job %s: %w: it is of %s", q.JID, grants.ErrNotAllowed, j.User)
		}
	}
	j, err := s.o.Dispatch.Cancel(ctx, q.JID, from.User)
	if err != nil {
		return nil, err
	}
	summary := j.Summary()
	return &summary, nil
}

// jobActive reads the records of the jobs that run, newest first, as many as fit into an answer.
func (s *Server) jobActive(ctx context.Context, _ struct{}) (*ActiveJobs, error) {
	index, err := s.o.Store.ListActive(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(index, func(a, b job.Active) int { return strings.Compare(string(b.JID), string(a.JID)) })
	a := &ActiveJobs{Total: len(index), Jobs: []job.Job{}}
	for _, entry := range index[:min(len(index), activeAtMost)] {
		j, err := s.o.Store.Get(ctx, entry.JID)
		if errors.Is(err, job.ErrNotFound) {
			continue // its record is not written yet
		}
		if err != nil {
			return nil, err
		}
		if !j.Status.Final() {
			a.Jobs = append(a.Jobs, j.Summary())
		}
	}
	return a, nil
}

func (s *Server) peel(id target.PeelID) Peel {
	seen, online := s.o.Fleet.Presence(id)
	return Peel{
		ID: id, Online: online, Unknown: s.o.Fleet.Unknown(id), LastSeen: seen, Duplicate: s.o.Fleet.Duplicate(id),
		Key: s.o.Fleet.Key(id), PendingKey: s.o.Fleet.PendingKey(id),
	}
}

func (s *Server) peelShow(_ context.Context, q PeelRequest) (*Peel, error) {
	facts, ok := s.o.Fleet.Index().Get(q.Peel)
	if !ok {
		return nil, fmt.Errorf("%w: %q has never told its facts", errNoPeel, q.Peel)
	}
	p := s.peel(q.Peel)
	p.Facts = facts
	return &p, nil
}
