// Package master is one master: it joins the bus, the index of the fleet, the dispatcher, the consumer of scheduled
// results and the services that people ask.
//
// Masters keep nothing that another could not continue from: all state is in the buckets and streams, so any number
// of them may run, and one that stops hands its jobs over. The embedded server is only a default for where the
// buckets are; with Options.NATS the same code runs against a server or cluster elsewhere.
package master

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/apiserver"
	"github.com/seed-c01c3da5/zester/master/auditlog"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/feed"
	"github.com/seed-c01c3da5/zester/master/heartbeat"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/master/quota"
	"github.com/seed-c01c3da5/zester/master/rest"
	"github.com/seed-c01c3da5/zester/master/results"
	"github.com/seed-c01c3da5/zester/peel/dial"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// embedded is dialled in place of a URL by the connection that needs none.
const embedded = "nats://embedded"

// How a master that starts asks itself whether it answers.
const (
	askLimit = 5 * time.Second
	askAgain = 5 * time.Millisecond
)

// What holds unless the options say otherwise.
const (
	DefaultAudit     = natsd.AuditRetention
	DefaultAckWindow = dispatch.DefaultAckWindow
)

// openLimit is how long the bus may take to open what a master works with. It is busy while a large fleet comes back, and
// a master that gave up then would take an embedded one with it, and have all come back once more.
const openLimit = time.Minute

// A Service runs beside the master's own, on its connection and its view of the fleet, until ctx ends.
// It is how the reconciler joins a master without either package knowing the other.
type Service func(ctx context.Context, nc *nats.Conn, fleet *feed.Feed) error

// Options say who a master is and which bus it uses.
type Options struct {
	ID       string   // unique among masters: a credential's name
	DataDir  string   // keys, the embedded server's store and run.json; made with mode 0700
	Host     string   // where the embedded server listens; empty: 127.0.0.1
	Port     int      // of the embedded server; 0: the kernel chooses
	Names    []string // by which peels on other hosts reach the embedded server, beside the host's own
	NATS     string   // URL of an external server; empty: the embedded one
	CA       string   // file with the certificates by which the external server is checked, see [dial.CheckedBy]
	Connect  []nats.Option
	Replicas int           // of buckets and streams; 0: 1
	Audit    time.Duration // how long the audit log is kept; 0: [DefaultAudit]
	// AckWindow is how long a target may be silent before it gets its request again, once: 0 means
	// [DefaultAckWindow], a negative one that it does not.
	AckWindow time.Duration
	REST      REST
	Services  []Service
	Ready     func(Info) // called once, when what people ask of masters is answered; Services may still be starting
	Log       *slog.Logger
}

// REST says where programs ask a master over HTTP. The zero value is nowhere.
type REST struct {
	Listen string // HOST:PORT
	// Cert and Key are files. Without them the certificate is signed by the data directory's authority.
	Cert, Key string
	Hooks     http.Handler // answers /hooks/{name} once the bus is reached; nil: there are none
	// Collectors are metrics of the Services, which /metrics shows beside those of the master.
	Collectors []prometheus.Collector
}

// Info says how to reach a master that is ready.
type Info struct {
	URL       string
	InProcess nats.InProcessConnProvider // connects to the embedded server without a socket; nil: the server is external
}

// A Master is one master. Make it with [New] and call Run once.
type Master struct {
	o   Options
	log *slog.Logger
	ca  func() (*pki.CA, error) // the one authority of all listeners
	id  *identity               // set by Run
	bus *ownBus                 // set by Run; nil: the server is elsewhere
}

// New checks the options. It starts nothing.
func New(o Options) (*Master, error) {
	if o.ID == "" {
		return nil, errors.New("cannot run a master without an ID")
	}
	if o.DataDir == "" {
		return nil, errors.New("cannot run a master without a data directory")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Replicas = max(1, o.Replicas)
	m := &Master{o: o, log: o.Log.With("master", o.ID)}
	m.ca = sync.OnceValues(func() (*pki.CA, error) { return pki.Open(filepath.Join(o.DataDir, "tls")) })
	if err := m.checkREST(); err != nil {
		return nil, err
	}
	return m, nil
}

// Run works until ctx ends. Services stop first, then the connection, then the embedded server. REST is served from the
// beginning, so that a master that waits for its bus can be seen to live.
func (m *Master) Run(ctx context.Context) error {
	if err := os.MkdirAll(m.o.DataDir, 0o700); err != nil {
		return fmt.Errorf("cannot make the data directory: %w", err)
	}
	var err error
	if m.id, err = newIdentity(m.o.DataDir); err != nil {
		return err
	}
	defer m.id.end()
	if m.o.REST.Listen == "" {
		return m.run(ctx, func(rest.Backend) {})
	}
	web, err := m.web()
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return web.Run(ctx) })
	g.Go(func() error { return m.run(ctx, web.Open) })
	return g.Wait()
}

