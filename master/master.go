// Package master runs one master: the embedded bus, the index of the fleet, the dispatcher, the consumer of scheduled
// results, the verdicts on schedules, the API and REST. Call [New], then [Master.Run].
//
// Guarantees: all state is in the buckets and streams of the bus, so any number of masters may run, and another one
// continues the jobs of a master that stops. With Options.NATS a master uses an external server or cluster and embeds
// none.
//
// Known gap: an embedded bus is away while its master is.
package master

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
	"github.com/seed-c01c3da5/zester/master/backup"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/login"
	"github.com/seed-c01c3da5/zester/master/mcp"
	"github.com/seed-c01c3da5/zester/master/rest"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/master/session"
	"github.com/seed-c01c3da5/zester/peel/dial"
)

// embedded is the URL of the connection to the embedded server, which uses no socket.
const embedded = "nats://embedded"

// How a master checks that the bus has its subscriptions, before it is ready.
const (
	flushLimit = 5 * time.Second
	flushAgain = 5 * time.Millisecond
)

// The defaults of [Options].
const (
	DefaultAckWindow = dispatch.DefaultAckWindow
)

// openLimit bounds how long a master waits for its buckets and streams. The bus is busy while a large fleet reconnects,
// and a master that ended then would end its embedded server too, so that all would reconnect again.
const openLimit = time.Minute

// A Service runs in a master, with its connection and its view of the fleet, until ctx ends. The reconciler is one; so
// neither package imports the other.
type Service func(ctx context.Context, nc *nats.Conn, fleet *fleet.Fleet) error

// Options are the options of a Master.
type Options struct {
	ID      string           // unique among masters: a credential's name
	DataDir string           // keys, the embedded server's store and run.json; made with mode 0700
	Signer  *keystore.Signer // has keys that are not in DataDir; nil: there are none
	Host    string           // where the embedded server listens; empty: 127.0.0.1
	Port    int              // of the embedded server; 0: the kernel chooses
	Names   []string         // by which peels on other hosts reach the embedded server, beside the host's own
	NATS    string           // URL of an external server; empty: the embedded one
	CA      string           // file with the certificates by which the external server is checked, see [dial.CheckedBy]
	// file with this master's credential for the external server, which the master renews; empty: Connect has it
	Creds   string
	Connect []nats.Option
	// of buckets and streams on a new bus; 0: 1. On another bus a master with another number ends; 0: as it has
	Replicas int
	Audit    time.Duration // how long the audit log is kept, decided as Replicas is; 0: 400 days on a new bus
	// AckWindow is how long a target may be silent before it gets its request again, once: 0 means
	// [DefaultAckWindow], a negative one that it does not.
	AckWindow time.Duration
	REST      REST
	Services  []Service
	Alerts    Alerts
	Ready     func(Info) // called once, when requests are answered; Services may still be starting
	// Metrics are of requests, also of those that the Services reply to. If nil, the master makes them.
	Metrics *service.Metrics
	Config  api.ConfigFile // for run.json; zero: there is none
	Log     *slog.Logger
}

// REST are the options of the HTTP API. The zero value serves none.
type REST struct {
	Listen string // HOST:PORT
	// Cert and Key are files. Without them the certificate is signed by the data directory's authority.
	Cert, Key string
	Hooks     http.Handler // answers /hooks/{name} once the bus is reached; nil: there are none
	MCP       *mcp.Options // of /mcp, for assistants, without the caller; nil: it is not served
	// Collectors are metrics of the Services, which /metrics shows beside those of the master.
	Collectors []prometheus.Collector
	PerPeel    bool // the gauges of entries have a label for each peel
	Console    Console
}

