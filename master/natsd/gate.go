package natsd

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

const (
	// handshakesEach is the number of concurrent handshakes for each processor.
	handshakesEach = 8

	// handshakeTime bounds how long a handshake counts as concurrent, so that an incomplete one does not delay others
	// longer.
	handshakeTime = 50 * time.Millisecond

	// gateTime bounds how long a connection waits for its handshake. The server and the peels close a connection after
	// 30 s, so 10 s are left for the handshake.
	gateTime = 20 * time.Second
)

// keepAlive makes the kernel notice within 90 s that the other host of a silent connection is gone. The PING of the
// server takes up to six minutes, and heartbeats of a large fleet are minutes apart.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 15 * time.Second, Count: 4}

// setKeepAlive sets keepAlive on an accepted connection, because nats-server turns it off.
func setKeepAlive(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetKeepAliveConfig(keepAlive) // fails only if the connection has ended
	}
}

var errCrowded = errors.New("too many connections at the same time")

// gate bounds the concurrent handshakes to atOnce and starts them in the order in which the connections came. Without
// it, when thousands of peels reconnect, all handshakes end at the same time: so late that the peels have closed their
// connections and begin again.
func gate(c *tls.Config, atOnce int) *tls.Config {
	turns := make(chan struct{}, atOnce)
	c = c.Clone()
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		setKeepAlive(hello.Conn)
		began := time.Now()
		select {
		case turns <- struct{}{}:
		case <-hello.Context().Done():
			return nil, context.Cause(hello.Context())
		}
		if time.Since(began) > gateTime {
			<-turns
			return nil, errCrowded
		}
		ctx, cancel := context.WithTimeout(hello.Context(), handshakeTime) // which ends with the handshake
		context.AfterFunc(ctx, func() {
			cancel()
			<-turns
		})
		return nil, nil
	}
	return c
}
