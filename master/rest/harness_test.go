package rest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/apiserver"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/bus"
	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/master/quota"
	"github.com/seed-c01c3da5/zester/master/reach"
	"github.com/seed-c01c3da5/zester/master/rest"
	"github.com/seed-c01c3da5/zester/master/results"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

var quiet = slog.New(slog.DiscardHandler)

// A system is the bus, one master that is asked by HTTP, and the peels that a test adds. Time is fake, and connections
// are pipes.
type system struct {
	limited bool // callers read about the peels that rules show them
	t       *testing.T
	bus     *natstest.Bus
	js      jetstream.JetStream
	tokens  *token.Store
	backend rest.Backend
	log     lines
	client  *http.Client
	pipes   *pipes
	from    string        // the address that connections come from
	delay   time.Duration // of each new key of a job
	stop    func()        // ends the HTTP server
}

func bubble(t *testing.T, f func(t *testing.T, s *system)) {
	t.Helper()
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		s := &system{t: t, bus: b, from: "192.0.2.1:40000"}
		s.master("m1")
		s.serve()
		f(t, s)
	})
}

// master starts what a master does.
func (s *system) master(name string) {
	s.t.Helper()
	nc := s.bus.Conn(s.t, grants.RoleMaster, name, nats.ReconnectBufSize(-1))
	var err error
	must := func(e error) {
		s.t.Helper()
		if e != nil {
			s.t.Fatal(e)
		}
	}
	s.js, err = jetstream.New(nc)
	must(err)
	store, err := job.NewStore(s.t.Context(), late{s.js, &s.delay})
	must(err)
	s.tokens, err = token.Open(s.t.Context(), s.js)
	must(err)
	dispatcher, err := dispatch.New(dispatch.Options{Conn: nc, Store: store, Owner: name})
	must(err)
	fleet := fleet.New(nc, quiet)
	beats := bus.NewHeartbeat(s.js, name, "", quiet)
	scanner := dispatch.NewScanner(dispatcher, beats)
	must(beats.Enter(s.t.Context()))
	consumer := results.New(results.Options{JetStream: s.js, Store: store})
	table, err := coverage.New(coverage.Options{JetStream: s.js, Fleet: fleet})
	must(err)
	known, err := reach.Open(s.t.Context(), s.js, nil)
	must(err)
	s.backend = rest.Backend{
		Check:      known.Check,
		CheckWhole: func(context.Context, grants.Caller, access.Verb) error { return nil },
		Allow:      s.allow,
		Coverage:   table,
		JetStream:  s.js, Store: store, Tokens: s.tokens, Dispatcher: dispatcher, Results: consumer, Scanner: scanner, Fleet: fleet,
		Trimmer: quota.New(quota.Options{JetStream: s.js}),
		Questions: apiserver.New(apiserver.Options{
			JetStream: s.js, Store: store, Tokens: s.tokens, Fleet: fleet, Coverage: table, ID: name,
			Within: func(ctx context.Context, from grants.Caller) (access.Peels, error) {
				if !s.limited {
					return access.Peels{All: true}, nil
				}
				rules := known
				rules.Select = s.backend.Questions.Select
				return rules.Of(ctx, from)
			},
		}),
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{fleet.Run, dispatcher.Run, scanner.Run, consumer.Run, table.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				s.t.Errorf("%s ended with %v", name, err)
			}
		})
	}
	s.t.Cleanup(func() { cancel(); running.Wait() })
	must(fleet.WaitReady(s.t.Context()))
	<-table.Ready()
	synctest.Wait()
}

// allow checks the limits of a token, for all functions that a job runs.
func (s *system) allow(ctx context.Context, from grants.Caller, spec *job.Spec) error {
	name, _ := credential.TokenNameOf(from.User)
	for _, function := range catalogue.RunBy(spec.Function, spec.Args) {
		if err := s.tokens.Allow(ctx, name, function, spec.Targets, s.backend.Questions.Select); err != nil {
			return err
		}
	}
	return nil
}

// certificate is that of a master's own authority.
func certificate(t *testing.T) *tls.Config {
	t.Helper()
	ca, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return ca.Config()
}

// serve has the master asked over pipes.
func (s *system) serve() {
	s.t.Helper()
	server, err := rest.New(rest.Options{Listen: "127.0.0.1:0", TLS: certificate(s.t), Log: slog.New(slog.NewJSONHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		s.t.Fatal(err)
	}
	server.Open(s.backend)
	s.run(server)
}

func (s *system) run(server *rest.Server) {
	s.t.Helper()
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	s.pipes = l
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.ServePlain(ctx, l) }()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return l.dial(s.from) }}
	s.client = &http.Client{Transport: transport}
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("the server ended with %v", err)
		}
		transport.CloseIdleConnections()
	})
	s.t.Cleanup(s.stop)
}

// pipes is a listener of connections within the process.
type pipes struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// piped is a connection that comes from an address.
type piped struct {
	net.Conn
	from address
}

type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

func (p piped) RemoteAddr() net.Addr { return p.from }

func (p *pipes) dial(from string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- piped{theirs, address(from)}:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return address("pipe") }

