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
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/bus"
	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/hold"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/master/quota"
	"github.com/seed-c01c3da5/zester/master/rest"
	"github.com/seed-c01c3da5/zester/master/results"
	"github.com/seed-c01c3da5/zester/master/session"
	"github.com/seed-c01c3da5/zester/peel/wire"
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
	opening, opened := context.WithTimeout(ctx, openLimit)
	defer opened()
	s, err := m.openStores(opening, js, trust)
	if err != nil {
		return err
	}
	if announce := trust.rotated; announce != nil {
		trust.rotated = func() error {
			// with the new keys, after the reply was sent
			time.AfterFunc(time.Second, func() { _ = nc.ForceReconnect() })
			return announce()
		}
	}
	authority, err := m.issuing(opening, js, trust)
	if err != nil {
		return err
	}
	fleet, err := m.fleet(opening, nc, js, trust)
	if err != nil {
		return err
	}
	owner := bus.HeartbeatOwner(m.o.ID, m.id.run)
	var server *apiserver.Server
	var held *hold.Service
	stored := &storage{js: js, bus: m.bus, key: m.o.ID, log: m.log}
	judge := judge{
		s.users, s.tokens, func(ctx context.Context, expr string) ([]target.PeelID, error) {
			return server.Select(ctx, expr)
		},
	}
	dispatcher, err := dispatch.New(dispatch.Options{
		Room: stored.room, Records: quota.NewAccount(js, wire.KV(wire.BucketJobs)),
		Conn: nc, Store: s.jobs, Owner: owner, AckWindow: m.o.AckWindow, Audit: s.audit, Log: m.log,
		Allow: judge.allow, CheckNotRevoked: judge.checkNotRevoked,
		Select: func(ctx context.Context, from grants.Caller, expr string) ([]target.PeelID, error) {
			return server.SelectFor(ctx, from, expr)
		},
		Approved: func(ctx context.Context, user string, spec *job.Spec, action string) (map[string]string, error) {
			return held.Approved(ctx, user, spec, action)
		},
	})
	if err != nil {
		return err
	}
	beats := bus.NewHeartbeat(js, owner, bus.HeartbeatOwner(m.o.ID, m.id.earlier), m.log)
	scanner := dispatch.NewScanner(dispatcher, beats)
	if err := beats.Enter(ctx); err != nil {
		return err
	}
	table, err := coverage.New(coverage.Options{JetStream: js, Fleet: fleet, Log: m.log, Noted: m.o.Alerts.isPinged})
	if err != nil {
		return err
	}
	pages, err := m.consoleAddress()
	if err != nil {
		return err
	}
	server = apiserver.New(apiserver.Options{
		JetStream: js,
		Store:     s.jobs,
		Dispatch:  dispatcher,
		Tokens:    s.tokens,
		Users:     s.users,
		Authority: authority,
		Audit:     s.audit,
		Fleet:     fleet,
		Stored:    stored.Err,
		Readable:  judge.readable,
		Within:    judge.within,
		Coverage:  table,
		ID:        m.o.ID,
		Log:       m.log,
		Metrics:   m.o.Metrics,
		Sessions:  s.sessions,
		Console:   pages,
		KeepAudit: func(ctx context.Context, kept bucket.Kept) error { return m.keepAudit(ctx, trust, kept) },
	})
	followed := coverage.MetricsSource{Health: table.Health, Summaries: table.Summaries, Problems: table.Problems}
	if m.o.REST.PerPeel {
		followed.Cells = table.Cells
	}
	held = hold.New(hold.Options{
		JetStream:       js,
		Jobs:            s.jobs,
		Select:          server.SelectFor,
		Allow:           judge.allow,
		CheckNotRevoked: judge.checkNotRevoked,
		Audit:           s.audit,
		Log:             m.log,
		Metrics:         m.o.Metrics,
	})
	services := []func(context.Context) error{m.alerts(nc, fleet, table, stored, judge, s.audit).Run, held.Run}
	collectors := append(slices.Clone(m.o.REST.Collectors), m.o.Metrics, coverage.NewCollector(followed))
	if m.o.Creds != "" {
		own := newRenewal(m.o.Creds, nc, m.log)
		services, collectors = append(services, own.run), append(collectors, own)
	}
	var browsers http.Handler
	if c := m.console(nc, s, server); c != nil {
		browsers, services = c, append(services, c.Run)
	}
	return m.work(ctx, nc, info, stored, services, open, rest.Backend{
		JetStream:  js,
		Store:      s.jobs,
		Tokens:     s.tokens,
		Authority:  authority,
		Audit:      s.audit,
		Questions:  server,
		Dispatcher: dispatcher,
		Results:    results.New(results.Options{JetStream: js, Store: s.jobs, Log: m.log}),
		Scanner:    scanner,
		Fleet:      fleet,
		Trimmer:    quota.New(quota.Options{JetStream: js, Live: s.jobs.LiveIDs, Log: m.log}),
		Coverage:   table,
		Stored:     stored.Err,
		Collectors: collectors,
		Console:    browsers,
	})
}

// work runs the services, also those of b, opens REST, and calls Options.Ready once requests are answered. It returns
// when all have stopped.
func (m *Master) work(ctx context.Context, nc *nats.Conn, info Info, stored *storage,
	services []func(context.Context) error, open func(rest.Backend), b rest.Backend,
) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { stored.run(ctx); return nil })
	g.Go(func() error { return b.Fleet.Run(ctx) })
	if m.bus != nil {
		g.Go(func() error { m.followConnections(ctx, b.Fleet); return nil })
	}
	if err := b.Fleet.WaitReady(ctx); err != nil {
		return errors.Join(err, g.Wait())
	}
	if b.Authority != nil {
		g.Go(func() error { return b.Authority.Run(ctx) })
	}
	for _, run := range append(services, b.Dispatcher.Run, b.Scanner.Run, b.Results.Run, b.Trimmer.Run, b.Coverage.Run,
		b.Questions.Run, b.Audit.Run) {
		g.Go(func() error { return run(ctx) })
	}
	open(b)
	for _, service := range m.o.Services {
		g.Go(func() error { return service(ctx, nc, b.Fleet) })
	}
	if m.answers(ctx, nc, b.Questions.Answering(), b.Dispatcher.Answering()) {
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
