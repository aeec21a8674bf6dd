package otel_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/master/otel"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// A collector takes spans over HTTP. Its connections are pipes, so that time can be fake.
type collector struct {
	t     *testing.T
	conns chan net.Conn
	done  chan struct{}

	mu       sync.Mutex
	answer   http.HandlerFunc // nil: it takes everything
	requests []received
}

// A received is one request to a collector.
type received struct {
	at     time.Time
	path   string
	header http.Header
	body   []byte
	spans  []map[string]any
}

func newCollector(t *testing.T) *collector {
	c := &collector{t: t, conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: c}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(c) }()
	t.Cleanup(func() { _ = server.Close(); <-ended })
	return c
}

func (c *collector) Accept() (net.Conn, error) {
	select {
	case conn := <-c.conns:
		return conn, nil
	case <-c.done:
		return nil, net.ErrClosed
	}
}

func (c *collector) Close() error   { close(c.done); return nil }
func (c *collector) Addr() net.Addr { return &net.TCPAddr{} }

// transport connects to the collector.
func (c *collector) transport() *http.Transport {
	tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		select {
		case c.conns <- theirs:
			return ours, nil
		case <-c.done:
			return nil, net.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	return tr
}

// ServeHTTP records a request with its spans.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Error(err)
	}
	c.mu.Lock()
	answer := c.answer
	c.requests = append(c.requests, received{time.Now(), r.Method + " " + r.URL.Path, r.Header, body, spansIn(c.t, body)})
	c.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte("{}"))
}

// answers sets what the collector answers from now on; nil: success.
func (c *collector) answers(h http.HandlerFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = h
}

// got returns the requests since the last call.
func (c *collector) got() []received {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.requests
	c.requests = nil
	return all
}

// names returns the names of the spans of all requests since the last call.
func (c *collector) names() (names []string) {
	for _, r := range c.got() {
		for _, s := range r.spans {
			names = append(names, s["name"].(string))
		}
	}
	return names
}

func spansIn(t *testing.T, body []byte) (spans []map[string]any) {
	var request struct {
		ResourceSpans []struct {
			ScopeSpans []struct{ Spans []map[string]any }
		}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		t.Error(err)
	}
	for _, r := range request.ResourceSpans {
		for _, s := range r.ScopeSpans {
			spans = append(spans, s.Spans...)
		}
	}
	return spans
}

// A system is a bus in fake time with a collector and the peel web.01.
type system struct {
	t         *testing.T
	bus       *natstest.Bus
	js        jetstream.JetStream
	store     *job.Store
	collector *collector
	web       *nats.Conn
	log       log
}

// log is a log in memory.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func bubble(t *testing.T, f func(t *testing.T, s *system)) {
	t.Helper()
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		store, err := job.NewStore(t.Context(), js)
		if err != nil {
			t.Fatal(err)
		}
		f(t, &system{t: t, bus: b, js: js, store: store, collector: newCollector(t), web: b.Conn(t, grants.RolePeel, "web_01")})
	})
}

// exporter starts the exporter of a master. It ends with the test if stop is not called.
func (s *system) exporter(name string, change func(*otel.Options)) (e *otel.Exporter, stop func()) {
	s.t.Helper()
	o := otel.Options{URL: "http://localhost/v1/traces", Transport: s.collector.transport(), Log: slog.New(slog.NewTextHandler(&s.log, nil))}
	if change != nil {
		change(&o)
	}
	e, err := otel.New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	nc := s.bus.Conn(s.t, grants.RoleMaster, name, nats.ReconnectBufSize(-1))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx, nc) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("%s ended with %v", name, err)
		}
	})
	s.t.Cleanup(stop)
	synctest.Wait()
	return e, stop
}

// publish sends a message of the peel once its stream has it.
func (s *system) publish(subject string, v any) {
	s.t.Helper()
	if msg, err := s.web.Request(subject, encoded(s.t, v), 5*time.Second); err != nil || !strings.Contains(string(msg.Data), "stream") {
		s.t.Fatalf("the stream answered %v, %v", msg, err)
	}
}

// run publishes the report of a scheduled run, with the proof of its origin.
func (s *system) run(entry string, change func(*wire.ScheduledResult)) wire.ScheduledResult {
	s.t.Helper()
	now := time.Now()
	r := wire.ScheduledResult{
		JID: wire.NewJID(), Peel: "web.01", Entry: entry, Trigger: wire.TriggerTimer, Function: "cmd.run",
		Args: map[string]any{"command": "secret-argument"}, Result: wire.Result{Success: true, Data: "secret-output", Duration: time.Second},
		Nominal: now.Add(-4 * time.Second), Fired: now.Add(-3 * time.Second), Started: now.Add(-2 * time.Second), Finished: now.Add(-time.Second),
		Commit: "0123456789abcdef", Origin: "web/certs.yaml:7", Author: "Ada <ada@example.org>", V: wire.Version,
	}
	rollout, err := s.js.KeyValue(s.t.Context(), "rollout")
	if err != nil {
		s.t.Fatal(err)
	}
	key, err := settings.LoadProofKey(s.t.Context(), rollout)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Ran = settings.Ran(r.Function, r.Args)
	r.Proof = key.Prove(r.Peel, r.Entry, settings.Claim{Commit: r.Commit, File: r.Origin, Author: r.Author, Ran: r.Ran})
	if change != nil {
		change(&r)
	}
	s.publish(wire.ScheduledOf(r.JID, "web_01"), r)
	return r
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	data, err := canon.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// metric returns the value of a metric.
func metric(t *testing.T, e *otel.Exporter, name string) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(e)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Errorf("no %s in\n%s", name, w.Body)
	return ""
}

func headersFile(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return file
}