// lines is a log in memory.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// with are the lines that hold all of the texts.
func (l *lines) with(texts ...string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
next:
	for line := range strings.Lines(l.text.String()) {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue next
			}
		}
		found = append(found, line)
	}
	return found
}

// token makes a token and returns its text.
func (s *system) token(q credential.TokenRequest) string {
	s.t.Helper()
	text, hash := credential.NewSecret(q.Name)
	q.Hash = hash
	if _, err := s.tokens.Create(s.t.Context(), q, "ann"); err != nil {
		s.t.Fatal(err)
	}
	return text
}

func (s *system) reader() string {
	return s.token(credential.TokenRequest{Name: "reader", Scopes: []credential.Scope{credential.ScopeRead}})
}

func (s *system) admin() string {
	return s.token(credential.TokenRequest{Name: "admin", Scopes: []credential.Scope{credential.ScopeAdmin}})
}

// peel tells facts and answers requests with on, which may be nil, each once.
func (s *system) peel(id target.PeelID, facts target.Facts, on func(nc *nats.Conn, r wire.Request)) *nats.Conn {
	s.t.Helper()
	nc := s.bus.Conn(s.t, grants.RolePeel, id.Wire())
	data, err := canon.Marshal(wire.Facts{Peel: id, Facts: facts, V: wire.Version})
	if err == nil {
		_, err = nc.Request(wire.Fact(id.Wire()), data, time.Second)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	known := map[wire.JID]bool{}
	if _, err := nc.Subscribe(wire.Cmd(id.Wire()), func(msg *nats.Msg) {
		if r, err := wire.DecodeRequest(msg); err == nil && on != nil && !known[r.JID] {
			known[r.JID] = true
			on(nc, r)
		}
	}); err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
	return nc
}

// say publishes what a peel has to say on a subject.
func say(nc *nats.Conn, subject string, v any) {
	data, err := canon.Marshal(v)
	if err == nil {
		err = nc.Publish(subject, data)
	}
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) { // the test is over
		panic(err)
	}
}

func ack(nc *nats.Conn, id target.PeelID, r wire.Request) {
	say(nc, wire.AckOf(r.JID, id.Wire()), wire.Ack{JID: r.JID, Peel: id, Epoch: r.Epoch, V: wire.Version})
}

func returns(nc *nats.Conn, id target.PeelID, r wire.Request, data any) {
	say(nc, wire.ReturnOf(r.JID, id.Wire()), wire.Return{
		JID: r.JID, Peel: id, Result: wire.Result{Success: true, Data: data}, Epoch: r.Epoch, V: wire.Version,
	})
}

// echo returns the arguments that it was given.
func echo(id target.PeelID) func(*nats.Conn, wire.Request) {
	return func(nc *nats.Conn, r wire.Request) {
		ack(nc, id, r)
		returns(nc, id, r, map[string]any{"function": r.Function, "args": r.Args, "id": r.ID})
	}
}

// An answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// ask sends a request with a token ("" for none) and a body (nil for none: a string as it is, others as JSON).
func (s *system) ask(token, method, path string, body any) answer {
	s.t.Helper()
	var reader io.Reader
	switch body := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(body)
	default:
		data, err := json.Marshal(body)
		if err != nil {
			s.t.Fatal(err)
		}
		reader = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, "http://master"+path, reader)
	if err != nil {
		s.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return s.do(req)
}

func (s *system) do(req *http.Request) answer {
	s.t.Helper()
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	s.checkLists(req, data)
	return answer{resp.StatusCode, resp.Header, data}
}

var isNull = regexp.MustCompile(`"([a-z_]+)":null`)

// checkLists has an error if an answer has null for a field that the document calls a list.
func (s *system) checkLists(req *http.Request, data []byte) {
	s.t.Helper()
	found := isNull.FindAllSubmatch(data, -1)
	if found == nil {
		return
	}
	lists := map[string]bool{}
	for _, schema := range s.document().schemas {
		properties, _ := schema.(object)["properties"].(object)
		for name, p := range properties {
			lists[name] = lists[name] || p.(object)["type"] == "array"
		}
	}
	for _, m := range found {
		if lists[string(m[1])] {
			s.t.Errorf("%s %s: null for a list: %.2000s", req.Method, req.URL, data)
		}
	}
}

// want reads an answer with that status as a T.
func want[T any](t *testing.T, a answer, status int) (v T) {
	t.Helper()
	if a.status != status {
		t.Fatalf("%d: %s; want %d", a.status, a.body, status)
	}
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	return v
}

// refused checks that an answer is a problem with that status whose detail holds a text.
func refused(t *testing.T, a answer, status int, detail string) {
	t.Helper()
	var p struct {
		Title, Detail string
		Status        int
		Errors        []struct{ Message, Location string }
	}
	if err := json.Unmarshal(a.body, &p); err != nil || a.status != status || p.Status != status || p.Title != http.StatusText(status) ||
		a.header.Get("Content-Type") != "application/problem+json" || !strings.Contains(string(a.body), detail) {
		t.Errorf("%d %s: %s; want %d and %q", a.status, a.header.Get("Content-Type"), a.body, status, detail)
	}
	if a.header.Get("X-Request-Id") == "" {
		t.Error("the answer names no request")
	}
}
