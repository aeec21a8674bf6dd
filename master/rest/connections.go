package rest

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

// connections bounds how many connections are open, in all and from each address. At a bound a new connection replaces
// the oldest one that has not sent a valid token, of the same address or of all; it is closed only if there is none. So
// connections that send nothing, or only ask whether the master is alive, never keep a valid request out.
type connections struct {
	all, each int
	log       *slog.Logger
	warn      rate.Sometimes

	mu       sync.Mutex
	open     int
	from     map[netip.Prefix]int
	untested list.List // of *connection without a valid token so far, oldest first
}

func newConnections(all, each int, log *slog.Logger) *connections {
	return &connections{all: all, each: each, log: log, warn: rate.Sometimes{Interval: time.Minute}, from: map[netip.Prefix]int{}}
}

// listen makes a listener whose connections are bounded.
func (c *connections) listen(l net.Listener) net.Listener { return &boundedListener{l, c} }

type boundedListener struct {
	net.Listener
	bounds *connections
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

// A connection is one of the bounded ones.
type connection struct {
	net.Conn
	bounds *connections
	source netip.Prefix
	idle   *time.Timer // closes it while it is in untested; stopped during a request

	place *list.Element // in untested, else nil; guarded by bounds.mu
	ended bool          // guarded by bounds.mu
}

// enter counts a new connection and closes another, if that is needed to stay within the bounds. It returns nil if it
// had to close the new one.
func (c *connections) enter(conn net.Conn) *connection {
	n := &connection{Conn: conn, bounds: c, source: source(conn.RemoteAddr().String())}
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
		n.idle = time.AfterFunc(untestedIdleTime, func() { _ = n.Close() })
	}
	c.mu.Unlock()
	if full {
		c.warn.Do(func() {
			c.log.Warn("too many connections to REST, those without a valid token are replaced", "from", n.source, "most", c.all, "most_each", c.each)
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
func (c *connections) replaceableLocked(from netip.Prefix) *connection {
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
func (c *connections) leaveLocked(n *connection) {
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
func (c *connections) testedLocked(n *connection) {
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

// onState gives a connection without a valid token a short time between two requests.
func (c *connections) onState(conn net.Conn, state http.ConnState) {
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
		n.idle.Reset(untestedIdleTime)
	}
}

// bounded returns the connection below TLS, nil if it is none of this package.
func bounded(conn net.Conn) *connection {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	n, _ := conn.(*connection)
	return n
}

type connectionKey struct{}

// withConnection lets a request find the connection that it came on.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, bounded(conn))
}

// trust records that a valid token came on the connection of a request: the connection may be idle longer and is not
// replaced. The rest of the request may take answerTime.
func trust(ctx context.Context, w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(answerTime))
	n, _ := ctx.Value(connectionKey{}).(*connection)
	if n == nil {
		return
	}
	n.bounds.mu.Lock()
	defer n.bounds.mu.Unlock()
	n.bounds.testedLocked(n)
}