// run calls open once, when there is something that can answer.
func (m *Master) run(ctx context.Context, open func(rest.Backend)) error {
	url, opts, info := m.o.NATS, m.o.Connect, Info{URL: m.o.NATS}
	var trust issuer
	if url != "" {
		var err error
		if trust, err = m.externalIssuer(); err != nil {
			return err
		}
	} else {
		keys, err := keystore.Open(keystore.Dir(m.o.DataDir))
		if err != nil {
			return err
		}
		ca, err := m.ca()
		if err != nil {
			return err
		}
		bus, err := m.startBus(keys, ca)
		if err != nil {
			return err
		}
		m.bus = bus
		defer bus.end()
		url, info = embedded, Info{bus.url, bus}
		own, err := m.own(keys)
		if err != nil {
			return err
		}
		opts = append([]nats.Option{own, nats.InProcessServer(bus)}, opts...)
		announce := func() error { return m.announce(keys, ca, info.URL) }
		if err := announce(); err != nil {
			return err
		}
		defer m.forget()
		trust = issuer{keys, func(_ context.Context, account string) error { return bus.update(account) }, announce}
	}
	nc, err := m.connect(ctx, url, opts)
	if err != nil {
		return err
	}
	defer nc.Close()
	return m.serve(ctx, nc, trust, info, open)
}

// own is the credential of this master in its own server. It is signed at every connection, by the keys of then.
func (m *Master) own(keys *keystore.Keys) (nats.Option, error) {
	key, err := credential.MakeKey()
	if err != nil {
		return nil, err
	}
	return nats.UserJWT(func() (string, error) { return keys.Issue(grants.RoleMaster, m.o.ID, key.Public(), 0) }, key.Sign), nil
}

// announce writes run.json, by which the command line on this host finds the bus.
func (m *Master) announce(keys *keystore.Keys, ca *pki.CA, url string) error {
	creds, err := keys.Creds(grants.RoleOperator, credential.LocalUser, 0)
	if err != nil {
		return err
	}
	file, err := filepath.Abs(ca.File())
	if err != nil {
		return fmt.Errorf("cannot tell where the certificates of the bus are: %w", err)
	}
	return api.WriteRunInfo(m.o.DataDir, api.RunInfo{URL: url, CA: file, Creds: string(creds), PID: os.Getpid()})
}

func (m *Master) forget() {
	if err := api.RemoveRunInfo(m.o.DataDir); err != nil {
		m.log.Warn("run.json not removed", "err", err)
	}
}

