// Package natstest runs the real bus for a test: the embedded server with JetStream on files, with authentication and
// with all buckets and streams.
//
// Call [Bubble] for a test with fake time: expiries, heartbeats, retention and reconnects then take no real time, and
// the server has no sockets. Call [Listen] for a test that needs sockets, and [ListenCluster] for one that stops
// servers of a cluster. Connections are closed when the test ends, inside the bubble. A refused publish or subscription
// fails the test, because the code under test would not notice it; to test a refusal, set an error handler.
package natstest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	_ "github.com/nats-io/nats-server/v2/server/ats" // tick sets its clock
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/natsd"
)

// Bus is a running server and the keys that it trusts.
type Bus struct {
	Keys *keystore.Keys

	t    testing.TB
	opts natsd.Options
	ca   *pki.CA // signs the certificate of a bus with sockets; nil in a bubble

	mu    sync.Mutex
	srv   *natsd.Server // nil while stopped
	conns []net.Conn    // in a bubble: the connections to srv
	url   string
	ended bool // the test has ended: errors must not be reported
}

// gcPercent is the growth of the heap between two garbage collections in a bubble. The heap is small and most of it
// belongs to the server until the end; at the default of 100 a fifth of the time of a test was spent in collections.
const gcPercent = 400

// began is the time at which a bubble begins. The fake clock itself begins in 2000, before the first possible job ID.
var began = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// Bubble runs f in a synctest bubble with a bus of its own. Everything that f starts must end when f returns and its
// cleanups have run, else the test fails. Cleanups close the connections first, then the server. Bubbles of one process
// run one after the other; a parallel test must not use NATS in real time meanwhile.
func Bubble(t *testing.T, f func(t *testing.T, b *Bus)) {
	t.Helper()
	BubbleAt(t, began, f)
}

// BubbleAt is [Bubble] at another time of the fake clock, which must be later.
func BubbleAt(t *testing.T, at time.Time, f func(t *testing.T, b *Bus)) {
	t.Helper()
	dir := shortLived(t)
	bubble.Lock()
	defer bubble.Unlock()
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	dropTimers()
	defer dropTimers()
	takeAccessTime(t)
	defer accessTimeUsers.Add(-1)
	defer func(stats, conns time.Duration) { statsInterval, connsInterval = stats, conns }(statsInterval, connsInterval)
	statsInterval, connsInterval = neverInBubble, neverInBubble
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(at))
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(func() { // runs after the end of the server, whose cleanup is added later
			cancel()
			time.Sleep(time.Second) // the client checks every 100 ms whether a subscription is drained
		})
		go tick(ctx)
		f(t, start(t, dir, natsd.Options{DontListen: true}))
	})
}

// statsInterval is how often a server publishes its statistics in the system account.
//
//go:linkname statsInterval github.com/nats-io/nats-server/v2/server.statsHBInterval
var statsInterval time.Duration

// connsInterval is how often it publishes there the number of connections of each account.
//
//go:linkname connsInterval github.com/nats-io/nats-server/v2/server.eventsHBInterval
var connsInterval time.Duration

// neverInBubble is longer than a bubble lasts. Both messages are for other servers of a cluster, and a bubble has one
// server. At the usual 10 s and 30 s they took a fifth of the CPU time of a test that lasts hours.
const neverInBubble = 10_000 * time.Hour

// The stores of the server expire messages by a clock of the process, which a goroutine of the server sets. In a bubble
// that goroutine would either freeze fake time or set real time, by which all messages of the bubble have expired. So
// the bubble counts as an earlier user of the clock, which keeps the goroutine from starting, and [tick] sets the
// clock.
//
//go:linkname accessTimeUsers github.com/nats-io/nats-server/v2/server/ats.refs
var accessTimeUsers atomic.Int64

//go:linkname accessTime github.com/nats-io/nats-server/v2/server/ats.utime
var accessTime atomic.Int64

// accessTimeEnds has one token from the request to end the goroutine until it has ended.
//
//go:linkname accessTimeEnds github.com/nats-io/nats-server/v2/server/ats.done
var accessTimeEnds chan struct{}

// takeAccessTime makes the bubble the only user of the clock. Stores of servers of earlier tests, in real time, may end
// shortly after their server has; if the bubble counted as a further user before that, the goroutine would go on.
func takeAccessTime(t *testing.T) {
	t.Helper()
	for limit := time.Now().Add(settleWait); !accessTimeUsers.CompareAndSwap(0, 1); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("a server of another test still runs in real time")
		}
	}
	for len(accessTimeEnds) > 0 {
		time.Sleep(time.Millisecond)
	}
}

