// Package rest serves the HTTP API of a master to programs with a bearer token. Call [New], then [Server.Serve], and
// [Server.Open] once the master is connected to the bus.
//
// A request is checked in a fixed order. First the token: an unknown or ended one is refused, and only these failures
// are limited for each address, so they lock out no valid token. Then the number of requests of the token, then the
// scope of the route. Only then the request itself is read, and before a job is dispatched its function and every
// target are checked against the limits of the token. The user of a job is "token:<name>", whatever the request says.
//
// Guarantees: a revoked token opens nothing a second later, open streams of events included; headers, bodies, times,
// requests, streams and connections are bounded; every error is a problem of RFC 9457, and every answer has the ID
// under which the request is logged. [Server.Document] is made from the types of the handlers. The listener speaks TLS
// 1.3, on loopback too: any user of the host can listen on a port that the master has left, and would receive tokens.
package rest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-c01c3da5/zester/master/apiserver"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/mcp"
	"github.com/seed-c01c3da5/zester/master/quota"
	"github.com/seed-c01c3da5/zester/master/rest/bounds"
	"github.com/seed-c01c3da5/zester/master/results"
)

// Limits of requests and connections.
const (
	maxConnections     = 1024
	maxConnectionsEach = 128      // of one address
	maxHeader          = 16 << 10 // bytes
	maxBody            = 1 << 20  // bytes
	headerTime         = 5 * time.Second
	bodyTime           = 5 * time.Second
	untestedReadTime   = headerTime + bodyTime // for a whole request, until its token is found valid
	untestedIdleTime   = 5 * time.Second       // between requests, until one of them has a valid token
	answerTime         = 30 * time.Second      // to work on a request that is no stream
	writeTime          = 60 * time.Second
	idleTime           = 2 * time.Minute
	stopGrace          = 5 * time.Second
)

// Options are the options of a Server.
type Options struct {
	Listen string       // HOST:PORT; port 0: one that the kernel chooses
	Host   string       // a name by which browsers reach the console, beside those of the certificate; empty: none
	TLS    *tls.Config  // has a certificate
	Hooks  http.Handler // answers /hooks/{name}; nil: there are none
	MCP    *mcp.Options // of /mcp, without the caller; nil: assistants are not served
	Log    *slog.Logger // nil: nothing is logged
}

// A Backend has the services of a master that is connected to the bus.
type Backend struct {
	JetStream jetstream.JetStream
	Store     *job.Store
	Tokens    *token.Store
	Authority *auth.Authority // nil: this master has no keys and enrolls no peels
	Audit     *audit.Log      // nil: nothing is logged
	Questions *apiserver.Server
	// Check returns [grants.ErrNotAllowed] with the reason if a token may not send masters a request, and Allow if it
	// may not dispatch a job.
	Check func(ctx context.Context, from grants.Caller, verb access.Verb) error
	// CheckWhole returns [grants.ErrNotAllowed] if a token may not read about all peels.
	CheckWhole func(ctx context.Context, from grants.Caller, verb access.Verb) error
	Allow      func(ctx context.Context, from grants.Caller, spec *job.Spec) error
	Dispatcher *dispatch.Dispatcher
	Results    *results.Consumer
	Scanner    *dispatch.Scanner
	Fleet      *fleet.Fleet
	Trimmer    *quota.Trimmer
	Coverage   *coverage.Table
	Collectors []prometheus.Collector // further metrics
	Console    http.Handler           // answers all other paths; nil: there are no pages
	Stored     func() error           // returns an error while the bus stores nothing; nil: not checked
}

// A Server serves the HTTP API. Make it with [New] and call Serve once. Until Open is called it answers /healthz only.
type Server struct {
	o       Options
	log     *slog.Logger
	handler atomic.Pointer[http.Handler]
	stop    chan struct{} // closed when streams are to end
}

// New checks the options. It starts nothing.
func New(o Options) (*Server, error) {
	_, port, err := net.SplitHostPort(o.Listen)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot serve REST on %q: want HOST:PORT: %w", o.Listen, err)
	}
	if o.TLS == nil {
		return nil, fmt.Errorf("cannot serve REST on %q without a certificate", o.Listen)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{o: o, log: o.Log, stop: make(chan struct{})}
	s.answer(closed())
	return s, nil
}

// Open makes the server answer requests with a backend.
func (s *Server) Open(b Backend) { s.answer(s.open(b)) }

func (s *Server) answer(h http.Handler) { s.handler.Store(&h) }

// Listen listens on the address of the options.
func (s *Server) Listen() (net.Listener, error) {
	l, err := net.Listen("tcp", s.o.Listen)
	if err != nil {
		return nil, fmt.Errorf("cannot serve REST: %w", err)
	}
	s.log.Info("REST is served", "listen", l.Addr().String())
	return l, nil
}

// Serve serves on a TCP listener, which it closes, until ctx ends; requests in progress then have 5 s.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return s.serveBy(ctx, l, func(srv *http.Server, l net.Listener) error { return srv.ServeTLS(l, "", "") })
}

func (s *Server) serveBy(ctx context.Context, l net.Listener, serve func(*http.Server, net.Listener) error) error {
	open := bounds.NewConnections(maxConnections, maxConnectionsEach, untestedIdleTime, s.log)
	srv := &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       untestedReadTime,
		WriteTimeout:      writeTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		TLSConfig:         s.o.TLS,
		ConnState:         open.OnState,
		ConnContext:       bounds.WithConnection,
	}
	l = open.Listen(l)
	ended := make(chan error, 1)
	go func() { ended <- serve(srv, l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("cannot serve REST: %w", err)
	case <-ctx.Done():
	}
	close(s.stop)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil {
		_ = srv.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cannot serve REST: %w", err)
	}
	return nil
}

// serve gives a request its ID. If the handler panics, it logs that and aborts the connection.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	id := bounds.RequestID(r)
	h := w.Header()
	h.Set("X-Request-Id", id)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("request panicked", "request", id, "method", r.Method, "path", r.URL.Path, "err", v)
			panic(http.ErrAbortHandler)
		}
		s.log.Debug("request", "request", id, "method", r.Method, "path", r.URL.Path, "from", r.RemoteAddr,
			"took", time.Since(began))
	}()
	(*s.handler.Load()).ServeHTTP(w, r.WithContext(withRequest(r.Context(), id)))
}

// closed returns the handler until Open is called.
func closed() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", alive)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		problem(w, http.StatusServiceUnavailable, "the master has not reached its bus yet")
	})
	return mux
}
