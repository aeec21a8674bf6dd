package fleet

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// fleet is a bus with a feed on it, in a bubble.
type fleet struct {
	*testing.T
	bus   *natstest.Bus
	js    jetstream.JetStream
	peels map[string]*nats.Conn
	logs  *logBuffer
}

func bubble(t *testing.T, f func(t *fleet)) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		f(&fleet{T: t, bus: b, js: b.JetStream(t), peels: map[string]*nats.Conn{}, logs: &logBuffer{}})
	})
}

// start runs a feed until the test ends or stop is called.
func (t *fleet) start() (f *Fleet, stop func()) {
	f = New(t.bus.Conn(t, grants.RoleMaster, "m1"), slog.New(slog.NewTextHandler(t.logs, nil)))
	return f, t.run(f)
}

// run runs a feed until the test ends or stop is called, and returns when it is ready.
func (t *fleet) run(f *Fleet) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	stop = func() {
		cancel()
		if err, ok := <-done; ok && err != nil {
			t.Errorf("Run: %v", err)
		}
		done = closed
	}
	t.Cleanup(func() { stop() })
	t.ready(f)
	return stop
}

var closed = func() chan error { c := make(chan error); close(c); return c }()

func (t *fleet) ready(f *Fleet) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := f.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
}

func (t *fleet) conn(w string) *nats.Conn {
	if t.peels[w] == nil {
		t.peels[w] = t.bus.Conn(t, grants.RolePeel, w)
	}
	return t.peels[w]
}

// say publishes as the peel of that wire ID, and waits until all is quiet.
func (t *fleet) say(w string, m *nats.Msg) {
	t.Helper()
	nc := t.conn(w)
	if err := nc.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	t.flush(nc)
}

// flush waits until the bus and the feed have dealt with what nc sent. Flush
// without a context would take a timer from another test's bubble.
func (t *fleet) flush(nc *nats.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := nc.FlushWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func (t *fleet) facts(id target.PeelID, facts target.Facts) {
	t.Helper()
	t.say(id.Wire(), message(t, id.Wire(), wire.Facts{Peel: id, Facts: facts, V: wire.Version}))
}

func message(t testing.TB, w string, v any) *nats.Msg {
	t.Helper()
	data, err := canon.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return &nats.Msg{Subject: wire.Fact(w), Data: data}
}

func (t *fleet) purge(id target.PeelID) {
	t.Helper()
	s, err := t.js.Stream(t.Context(), wire.StreamFacts)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context(), jetstream.WithPurgeSubject(wire.Fact(id.Wire()))); err != nil {
		t.Fatal(err)
	}
}

func (t *fleet) want(f *Fleet, want ...target.PeelID) {
	t.Helper()
	if got := f.Index().IDs(); !slices.Equal(got, want) {
		t.Errorf("the index holds %v, want %v", got, want)
	}
}

// A logBuffer has the logs of several masters.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
