package master

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master/apiserver"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/enroll"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/bus"
	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/hold"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/master/quota"
	"github.com/seed-c01c3da5/zester/master/rest"
	"github.com/seed-c01c3da5/zester/master/results"
	"github.com/seed-c01c3da5/zester/master/session"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// stores are the stores on the bus that the services of a master share.
type stores struct {
	audit    *audit.Log
	jobs     *job.Store
	tokens   *token.Store
	users    *user.Store
	sessions *session.Store
}

// openStores makes or updates the buckets and streams, and opens them.
func (m *Master) openStores(ctx context.Context, js jetstream.JetStream, trust issuer) (s stores, err error) {
	kept, err := natsd.Provision(ctx, js, bucket.Kept{Replicas: m.o.Replicas, Audit: m.o.Audit})
	if err != nil {
		return s, err
	}
	if err := m.keepAudit(ctx, trust, kept); err != nil {
		return s, err
	}
	s.audit = audit.OpenLog(js, m.log)
	if s.jobs, err = job.NewStore(ctx, js); err != nil {
		return s, err
	}
	if err := s.jobs.RemoveStrayTargets(ctx); err != nil {
		return s, err
	}
	if s.tokens, err = token.Open(ctx, js); err != nil {
		return s, err
	}
	if s.users, err = user.Open(ctx, js); err != nil {
		return s, err
	}
	s.audit.BreakGlass = s.users.IsBreakGlass
	sessions := m.o.REST.Console.Sessions
	sessions.Log = m.log
	s.sessions, err = session.Open(ctx, js, s.users, s.tokens, sessions)
	return s, err
}

// serve opens the stores and runs all services until ctx ends or one of them cannot go on.
func (m *Master) serve(ctx context.Context, nc *nats.Conn, trust issuer, info Info, open func(rest.Backend)) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if announce := trust.rotated; announce != nil {
		trust.rotated = func() error {
			if err := announce(); err != nil {
				return err
			}
			// with the new keys, after the reply was sent
			time.AfterFunc(time.Second, func() { _ = nc.ForceReconnect() })
			return nil
		}
	}
	s := &services{m: m, nc: nc, js: js, trust: trust}
	if err := s.open(ctx); err != nil {
		return err
	}
	if err := s.assemble(ctx); err != nil {
		return err
	}
	return s.work(ctx, info, open)
}

// services are the services of one run of a master, and what they share.
type services struct {
	m     *Master
	nc    *nats.Conn
	js    jetstream.JetStream
	trust issuer
	stores
	stored     *storage
	authority  *auth.Authority
	fleet      *fleet.Fleet
	register   *enroll.Register
	judge      judge
	table      *coverage.Table
	dispatcher *dispatch.Dispatcher
	scanner    *dispatch.Scanner
	server     *apiserver.Server
	held       *hold.Service
}

// open opens the stores on the bus.
func (s *services) open(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	if s.stores, err = s.m.openStores(ctx, s.js, s.trust); err != nil {
		return err
	}
	if s.authority, err = s.m.issuing(ctx, s.js, s.trust); err != nil {
		return err
	}
	s.fleet, s.register, err = s.m.fleet(ctx, s.nc, s.js, s.trust)
	return err
}

// assemble makes the services, which know each other, and enters this run among the masters that live.
func (s *services) assemble(ctx context.Context) (err error) {
	m := s.m
	s.stored = &storage{js: s.js, bus: m.bus, key: m.o.ID, log: m.log}
	documents := settings.NewStore(s.js)
	s.judge = judge{
		users: s.users, tokens: s.tokens,
		selects: func(ctx context.Context, expr string) ([]target.PeelID, error) { return s.server.Select(ctx, expr) },
		document: func(ctx context.Context, id target.PeelID) (*settings.Document, error) {
			doc, _, err := documents.Get(ctx, id)
			return doc, err
		},
	}
	owner := bus.HeartbeatOwner(m.o.ID, m.id.run)
	if s.dispatcher, err = s.newDispatcher(owner); err != nil {
		return err
	}
	beats := bus.NewHeartbeat(s.js, owner, bus.HeartbeatOwner(m.o.ID, m.id.earlier), m.log)
	s.scanner = dispatch.NewScanner(s.dispatcher, beats)
	if err := beats.Enter(ctx); err != nil {
		return err
	}

	s.table, err = coverage.New(coverage.Options{
		JetStream: s.js, Fleet: s.fleet, Log: m.log, Noted: m.o.Alerts.isPinged,
	})
	if err != nil {
		return err
	}
	if s.server, err = s.newServer(); err != nil {
		return err
	}
	s.held = hold.New(hold.Options{
		JetStream:       s.js,
		Jobs:            s.jobs,
		Select:          s.server.SelectFor,
		Allow:           s.judge.allow,
		Check:           s.judge.reach().Check,
		Needs:           s.judge.second,
		CheckApart:      s.judge.reach().CheckApart,
		CheckNotRevoked: s.judge.reach().CheckCurrent,
		Audit:           s.audit,
		Log:             m.log,
		Metrics:         m.o.Metrics,
	})
	return nil
}