// tickOffset keeps the ticks away from round times, at which tests often write. The stores compare their clock with the
// exact time of their last write, and check again after the difference. For a write some nanoseconds after a tick they
// would check every few nanoseconds until the next tick, which takes minutes.
const tickOffset = 37 * time.Millisecond

// tick sets the stores' clock to fake time, four times a second: often enough for lifetimes of seconds, and not
// too often for tests that last weeks.
func tick(ctx context.Context) {
	accessTime.Store(time.Now().UnixNano())
	time.Sleep(tickOffset)
	for ctx.Err() == nil {
		accessTime.Store(time.Now().UnixNano())
		time.Sleep(250 * time.Millisecond) // cheaper than a ticker and a select
	}
}

var bubble sync.Mutex

// timers is the process-wide pool in which the NATS client keeps its timers, with the fields of a sync.Pool. Its sizes
// are zero if it was not used: a garbage collection moves its elements from local to victim, and the next one drops
// them.
//
//go:linkname timers github.com/nats-io/nats%2ego.globalTimerPool
var timers struct {
	local      unsafe.Pointer
	localSize  atomic.Uintptr
	victim     unsafe.Pointer
	victimSize atomic.Uintptr
	_          func() any
}

// dropTimers empties the pool of timers. A timer belongs to the bubble in which it was made and must not be used
// outside of it. If the pool is empty, it saves the collections: each takes as long as a small test.
func dropTimers() {
	for range 2 {
		if timers.localSize.Load()+timers.victimSize.Load() > 0 {
			runtime.GC()
		}
	}
}

// Listen runs a bus in real time, on loopback and a port that the kernel chose. It uses TLS, with a certificate of the
// CA in [Bus.CA].
func Listen(t testing.TB) *Bus {
	t.Helper()
	return start(t, t.TempDir(), natsd.Options{Port: Reserve(t, 1)[0]})
}

func start(t testing.TB, dir string, opts natsd.Options) *Bus {
	t.Helper()
	keys, err := keystore.Open(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	opts.Dir = filepath.Join(dir, "store")
	opts.Trust = natsd.Trust(keys.Trust())
	opts.Log = slog.New(slog.DiscardHandler)
	b := &Bus{Keys: keys, t: t, opts: opts, url: "nats://in-process.invalid"}
	if !opts.DontListen {
		b.ca = openCA(t, dir)
		b.opts.TLS = b.ca.Config()
	}
	t.Cleanup(b.end)
	b.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), settleWait)
	defer cancel()
	js := b.JetStream(t)
	if _, err := natsd.Provision(ctx, js, bucket.Kept{}); err != nil {
		t.Fatal(err)
	}
	return b
}

// Start runs the server again after [Bus.Stop], on the same store and port.
func (b *Bus) Start(t testing.TB) {
	t.Helper()
	b.mu.Lock()
	b.opts.Trust = natsd.Trust(b.Keys.Trust())
	opts, runs := b.opts, b.srv != nil
	b.mu.Unlock()
	if runs {
		t.Fatal("the bus runs already")
	}
	srv, err := natsd.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	b.firstRequest(t, srv)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.srv = srv
	if !b.opts.DontListen {
		b.url = srv.URL()
		b.opts.Port = portOf(t, b.url)
	}
}

// firstRequest sends the first request to a server. The server subscribes to replies of its API with the first request;
// a second one at the same time may never get a reply. In a bubble the client would then wait for ever if it holds a
// lock, such as for the messages of a KV watch.
func (b *Bus) firstRequest(t testing.TB, srv *natsd.Server) {
	t.Helper()
	nc, err := nats.Connect("", append(dialOptions(t, b.Keys, grants.RoleMaster, "natstest", b.refused),
		nats.InProcessServer(srv))...)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Request("$JS.API.INFO", nil, settleWait); err != nil {
		t.Fatal(err)
	}
}

// SetMaxPayload sets the payload limit of the next server that starts, in bytes.
func (b *Bus) SetMaxPayload(bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opts.MaxPayload = bytes
}

// Update gives the server the JWT of an account, as a master with the keys does.
func (b *Bus) Update(_ context.Context, account string) error {
	b.mu.Lock()
	srv := b.srv
	b.mu.Unlock()
	if srv == nil {
		return errors.New("the bus is stopped")
	}
	return srv.Update(account)
}

