package peel

import (
	"context"
	"net"
	"sync"
)

// A dialer is a function in the form in which the client wants it.
type dialer func(network, address string) (net.Conn, error)

// Dial is called for every attempt to connect.
func (d dialer) Dial(network, address string) (net.Conn, error) { return d(network, address) }

// A line is the newest socket. A server that says nothing would keep the client waiting for [greetTime].
type line struct {
	mu     sync.Mutex
	conn   net.Conn // nil before the first
	inUse  bool     // the server has greeted
	noMore bool     // no attempt is to go on
}

func (l *line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: answerTime}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.noMore {
		_ = conn.Close() // the attempt fails by that
	}
	l.conn = conn
	return conn, nil
}

func (l *line) use(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inUse = yes
}

// drop ends the attempt under way and those to come.
func (l *line) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noMore = true
	if l.conn != nil && !l.inUse {
		_ = l.conn.Close()
	}
}