// connect waits for the bus. A publish that returned an error is never sent later by the connection's own buffer.
func (m *Master) connect(ctx context.Context, url string, opts []nats.Option) (*nats.Conn, error) {
	opts = append([]nats.Option{
		nats.Name("master " + m.o.ID),
		nats.CustomInboxPrefix(grants.RoleMaster.Inbox(m.o.ID)),
		nats.MaxReconnects(-1),
		nats.ReconnectBufSize(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // else the master itself has left
				m.log.Warn("bus is away", dial.LogError(err, m.o.CA)...)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { m.log.Info("bus is back") }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { m.log.Warn("bus", dial.LogError(err, m.o.CA)...) }),
		dial.CheckedBy(m.o.CA),
	}, opts...)
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		nc, err := nats.Connect(url, append(opts, dial.Encrypted())...)
		if err == nil {
			return nc, nil
		}
		err = dial.Explain(fmt.Errorf("cannot reach the bus at %s: %w", url, err), m.o.CA)
		if errors.Is(err, nats.ErrAuthorization) {
			return nil, err
		}
		m.log.Warn("waiting for the bus", dial.LogError(err, m.o.CA)...)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// serve provisions the bus and runs all services until ctx ends or one of them cannot go on.
func (m *Master) serve(ctx context.Context, nc *nats.Conn, trust issuer, info Info, open func(rest.Backend)) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	opening, opened := context.WithTimeout(ctx, openLimit)
	defer opened()
	if err := natsd.Provision(opening, js, m.o.Replicas); err != nil {
		return err
	}
	if err := natsd.ProvisionAudit(opening, js, m.o.Replicas, m.o.Audit); err != nil {
		return err
	}
	record := auditlog.Open(js, m.log)
	store, err := job.NewStore(opening, js)
	if err != nil {
		return err
	}
	skipped, err := store.Convert(opening)
	if err != nil {
		return err
	}
	for _, err := range skipped {
		m.log.Warn("job of an earlier version skipped", "err", err)
	}
	tokens, err := token.Open(opening, js)
	if err != nil {
		return err
	}
	users, err := user.Open(opening, js)
	if err != nil {
		return err
	}
	if announce := trust.rotated; announce != nil {
		trust.rotated = func() error {
			time.AfterFunc(time.Second, func() { _ = nc.ForceReconnect() }) // with the new keys, when the answer is out
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
	owner := heartbeat.Owner(m.o.ID, m.id.run)
	var server *apiserver.Server
	trimmer := quota.New(quota.Options{JetStream: js, Live: store.LiveIDs, Log: m.log})
	stored := &storage{js: js, bus: m.bus, key: m.o.ID, log: m.log}
	judge := judge{users, tokens, func(ctx context.Context, expr string) ([]target.PeelID, error) { return server.Select(ctx, expr) }}
	dispatcher, err := dispatch.New(dispatch.Options{
		Room: stored.room,
		Conn: nc, Store: store, Owner: owner, AckWindow: m.o.AckWindow, Audit: record, Log: m.log,
		Allow: judge.allow, CheckNotRevoked: judge.checkNotRevoked,
	})
	if err != nil {
		return err
	}
	beats := heartbeat.New(js, owner, heartbeat.Owner(m.o.ID, m.id.earlier), m.log)
	scanner := dispatch.NewScanner(dispatcher, beats)
	if err := beats.Enter(ctx); err != nil {
		return err
	}
	consumer := results.New(results.Options{JetStream: js, Store: store, Log: m.log})
	server = apiserver.New(apiserver.Options{
		JetStream: js, Store: store, Dispatch: dispatcher, Tokens: tokens, Users: users, Authority: authority, Audit: record, Fleet: fleet,
		Stored: stored.Err, Readable: judge.readable, Log: m.log,
	})
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { stored.run(ctx); return nil })
	g.Go(func() error { return fleet.Run(ctx) })
	if m.bus != nil {
		g.Go(func() error { m.followConnections(ctx, fleet); return nil })
	}
	if err := fleet.WaitReady(ctx); err != nil {
		return errors.Join(err, g.Wait())
	}
	if authority != nil {
		g.Go(func() error { return authority.Run(ctx) })
	}
	g.Go(func() error { return dispatcher.Run(ctx) })
	g.Go(func() error { return scanner.Run(ctx) })
	g.Go(func() error { return consumer.Run(ctx) })
	g.Go(func() error { return trimmer.Run(ctx) })
	g.Go(func() error { return server.Run(ctx) })
	open(rest.Backend{
		JetStream: js, Store: store, Tokens: tokens, Authority: authority, Audit: record, Questions: server,
		Dispatcher: dispatcher, Results: consumer, Scanner: scanner, Fleet: fleet, Trimmer: trimmer, Stored: stored.Err,
		Collectors: m.o.REST.Collectors,
	})
	for _, service := range m.o.Services {
		g.Go(func() error { return service(ctx, nc, fleet) })
	}
	if m.answers(ctx, nc, server) {
		m.log.Info("master is ready", "url", info.URL)
		if m.o.Ready != nil {
			m.o.Ready(info)
		}
	}
	return g.Wait()
}

// answers waits until every question that people ask of masters is answered, and reports whether that came before the
// end of ctx. It asks for nothing, and only where that leaves no trace.
func (m *Master) answers(ctx context.Context, nc *nats.Conn, server *apiserver.Server) bool {
	select {
	case <-ctx.Done():
		return false
	case <-server.Answering():
	}
	for _, subject := range []string{wire.Dispatch(m.o.ID), wire.Resolve(m.o.ID)} {
		for !answered(ctx, nc, subject) {
			select {
			case <-ctx.Done():
				return false
			case <-time.After(askAgain):
			}
		}
	}
	return ctx.Err() == nil
}

// answered reports whether anybody listens to a question; that it is refused is an answer.
func answered(ctx context.Context, nc *nats.Conn, subject string) bool {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	_, err := nc.RequestWithContext(ctx, subject, nil)
	return err == nil
}