// Stop stops the server as at the end of its process. Connections begin to reconnect. In a bubble requests in progress
// are carried out without a reply.
func (b *Bus) Stop(t testing.TB) {
	t.Helper()
	if !b.stop() {
		t.Fatal("the bus is stopped already")
	}
}

// Restart stops the server and starts it on the same store and port. Connections come back by themselves, after
// their reconnect wait.
func (b *Bus) Restart(t testing.TB) {
	t.Helper()
	b.Stop(t)
	b.Start(t)
}

func (b *Bus) stop() bool {
	b.mu.Lock()
	srv, conns := b.srv, b.conns
	b.srv, b.conns = nil, nil
	b.mu.Unlock()
	if srv == nil {
		return false
	}
	if b.opts.DontListen {
		b.closeConns(conns)
	}
	srv.Shutdown()
	return true
}

// closeConns closes all connections and lets the server finish its requests in progress. A server that stops while
// clients wait for messages sleeps with a lock held; a goroutine that waits for that lock stops fake time.
func (b *Bus) closeConns(conns []net.Conn) {
	for _, c := range conns {
		_ = c.Close() // some have ended before
	}
	time.Sleep(time.Nanosecond)
}

func (b *Bus) end() {
	if b.opts.DontListen {
		// The server sleeps with a lock held as it shuts down. In a bubble it would sleep for ever if an earlier
		// request, such as for a consumer, waited for that lock.
		synctest.Wait()
	}
	b.stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}

// CA returns the file with the certificate of the CA of a bus with sockets.
func (b *Bus) CA() string { return b.ca.File() }

// Dir returns the directory of the streams.
func (b *Bus) Dir() string { return b.opts.Dir }

// URL returns the URL to dial with [Bus.Options], also while the bus is stopped. In a bubble it names no address.
func (b *Bus) URL() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.url
}

// InProcessConn connects to the server that runs now. It makes a Bus usable for [nats.InProcessServer] across restarts.
func (b *Bus) InProcessConn() (net.Conn, error) {
	b.mu.Lock()
	srv := b.srv
	b.mu.Unlock()
	if srv == nil {
		return nil, errors.New("the bus is stopped")
	}
	c, err := srv.InProcessConn()
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.srv != srv { // it was stopped meanwhile, and this connection was not closed
		return nil, errors.Join(errors.New("the bus is stopped"), c.Close())
	}
	b.conns = append(b.conns, c)
	return c, nil
}

// Options returns the options to connect as name in a role: a new credential without an end, its inbox prefix, the
// address of the server, and an error handler.
func (b *Bus) Options(role grants.Role, name string) []nats.Option {
	b.t.Helper()
	opts := dialOptions(b.t, b.Keys, role, name, b.refused)
	if b.opts.DontListen {
		return append(opts, nats.InProcessServer(b))
	}
	return append(opts, nats.RootCAs(b.CA()))
}

func (b *Bus) refused(nc *nats.Conn, _ *nats.Subscription, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	reportRefusal(b.t, b.ended, nc, err)
}

func dialOptions(t testing.TB, keys *keystore.Keys, role grants.Role, name string,
	failed nats.ErrHandler,
) []nats.Option {
	t.Helper()
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	// by the keys at the time of the connection
	sign := func() (string, error) { return keys.Issue(role, name, key.Public(), 0) }
	return []nats.Option{
		nats.Name(name),
		nats.UserJWT(sign, key.Sign),
		nats.CustomInboxPrefix(role.Inbox(name)),
		nats.ErrorHandler(failed),
	}
}

// reportRefusal fails the test if the bus refuses a publish or a subscription, unless the test has ended.
func reportRefusal(t testing.TB, ended bool, nc *nats.Conn, err error) {
	if !ended && errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("%s: %v", nc.Opts.Name, err)
	}
}

// Conn connects as name in a role, with further options, and closes the connection when t ends. It reconnects
// without a limit.
func (b *Bus) Conn(t testing.TB, role grants.Role, name string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	all := append(b.Options(role, name), nats.MaxReconnects(-1))
	if !b.opts.DontListen {
		all = append(all, nats.Timeout(settleWait), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))
	}
	nc, err := nats.Connect(b.URL(), append(all, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// JetStream connects as a master and returns its view of the streams.
func (b *Bus) JetStream(t testing.TB) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(b.Conn(t, grants.RoleMaster, "natstest"))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func portOf(t testing.TB, address string) int {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