// Console are the options of the pages for browsers, which are served where REST is. The zero value serves them.
type Console struct {
	Off      bool
	Fleet    string         // the name of the fleet on pages; empty: zester
	Host     string         // HOST or HOST:PORT for browsers, beside the names of the certificate; empty: none
	Zone     *time.Location // of times on pages; nil: UTC
	Proxies  []netip.Prefix // whose X-Forwarded-For is believed
	Sessions session.Options
	Login    *login.Provider // where people log in; nil: nowhere
}

// Info describes a master that is ready.
type Info struct {
	URL string
	// connects to the embedded server without a socket; nil: the server is external
	InProcess nats.InProcessConnProvider
}

// A Master is one master. Make it with [New] and call Run once.
type Master struct {
	o       Options
	log     *slog.Logger
	ca      func() (*pki.CA, error) // the one authority of all listeners
	id      *identity               // set by Run
	bus     *ownBus                 // set by Run; nil: the server is elsewhere
	address string                  // HOST:PORT of REST, set by Run; empty: it is not served
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
	if o.Metrics == nil {
		o.Metrics = service.NewMetrics()
	}
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
	err := backup.CheckWhole(m.o.DataDir)
	if err != nil {
		return err
	}
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
	listener, err := web.Listen()
	if err != nil {
		return err
	}
	m.address = m.reachable(listener.Addr())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return web.Serve(ctx, listener) })
	g.Go(func() error { return m.run(ctx, web.Open) })
	return g.Wait()
}

// run connects to the bus and serves. It calls open once, when there is a backend for REST.
func (m *Master) run(ctx context.Context, open func(rest.Backend)) error {
	url, opts, info := m.o.NATS, m.o.Connect, Info{URL: m.o.NATS}
	var trust issuer
	if url != "" {
		var err error
		if trust, err = m.externalIssuer(); err != nil {
			return err
		}
		if m.o.Creds != "" {
			opts = append([]nats.Option{nats.UserCredentials(m.o.Creds)}, opts...)
		}
	} else {
		keys, err := keystore.OpenWith(keystore.Dir(m.o.DataDir), m.o.Signer)
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

// own returns the credential of this master for its embedded server. It is signed again for a connection only if
// servers no longer accept the last one, so that a program with the keys that hangs does not take the bus from its
// master.
func (m *Master) own(keys *keystore.Keys) (nats.Option, error) {
	key, err := credential.MakeKey()
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	last := ""
	sign := func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		_, err := keys.Check(grants.RoleMaster, last)
		if _, revoked := keys.Revoked(grants.RoleMaster)[key.Public()]; err == nil && !revoked {
			return last, nil
		}
		token, err := keys.Issue(grants.RoleMaster, m.o.ID, key.Public(), 0)
		if err == nil {
			last = token
		}
		return token, err
	}
	return nats.UserJWT(sign, key.Sign), nil
}

// announce writes run.json, where the command line on this host finds the address of the bus.
func (m *Master) announce(keys *keystore.Keys, ca *pki.CA, url string) error {
	creds, err := keys.Creds(grants.RoleOperator, credential.LocalUser, 0)
	if err != nil {
		return err
	}
	file, err := filepath.Abs(ca.File())
	if err != nil {
		return fmt.Errorf("cannot find the certificates of the bus: %w", err)
	}
	return api.WriteRunInfo(m.o.DataDir, api.RunInfo{
		URL: url, CA: file, Creds: string(creds), PID: os.Getpid(), Config: m.o.Config,
	})
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
		dial.Pinged(dial.ServicePing),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // else the master itself has left
				m.log.Warn("bus is away", dial.LogError(err, m.o.CA)...)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { m.log.Info("bus is back") }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			m.log.Warn("bus", dial.LogError(err, m.o.CA)...)
		}),
		dial.CheckedBy(m.o.CA),
	}, opts...)
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		nc, err := nats.Connect(url, append(opts, dial.Encrypted())...)
		if err == nil {
			return nc, nil
		}
		err = dial.Explain(fmt.Errorf("cannot reach the bus at %s: %w", url, err), m.o.CA)
		if dial.Refusal(err) != nil {
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
