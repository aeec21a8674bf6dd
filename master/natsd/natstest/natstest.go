// Package natstest runs the real bus for a test: the embedded server with JetStream on files, authentication on and
// all buckets and streams made.
//
// In a [Bubble] time is fake, so what waits takes no time: expiries, heartbeats, retention, reconnects. The server
// then has no sockets. [Listen] is for what needs them, and [ListenCluster] for what a cluster does when it loses a
// server. Connections made here close when the test ends, and inside the bubble. A refused publish or subscription fails
// the test, because to the code under test it would look like silence; give an error handler of your own to try what is
// refused.
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

	_ "github.com/nats-io/nats-server/v2/server/ats" // whose clock tick sets
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
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
	conns []net.Conn    // in a bubble: that were made to srv
	url   string
	ended bool // the test is over: nothing may be reported any more
}

// collect is how many percent the heap of a bubble grows between collections. It is small and full of what lasts, the
// server's, and at the usual 100 a fifth of a test's time went into looking for garbage.
const collect = 400

// began is when time begins in a bubble. The fake clock itself begins in 2000, which no job ID can express.
var began = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// Bubble runs f in a synctest bubble with a bus of its own. Everything that f starts must end by f's return and its
// cleanups, else the test fails; cleanups close the bus's connections first, then the server. Bubbles of one process
// run one after the other, and not beside a parallel test that uses NATS in real time.
func Bubble(t *testing.T, f func(t *testing.T, b *Bus)) {
	t.Helper()
	dir := shortLived(t)
	bubble.Lock()
	defer bubble.Unlock()
	defer debug.SetGCPercent(debug.SetGCPercent(collect))
	dropTimers()
	defer dropTimers()
	takeAccessTime(t)
	defer accessTimeUsers.Add(-1)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(began))
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(func() { // runs after the server's end, which is a cleanup made later
			cancel()
			time.Sleep(time.Second) // the client looks every 100 ms whether a drained subscription is done
		})
		go tick(ctx)
		f(t, start(t, dir, natsd.Options{DontListen: true}))
	})
}

// The server's stores take the time, by which they expire messages, from a clock of the process that a goroutine of
// its own sets. In a bubble that goroutine would either freeze fake time or set the real one, by which everything of
// the year 2000 has expired. So it is kept from starting, by counting as a user from before, and [tick] sets the clock.
//
//go:linkname accessTimeUsers github.com/nats-io/nats-server/v2/server/ats.refs
var accessTimeUsers atomic.Int64

//go:linkname accessTime github.com/nats-io/nats-server/v2/server/ats.utime
var accessTime atomic.Int64

// Holds one token while the goroutine is told to end.
//
//go:linkname accessTimeEnds github.com/nats-io/nats-server/v2/server/ats.done
var accessTimeEnds chan struct{}

// takeAccessTime makes the bubble the only user. Servers of earlier tests ran in real time, and some of their stores end a
// little after the server says that it has; who counted beside them would keep the goroutine alive.
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

// offBeat keeps the ticks away from round times. The stores compare their clock with the exact time of their last
// write, and look again after the difference: after a write some nanoseconds behind a tick they would do that every
// some nanoseconds until the next tick, which takes minutes. Tests write behind round times all the time.
const offBeat = 37 * time.Millisecond

// tick sets the stores' clock to fake time, four times a second: often enough for lifetimes of seconds, seldom
// enough for tests that last weeks.
func tick(ctx context.Context) {
	accessTime.Store(time.Now().UnixNano())
	select {
	case <-ctx.Done():
		return
	case <-time.After(offBeat):
	}
	clock := time.NewTicker(250 * time.Millisecond)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-clock.C:
			accessTime.Store(now.UnixNano())
		}
	}
}

var bubble sync.Mutex

// timers is the process-wide pool in which the NATS client keeps its timers, with the fields of a sync.Pool. Its sizes
// are zero if it was not used: a collection moves what is in local to victim, and the next one drops that.
//
//go:linkname timers github.com/nats-io/nats%2ego.globalTimerPool
var timers struct {
	local      unsafe.Pointer
	localSize  atomic.Uintptr
	victim     unsafe.Pointer
	victimSize atomic.Uintptr
	_          func() any
}

