package alert_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/alert"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

// A pipes is a listener without sockets, as sockets would stop fake time.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// A desk is a web server that receives alerts.
type desk struct {
	mu       sync.Mutex
	told     []string // of a CloudEvent its path, phase and subject; of another request its path
	bodies   []string
	status   int // of answers; 0: the desk accepts messages
	after    string
	arrives  func(path string) // called before a message is accepted
	requests int
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	d.mu.Lock()
	arrives, status, after := d.arrives, d.status, d.after
	d.requests++
	d.mu.Unlock()
	if arrives != nil {
		arrives(r.URL.Path)
	}
	if after != "" {
		w.Header().Set("Retry-After", after)
	}
	if status != 0 {
		w.WriteHeader(status)
		return
	}
	var event struct{ Type, Subject string }
	line := r.URL.Path
	if json.Unmarshal(body, &event) == nil && event.Type != "" {
		line += " " + strings.TrimPrefix(event.Type, "zester.alert.") + " " + event.Subject
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told, d.bodies = append(d.told, line), append(d.bodies, string(body))
}

func (d *desk) answers(status int, after string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status, d.after = status, after
}

// when makes the desk call f before it accepts a message; nil ends that.
func (d *desk) when(f func(path string)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.arrives = f
}

// take returns the lines of told since the last call.
func (d *desk) take() (told []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	told, d.told = d.told, nil
	return told
}

// read returns the bodies since the last call of forget.
func (d *desk) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.bodies)
}

func (d *desk) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bodies = nil
}

func (d *desk) asked() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.requests
}

// A bench has a bus, the problems of a fleet, a reconciler that replies, and receivers.
type bench struct {
	t         *testing.T
	bus       *natstest.Bus
	js        jetstream.JetStream
	desk      *desk
	transport *http.Transport
	log       sharedLog
	receivers []*notify.Receiver
	pings     []*notify.PingService

	mu       sync.Mutex
	problems []verdict.Problem
	output   func(ctx context.Context, entry string, peel target.PeelID) (notify.Output, error)
	cause    func(verdict.Kind, string) cause.Finding // nil: no commit is known
	health   verdict.Health
	sync     status.Sync
	runs     []verdict.Run
	readable map[string][]target.PeelID
}

// inBubble runs f with one receiver: the webhook ops.
func inBubble(t *testing.T, f func(b *bench)) {
	t.Helper()
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		b := &bench{
			t: t, bus: bus, js: bus.JetStream(t), desk: &desk{}, health: verdict.Health{Ready: true},
			transport: &http.Transport{DialContext: p.dial, DisableKeepAlives: true},
		}
		server := &http.Server{Handler: b.desk}
		go func() { _ = server.Serve(p) }()
		t.Cleanup(func() { _ = server.Close() })
		b.receive(notify.ReceiverOptions{Name: "ops", Provider: notify.ReceiverWebhook, URL: "http://desk.example/ops"})
		reconciler := bus.Conn(t, grants.RoleMaster, "reconciler")
		if _, err := reconciler.Subscribe(wire.API("sync", "status", "*"), func(m *nats.Msg) {
			b.mu.Lock()
			defer b.mu.Unlock()
			data, _ := canon.Marshal(b.sync)
			_ = m.Respond(data)
		}); err != nil {
			t.Fatal(err)
		}
		f(b)
	})
}

