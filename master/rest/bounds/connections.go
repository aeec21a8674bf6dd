// Package bounds limits what clients of REST may use: [Connections] that are open, requests in time ([Limiter]) and
// things at once ([Counter]), each for a key such as a token or the [Source] of an address.
//
// Guarantee: a client without a valid token never keeps one with a token out.
//
// Known gap: every master counts for itself.
package bounds

import (
	"container/list"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Connections bounds how many connections are open, in all and from each address. At a bound a new connection replaces
// the oldest one that has not sent a valid token, of the same address or of all; without such a connection the new one
// is closed. So connections that send nothing, or only requests without a token, never keep a valid request out. Make
// it with [NewConnections]; a server needs all of Listen, OnState and [WithConnection].
type Connections struct {
	all, each int
	idle      time.Duration
	log       *slog.Logger
	warn      rate.Sometimes

	mu       sync.Mutex
	open     int
	from     map[netip.Prefix]int
	untested list.List // of *connection without a valid token so far, oldest first
}

// NewConnections bounds connections to all in total and each from one [Source]. Idle bounds the time between two
// requests of a connection that has not sent a valid token.
func NewConnections(all, each int, idle time.Duration, log *slog.Logger) *Connections {
	return &Connections{
		all:  all,
		each: each,
		idle: idle,
		log:  log,
		warn: rate.Sometimes{Interval: time.Minute},
		from: map[netip.Prefix]int{},
	}
}

// Listen returns l with bounded connections.
func (c *Connections) Listen(l net.Listener) net.Listener { return &boundedListener{l, c} }

type boundedListener struct {
	net.Listener
	bounds *Connections
}

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if bounded := l.bounds.enter(conn); bounded != nil {
			return bounded, nil
		}
	}
}

// A connection is a bounded connection.
type connection struct {
	net.Conn
	bounds *Connections
	source netip.Prefix
	idle   *time.Timer // closes it while it is in untested; stopped during a request

	place *list.Element // in untested, else nil; guarded by bounds.mu
	ended bool          // guarded by bounds.mu
}

// enter counts a new connection and closes another, if that is needed to stay within the bounds. It returns nil if it
// had to close the new one.
func (c *Connections) enter(conn net.Conn) *connection {
	n := &connection{Conn: conn, bounds: c, source: Source(conn.RemoteAddr().String())}
	c.mu.Lock()
	full := c.open >= c.all || c.from[n.source] >= c.each
	replaced := c.replaceableLocked(n.source)
	if replaced != nil {
		c.leaveLocked(replaced)
	}
	if !full || replaced != nil {
		c.open++
		c.from[n.source]++
		n.place = c.untested.PushBack(n)
		n.idle = time.AfterFunc(c.idle, func() { _ = n.Close() })
	}
	c.mu.Unlock()
	if full {
		c.warn.Do(func() {
			c.log.Warn("too many connections to REST, those without a valid token are replaced", "from", n.source,
				"most", c.all, "most_each", c.each)
		})
	}
	if replaced != nil {
		_ = replaced.Conn.Close()
	}
	if n.place == nil {
		_ = conn.Close()
		return nil
	}
	return n
}

// replaceableLocked returns the connection to close for a new one from an address, nil if there is room or none may be
// closed. Caller must hold mu.
func (c *Connections) replaceableLocked(from netip.Prefix) *connection {
	ofAddress := c.from[from] >= c.each
	if !ofAddress && c.open < c.all {
		return nil
	}
	for e := c.untested.Front(); e != nil; e = e.Next() {
		if n := e.Value.(*connection); !ofAddress || n.source == from {
			return n
		}
	}
	return nil
}

// leaveLocked stops counting a connection. Caller must hold mu.
func (c *Connections) leaveLocked(n *connection) {
	if n.ended {
		return
	}
	n.ended = true
	c.open--
	if c.from[n.source]--; c.from[n.source] == 0 {
		delete(c.from, n.source)
	}
	c.testedLocked(n)
}

// testedLocked keeps a connection from being replaced. Caller must hold mu.
func (c *Connections) testedLocked(n *connection) {
	if n.place != nil {
		c.untested.Remove(n.place)
		n.place = nil
	}
	n.idle.Stop()
}

// Close closes the connection and stops counting it.
func (n *connection) Close() error {
	n.bounds.mu.Lock()
	n.bounds.leaveLocked(n)
	n.bounds.mu.Unlock()
	return n.Conn.Close()
}

// OnState is the ConnState of the server. It gives a connection without a valid token a short time between two
// requests.
func (c *Connections) OnState(conn net.Conn, state http.ConnState) {
	n := bounded(conn)
	if n == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.place == nil {
		return
	}
	switch state {
	case http.StateActive:
		n.idle.Stop()
	case http.StateIdle:
		n.idle.Reset(c.idle)
	}
}

// bounded returns the connection below TLS, nil if the listener is not from [Connections.Listen].
func bounded(conn net.Conn) *connection {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	n, _ := conn.(*connection)
	return n
}

type connectionKey struct{}

// WithConnection is the ConnContext of the server. It stores the connection of a request in its context.
func WithConnection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, bounded(conn))
}

// Trust records that a valid token came on the connection of a request: it is not replaced then, and may be idle
// longer.
func Trust(ctx context.Context) {
	n, _ := ctx.Value(connectionKey{}).(*connection)
	if n == nil {
		return
	}
	n.bounds.mu.Lock()
	defer n.bounds.mu.Unlock()
	n.bounds.testedLocked(n)
}

// Source returns the network that a remote address HOST:PORT belongs to: 32 bits of IPv4 or 64 bits of IPv6. Headers in
// which proxies name another address are not read, because anybody can write them.
func Source(remote string) netip.Prefix {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	bits := 64
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		bits = 32
	}
	network, _ := ip.Prefix(bits)
	return network
}