// dropTimers empties the pool of timers: one belongs to the bubble in which it was made and must not be used in another
// or outside. Between two bubbles nobody has used it, and a collection takes as long as a small test.
func dropTimers() {
	for range 2 {
		if timers.localSize.Load()+timers.victimSize.Load() > 0 {
			runtime.GC()
		}
	}
}

// Listen runs a bus in real time, on loopback and a port that the kernel chose. It speaks TLS, with a certificate of
// the authority in [Bus.CA].
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
	if err := errors.Join(natsd.Provision(ctx, js, 1), natsd.ProvisionAudit(ctx, js, 1, 0)); err != nil {
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
	b.ask(t, srv)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.srv = srv
	if !b.opts.DontListen {
		b.url = srv.URL()
		b.opts.Port = portOf(t, b.url)
	}
}

// ask is the first to ask a server something. Where two are that at once, one may never be answered: the server subscribes
// to the answers of its API with the first request, and does not have the second wait for that. In a bubble that is for ever
// where the client waits with a lock held, such as for the messages of a KV watch.
func (b *Bus) ask(t testing.TB, srv *natsd.Server) {
	t.Helper()
	nc, err := nats.Connect("", append(dialOptions(t, b.Keys, grants.RoleMaster, "natstest", b.refused), nats.InProcessServer(srv))...)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Request("$JS.API.INFO", nil, settleWait); err != nil {
		t.Fatal(err)
	}
}

// CarryAtMost gives the server that starts next a payload limit, in bytes.
func (b *Bus) CarryAtMost(bytes int) {
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

// Stop ends the server as a clean end of its process would. Connections begin to reconnect. In a bubble what was under
// way is done, and not answered.
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
		b.hangUp(conns)
	}
	srv.Shutdown()
	return true
}

// hangUp ends all connections and lets the server finish what it had begun, whose answers nobody gets. A server that
// stops while clients wait for messages sleeps under a lock, for which others would wait outside fake time.
func (b *Bus) hangUp(conns []net.Conn) {
	for _, c := range conns {
		_ = c.Close() // some have ended before
	}
	time.Sleep(time.Nanosecond)
}

func (b *Bus) end() {
	if b.opts.DontListen {
		// The server sleeps with a lock held as it shuts down. In a bubble it would sleep for ever if a request that came
		// just before, such as for a consumer, waited for that lock.
		synctest.Wait()
	}
	b.stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}

// CA returns the file with the certificate of the authority of a bus with sockets.
func (b *Bus) CA() string { return b.ca.File() }

// Dir returns the directory of the streams.
func (b *Bus) Dir() string { return b.opts.Dir }

// URL returns the URL to dial with [Bus.Options], also while the bus is stopped. In a bubble it names no address.
func (b *Bus) URL() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.url
}

// InProcessConn lets connections in a bubble find the server that runs now, across restarts.
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
	if b.srv != srv { // it stops, and knows nothing of this connection
		return nil, errors.Join(errors.New("the bus is stopped"), c.Close())
	}
	b.conns = append(b.conns, c)
	return c, nil
}

// Options are what a component needs to dial the bus as name in a role: a new credential that does not end, the
// inbox prefix that goes with it, and the way to the server. They set the error handler.
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

func dialOptions(t testing.TB, keys *keystore.Keys, role grants.Role, name string, failed nats.ErrHandler) []nats.Option {
	t.Helper()
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	sign := func() (string, error) { return keys.Issue(role, name, key.Public(), 0) } // by the keys of then
	return []nats.Option{
		nats.Name(name),
		nats.UserJWT(sign, key.Sign),
		nats.CustomInboxPrefix(role.Inbox(name)),
		nats.ErrorHandler(failed),
	}
}

// reportRefusal fails a test that has not ended if the bus refuses what somebody does.
func reportRefusal(t testing.TB, ended bool, nc *nats.Conn, err error) {
	if !ended && errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("%s: %v", nc.Opts.Name, err)
	}
}

// Conn connects as name in a role, with further options, and closes the connection when t ends. It reconnects for
// ever.
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