func (s *services) newDispatcher(owner string) (*dispatch.Dispatcher, error) {
	return dispatch.New(dispatch.Options{
		Room:            s.stored.room,
		Records:         quota.NewAccount(s.js, wire.KV(wire.BucketJobs)),
		Conn:            s.nc,
		Store:           s.jobs,
		Owner:           owner,
		AckWindow:       s.m.o.AckWindow,
		Audit:           s.audit,
		Log:             s.m.log,
		Allow:           s.judge.allow,
		CheckNotRevoked: s.judge.reach().CheckCurrent,
		Revoked:         s.register.RevokedSince,
		Select: func(ctx context.Context, from grants.Caller, expr string) ([]target.PeelID, error) {
			return s.server.SelectFor(ctx, from, expr)
		},
		Approved: func(ctx context.Context, user string, spec *job.Spec, action string) (map[string]string, error) {
			return s.held.Approved(ctx, user, spec, action)
		},
		Second: func(ctx context.Context, from grants.Caller, spec *job.Spec) error {
			return s.held.Second(ctx, from, spec)
		},
	})
}

// newServer returns the server of requests on the bus.
func (s *services) newServer() (*apiserver.Server, error) {
	pages, err := s.m.consoleAddress()
	if err != nil {
		return nil, err
	}
	return apiserver.New(apiserver.Options{
		JetStream: s.js,
		Store:     s.jobs,
		Dispatch:  s.dispatcher,
		Tokens:    s.tokens,
		Users:     s.users,
		Authority: s.authority,
		Audit:     s.audit,
		Fleet:     s.fleet,
		Stored:    s.stored.Err,
		Readable:  s.judge.readable,
		Allow:     s.judge.allow,
		Needs:     s.judge.second,
		Within:    s.judge.reach().Of,
		Keys:      s.register.Keys,
		Coverage:  s.table,
		ID:        s.m.o.ID,
		Log:       s.m.log,
		Metrics:   s.m.o.Metrics,
		Console:   apiserver.Console{At: pages, Sessions: s.sessions, Provider: s.m.o.REST.Console.Login},
		KeepAudit: func(ctx context.Context, kept bucket.Kept) error { return s.m.keepAudit(ctx, s.trust, kept) },
	}), nil
}

// backend returns what REST serves, and the services that only it needs.
func (s *services) backend() (b rest.Backend, own []func(context.Context) error) {
	m := s.m
	followed := coverage.MetricsSource{Health: s.table.Health, Summaries: s.table.Summaries, Problems: s.table.Problems}
	if m.o.REST.PerPeel {
		followed.Cells = s.table.Cells
	}
	collectors := append(slices.Clone(m.o.REST.Collectors), m.o.Metrics, coverage.NewCollector(followed))
	if m.o.Creds != "" {
		renewed := newRenewal(m.o.Creds, s.nc, m.log)
		own = append(own, renewed.run)
		collectors = append(collectors, renewed)
	}
	var browsers http.Handler
	if c := m.console(s.nc, s.stores, s.server); c != nil {
		browsers = c
		collectors = append(collectors, c)
		own = append(own, c.Run)
	}
	return rest.Backend{
		JetStream:  s.js,
		Store:      s.jobs,
		Tokens:     s.tokens,
		Authority:  s.authority,
		Audit:      s.audit,
		Questions:  s.server,
		Check:      s.judge.reach().Check,
		CheckWhole: s.judge.reach().CheckWhole,
		Allow:      s.judge.allow,
		Dispatcher: s.dispatcher,
		Results:    results.New(results.Options{JetStream: s.js, Store: s.jobs, Log: m.log}),
		Scanner:    s.scanner,
		Fleet:      s.fleet,
		Trimmer:    quota.New(quota.Options{JetStream: s.js, Live: s.jobs.LiveIDs, Log: m.log}),
		Coverage:   s.table,
		Stored:     s.stored.Err,
		Collectors: collectors,
		Console:    browsers,
	}, own
}

// work runs the services, opens REST, and calls Options.Ready once requests are answered. It returns when all have
// stopped.
func (s *services) work(ctx context.Context, info Info, open func(rest.Backend)) error {
	m := s.m
	b, own := s.backend()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { s.stored.run(ctx); return nil })
	g.Go(func() error { return s.fleet.Run(ctx) })
	if m.bus != nil {
		g.Go(func() error { m.followConnections(ctx, s.fleet); return nil })
	}
	if err := s.fleet.WaitReady(ctx); err != nil {
		return errors.Join(err, g.Wait())
	}
	if s.authority != nil {
		g.Go(func() error { return s.authority.Run(ctx) })
	}
	for _, run := range append(own, s.alerts().Run, s.held.Run, s.dispatcher.Run, s.scanner.Run, b.Results.Run,
		b.Trimmer.Run, s.table.Run, s.server.Run, s.audit.Run) {
		g.Go(func() error { return run(ctx) })
	}
	open(b)
	for _, service := range m.o.Services {
		g.Go(func() error { return service(ctx, s.nc, s.fleet) })
	}
	if m.answers(ctx, s.nc, s.server.Answering(), s.dispatcher.Answering()) {
		m.log.Info("master is ready", "url", info.URL)
		if m.o.Ready != nil {
			m.o.Ready(info)
		}
	}
	return g.Wait()
}

// answers waits until this master, whatever others do, is asked requests of all kinds, and returns false if ctx ends
// first.
func (m *Master) answers(ctx context.Context, nc *nats.Conn, subscribed ...<-chan struct{}) bool {
	for _, done := range subscribed {
		select {
		case <-ctx.Done():
			return false
		case <-done:
		}
	}
	for !flushed(ctx, nc) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(flushAgain):
		}
	}
	return ctx.Err() == nil
}

// flushed reports whether the bus has processed all that was sent to it.
func flushed(ctx context.Context, nc *nats.Conn) bool {
	ctx, cancel := context.WithTimeout(ctx, flushLimit)
	defer cancel()
	return nc.FlushWithContext(ctx) == nil
}