// receive adds a receiver.
func (b *bench) receive(o notify.ReceiverOptions) {
	b.t.Helper()
	o.Transport = b.transport
	r, err := notify.NewReceiver(o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.receivers = append(b.receivers, r)
}

// check adds a service, checks, that is pinged for the entries with names that begin with backup.
func (b *bench) check() {
	b.t.Helper()
	s, err := notify.NewPinger(notify.PingOptions{Name: "checks", To: outbound.Address{URL: "http://desk.example/hc"}, Entries: "backup*", Transport: b.transport})
	if err != nil {
		b.t.Fatal(err)
	}
	b.pings = append(b.pings, s)
}

// ran replaces the newest runs: one of each entry on the peel db-1, which has ended now.
func (b *bench) ran(entries ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runs = nil
	for _, entry := range entries {
		b.runs = append(b.runs, verdict.Run{Entry: entry, Peel: "db-1", Started: time.Now().Add(-time.Minute), Ended: time.Now()})
	}
}

// rules stores rules as the reconciler does. Without arguments it removes them.
func (b *bench) rules(rules ...policy.Alert) {
	b.t.Helper()
	kv, err := b.js.KeyValue(b.t.Context(), "rollout")
	if err != nil {
		b.t.Fatal(err)
	}
	_, revision, err := policy.LoadAlerts(b.t.Context(), kv)
	if err == nil {
		_, err = policy.PublishAlerts(b.t.Context(), kv, rules, revision)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// A master is a running engine with its connection.
type master struct {
	conn *nats.Conn
	stop func()
}

// start starts the engine of a master.
func (b *bench) start(name string) *master {
	b.t.Helper()
	log := slog.New(slog.NewTextHandler(&b.log, nil))
	nc := b.bus.Conn(b.t, grants.RoleMaster, name, nats.ReconnectBufSize(-1))
	js, err := jetstream.New(nc)
	if err != nil {
		b.t.Fatal(err)
	}
	fleet := fleet.New(nc, log)
	call, err := notify.NewReceiverCall(outbound.Address{URL: "http://desk.example/alive"}, b.transport)
	if err != nil {
		b.t.Fatal(err)
	}
	engine := alert.New(alert.Options{
		Conn: nc, Fleet: fleet, Owner: name, Receivers: b.receivers, Alive: call, Audit: audit.OpenLog(js, log), Log: log, Stored: func() error { return nil },
		Problems: func() []verdict.Problem { b.mu.Lock(); defer b.mu.Unlock(); return slices.Clone(b.problems) },
		Cause: func(kind verdict.Kind, entry string) cause.Finding {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.cause == nil {
				return cause.Finding{Word: cause.None}
			}
			return b.cause(kind, entry)
		},
		Output: func(ctx context.Context, entry string, peel target.PeelID) (notify.Output, error) {
			b.mu.Lock()
			read := b.output
			b.mu.Unlock()
			if read == nil {
				return notify.Output{}, nil
			}
			return read(ctx, entry, peel)
		},
		Pings: b.pings,
		Runs: func(match func(string) bool) []verdict.Run {
			b.mu.Lock()
			defer b.mu.Unlock()
			return slices.DeleteFunc(slices.Clone(b.runs), func(r verdict.Run) bool { return !match(r.Entry) })
		},
		Health: func() verdict.Health { b.mu.Lock(); defer b.mu.Unlock(); return b.health },
		Within: func(_ context.Context, from grants.Caller) (access.Peels, error) {
			peels, limited := b.readable[from.User]
			return access.Peels{All: !limited, IDs: peels}, nil
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = fleet.Run(ctx) })
	running.Go(func() { _ = engine.Run(ctx) })
	m := &master{conn: nc, stop: func() { cancel(); running.Wait() }}
	b.t.Cleanup(m.stop)
	return m
}

// trouble replaces the problems.
func (b *bench) trouble(all ...verdict.Problem) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = all
}

func (b *bench) set(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

func failed(entry string, peels ...target.PeelID) (all []verdict.Problem) {
	for _, p := range peels {
		all = append(all, verdict.Problem{Kind: verdict.Failed, Entry: entry, Peel: p, Text: "exit code 3"})
	}
	return all
}

func (b *bench) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// was checks the lines that the desk was told since the last check, in any order, without the calls of the dead man's switch.
func (b *bench) was(want ...string) {
	b.t.Helper()
	told := slices.DeleteFunc(b.desk.take(), func(s string) bool { return s == "/alive" })
	slices.Sort(told) // several receivers are told at the same time
	if slices.Sort(want); !slices.Equal(told, want) {
		b.t.Errorf("told %q, want %q\n%s", told, want, b.log.String())
	}
}

// ask sends a request of a user with a role, and returns the text of the refusal; empty if there is none.
func (b *bench) ask(role grants.Role, name, verb string, question, answer any) (refusal string) {
	b.t.Helper()
	nc := b.bus.Conn(b.t, role, name)
	defer nc.Close()
	data, err := canon.Marshal(question)
	if err != nil {
		b.t.Fatal(err)
	}
	msg, err := nc.Request(wire.API("alert", verb, name), data, 30*time.Second)
	if err != nil {
		b.t.Fatal(fmt.Errorf("%s: %w", verb, err))
	}
	if err := api.ReplyError(msg); err != nil {
		return err.Error()
	}
	if err := canon.Unmarshal(msg.Data, answer); err != nil {
		b.t.Fatal(err)
	}
	return ""
}

func (b *bench) list() (a api.AlertsAnswer) {
	b.t.Helper()
	if refusal := b.ask(grants.RoleOperator, "ann", "list", api.AlertsRequest{Ended: true}, &a); refusal != "" {
		b.t.Fatal(refusal)
	}
	return a
}

func (b *bench) status() (s api.AlertStatus) {
	b.t.Helper()
	if refusal := b.ask(grants.RoleAuditor, "aud", "status", nil, &s); refusal != "" {
		b.t.Fatal(refusal)
	}
	return s
}

// A sharedLog has the logs of several masters.
type sharedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *sharedLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *sharedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
