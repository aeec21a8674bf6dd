package dial

import (
	"context"
	"net"
	"sync"
)

// A dialFunc is the dialer of the client.
type dialFunc func(network, address string) (net.Conn, error)

// Dial is called for every attempt to connect.
func (f dialFunc) Dial(network, address string) (net.Conn, error) { return f(network, address) }

// A dialer makes the connection's sockets and can abort the attempt to connect. A silent server would keep the client
// waiting for [handshakeTimeout].
type dialer struct {
	mu          sync.Mutex
	socket      net.Conn // the newest; nil before the first
	established bool     // the server has accepted the connection over socket
	aborted     bool
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	socket, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.aborted {
		_ = socket.Close() // so the attempt fails
	}
	d.socket = socket
	return socket, nil
}

func (d *dialer) setEstablished(established bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.established = established
}

// abort ends the attempt under way and makes later attempts fail. An established connection stays.
func (d *dialer) abort() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.aborted = true
	if d.socket != nil && !d.established {
		_ = d.socket.Close()
	}
}
