// Package rest is what programs ask a master over HTTP: the same questions and the same jobs as over the bus, for
// whoever has a bearer token.
//
// The order in which a request is judged is fixed. The token is checked first: one that is unknown or has ended is refused,
// and only such failures are limited for each address, so they lock out no valid token. Then a token that sends too many
// requests is refused, then one that lacks the scope that the route needs. Only then the request itself is read, and
// before a job is dispatched its function and every target are checked against the limits of the token. The user of a job is "token:<name>", whatever the request says. Tokens are read again all the time, also
// while events are streamed, so that one that was revoked opens nothing a second later.
//
// Everything that comes in is bounded: headers, bodies, times, requests of a token, streams of events, connections in all
// and from one address. A connection on which no valid token came has shorter times, and makes room for a new one.
// Whatever goes wrong is answered with a problem of RFC 9457, and every answer names the ID under which the request is
// in the log. [Server.Document] is made from the handlers' types.
//
// The listener speaks TLS 1.3, on loopback as elsewhere: any user of a host can listen on a port that the master has
// left, and would be sent tokens.
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
	"github.com/seed-c01c3da5/zester/master/auditlog"
	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/feed"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/quota"
	"github.com/seed-c01c3da5/zester/master/results"
)

// Limits of what comes in.
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

// Options say where a Server listens.
type Options struct {
	Listen string       // HOST:PORT; port 0: one that the kernel chooses
	TLS    *tls.Config  // has a certificate
	Hooks  http.Handler // answers /hooks/{name}; nil: there are none
	Log    *slog.Logger // nil: nothing is logged
}

// A Backend is what answers, on the connection of a master.
type Backend struct {
	JetStream  jetstream.JetStream
	Store      *job.Store
	Tokens     *token.Store
	Authority  *auth.Authority // nil: nobody is enrolled here
	Audit      *auditlog.Log   // nil: nothing is kept
	Questions  *apiserver.Server
	Dispatcher *dispatch.Dispatcher
	Results    *results.Consumer
	Scanner    *dispatch.Scanner
	Fleet      *feed.Feed
	Trimmer    *quota.Trimmer
	Collectors []prometheus.Collector // further metrics
	Stored     func() error           // why the bus stores nothing now; nil: it is not watched
}

// A Server answers over HTTP. Make it with [New] and call Run once. Until Open is called it only says that it is alive.
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

// Open has requests answered from a backend from now on.
func (s *Server) Open(b Backend) { s.answer(s.open(b)) }

func (s *Server) answer(h http.Handler) { s.handler.Store(&h) }

// Run listens and serves until ctx ends; requests that are being worked on then have 5 s. An error means that it
// could not listen.
func (s *Server) Run(ctx context.Context) error {
	l, err := net.Listen("tcp", s.o.Listen)
	if err != nil {
		return fmt.Errorf("cannot serve REST: %w", err)
	}
	s.log.Info("REST is served", "listen", l.Addr().String())
	return s.Serve(ctx, l)
}

// Serve is Run with a listener of TCP, which it closes.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return s.serveBy(ctx, l, func(srv *http.Server, l net.Listener) error { return srv.ServeTLS(l, "", "") })
}

func (s *Server) serveBy(ctx context.Context, l net.Listener, serve func(*http.Server, net.Listener) error) error {
	bounds := newConnections(maxConnections, maxConnectionsEach, s.log)
	srv := &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       untestedReadTime,
		WriteTimeout:      writeTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		TLSConfig:         s.o.TLS,
		ConnState:         bounds.onState,
		ConnContext:       withConnection,
	}
	l = bounds.listen(l)
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

// serve gives a request its ID and whoever asks a problem if the handler panics.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	id := requestID(r)
	h := w.Header()
	h.Set("X-Request-Id", id)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("request panicked", "request", id, "method", r.Method, "path", r.URL.Path, "err", v)
			panic(http.ErrAbortHandler)
		}
		s.log.Debug("request", "request", id, "method", r.Method, "path", r.URL.Path, "from", r.RemoteAddr, "took", time.Since(began))
	}()
	(*s.handler.Load()).ServeHTTP(w, r.WithContext(withRequest(r.Context(), id)))
}

// closed answers while there is no backend.
func closed() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", alive)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		problem(w, http.StatusServiceUnavailable, "the master has not reached its bus yet")
	})
	return mux
}
