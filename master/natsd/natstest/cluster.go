package natstest

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/natsd"
)

// members is the number of servers of a cluster, and of copies of each stream.
const members = 3

// settleWait bounds how long a bus takes to create its streams, and a cluster to elect its leaders.
const settleWait = 30 * time.Second

// A Cluster is three servers that share all streams, in real time and on loopback. Clients connect with TLS.
type Cluster struct {
	Keys *keystore.Keys

	t    testing.TB
	ca   *pki.CA
	opts [members]*server.Options

	mu      sync.Mutex
	servers [members]*server.Server // nil while stopped
	ended   bool
}

// ListenCluster starts a cluster on ports that the kernel chooses, with all buckets and streams.
func ListenCluster(t testing.TB) *Cluster {
	t.Helper()
	dir := shortLived(t)
	keys, err := keystore.Open(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{Keys: keys, t: t, ca: openCA(t, dir)}
	t.Cleanup(c.end)
	ports := Reserve(t, 2*members)
	var routes []*url.URL
	for _, port := range ports[:members] {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	for i := range c.opts {
		c.opts[i] = c.options(fmt.Sprintf("n%d", i), filepath.Join(dir, fmt.Sprint(i)))
		c.opts[i].Port = ports[members+i]
		c.opts[i].Cluster.Port = ports[i]
		c.opts[i].Routes = routes
	}
	for i := range c.opts {
		c.Start(i)
	}
	c.provision()
	return c
}

func (c *Cluster) options(name, dir string) *server.Options {
	trust := c.Keys.Trust()
	operator, err := jwt.DecodeOperatorClaims(trust.Operator)
	if err != nil {
		c.t.Fatal(err)
	}
	resolver := &server.MemAccResolver{}
	for public, token := range trust.Accounts {
		if err := resolver.Store(public, token); err != nil {
			c.t.Fatal(err)
		}
	}
	return &server.Options{
		ServerName:             name,
		Host:                   "127.0.0.1",
		NoSigs:                 true,
		NoLog:                  true,
		TLS:                    true,
		TLSConfig:              c.ca.Config(),
		TLSTimeout:             settleWait.Seconds(),
		JetStream:              true,
		StoreDir:               dir,
		DisableJetStreamBanner: true,
		Cluster:                server.ClusterOpts{Name: "natstest", Host: "127.0.0.1"},
		TrustedOperators:       []*jwt.OperatorClaims{operator},
		SystemAccount:          trust.SystemAccount,
		AccountResolver:        resolver,
	}
}

// Reserve returns loopback ports that the kernel gives to no other process while t runs. It binds a socket to each port
// without listening: the kernel does not choose the port again, but a server with SO_REUSEADDR can listen on it.
func Reserve(t testing.TB, n int) []int {
	t.Helper()
	ports := make([]int, n)
	for i := range ports {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Close(fd) })
		if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			t.Fatal(err)
		}
		name, err := syscall.Getsockname(fd)
		if err != nil {
			t.Fatal(err)
		}
		ports[i] = name.(*syscall.SockaddrInet4).Port
	}
	return ports
}

// provision creates the streams as soon as the cluster has a leader.
func (c *Cluster) provision() {
	c.t.Helper()
	js, err := jetstream.New(c.Conn(c.t, grants.RoleMaster, "natstest"))
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), settleWait)
	defer cancel()
	for {
		// Without a leader there is no reply.
		try, end := context.WithTimeout(ctx, 200*time.Millisecond)
		_, err := js.AccountInfo(try)
		end()
		if err == nil {
			// refused until the leader knows the other servers
			_, err = natsd.Provision(ctx, js, bucket.Kept{Replicas: members})
		}
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			c.t.Fatal(err)
		}
	}
}

// Start runs a server, which may have run before.
func (c *Cluster) Start(i int) {
	c.t.Helper()
	o := *c.opts[i] // the server changes it
	srv, err := server.NewServer(&o)
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	c.servers[i] = srv
	c.mu.Unlock()
	srv.Start()
	if !srv.ReadyForConnections(settleWait) {
		c.t.Fatalf("server %d is not ready", i)
	}
}

// Stop stops a server. Its clients connect to the others.
func (c *Cluster) Stop(i int) {
	c.mu.Lock()
	srv := c.servers[i]
	c.servers[i] = nil
	c.mu.Unlock()
	if srv != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
	}
}

func (c *Cluster) end() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	for i := range c.servers {
		c.Stop(i)
	}
}

// Settle waits until all streams have leaders and the copies on running servers are complete.
func (c *Cluster) Settle(js jetstream.JetStream) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), settleWait)
	defer cancel()
	for names := js.StreamNames(ctx); ; {
		for name := range names.Name() {
			c.leader(ctx, js, name)
		}
		if err := names.Err(); err == nil {
			return
		} else if ctx.Err() != nil {
			c.t.Fatal(err)
		}
		names = js.StreamNames(ctx)
	}
}

// Leader waits until a stream has a leader and copies that are complete, and returns the number of the leader's server.
func (c *Cluster) Leader(js jetstream.JetStream, stream string) int {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), settleWait)
	defer cancel()
	return c.leader(ctx, js, stream)
}

func (c *Cluster) leader(ctx context.Context, js jetstream.JetStream, stream string) int {
	c.t.Helper()
	for ctx.Err() == nil {
		try, end := context.WithTimeout(ctx, 500*time.Millisecond)
		s, err := js.Stream(try, stream)
		end()
		if err == nil && s.CachedInfo().Cluster != nil &&
			!slices.ContainsFunc(s.CachedInfo().Cluster.Replicas, c.lags) {
			for i, o := range c.opts {
				if o.ServerName == s.CachedInfo().Cluster.Leader && c.runs(i) {
					return i
				}
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.t.Fatalf("stream %s has no leader, or copies that lag", stream)
	return 0
}

// lags reports whether a copy on a running server is incomplete.
func (c *Cluster) lags(copy *jetstream.PeerInfo) bool {
	for i, o := range c.opts {
		if o.ServerName == copy.Name && c.runs(i) {
			return !copy.Current || copy.Lag > 0
		}
	}
	return false
}

func (c *Cluster) runs(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.servers[i] != nil
}

// Spread waits until all running servers know the subscriptions of a connection, which the server of the connection
// sends to them with a delay.
func (c *Cluster) Spread(nc *nats.Conn) {
	c.t.Helper()
	for i, o := range c.opts {
		if !c.runs(i) {
			continue
		}
		there, err := nats.Connect(fmt.Sprintf("tls://127.0.0.1:%d", o.Port),
			append(c.Options(grants.RoleMaster, "natstest"), nats.Timeout(settleWait))...)
		if err != nil {
			c.t.Fatal(err)
		}
		defer there.Close()
		subject := there.NewInbox()
		sub, err := there.SubscribeSync(subject)
		if err != nil {
			c.t.Fatal(err)
		}
		err = nats.ErrTimeout
		for began := time.Now(); err != nil &&
			time.Since(began) < settleWait; _, err = sub.NextMsg(20 * time.Millisecond) {
			if err := nc.Publish(subject, nil); err != nil {
				c.t.Fatal(err)
			}
		}
		if err != nil {
			c.t.Fatalf("no message arrives at %s: %v", o.ServerName, err)
		}
	}
}

// URL returns the URLs of all servers, separated by commas.
func (c *Cluster) URL() string {
	var all []string
	for _, o := range c.opts {
		all = append(all, fmt.Sprintf("tls://127.0.0.1:%d", o.Port))
	}
	return strings.Join(all, ",")
}

// Options returns the options to connect to the cluster, as [Bus.Options] does.
func (c *Cluster) Options(role grants.Role, name string) []nats.Option {
	c.t.Helper()
	return append(dialOptions(c.t, c.Keys, role, name, c.refused), nats.RootCAs(c.ca.File()))
}

func (c *Cluster) refused(nc *nats.Conn, _ *nats.Subscription, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	reportRefusal(c.t, c.ended, nc, err)
}

// Conn connects as name in a role, and closes the connection when t ends.
func (c *Cluster) Conn(t testing.TB, role grants.Role, name string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(c.URL(), append(c.Options(role, name),
		nats.Timeout(settleWait), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond),
		nats.ReconnectJitter(0, 0), nats.ReconnectBufSize(-1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}
