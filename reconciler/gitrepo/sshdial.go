package gitrepo

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"sync"

	"golang.org/x/net/proxy"
)

// go-git's ssh transport dials without the context of the call and never looks
// at it again: a server that accepts and then says nothing would hold the
// owner for good. The one way in is a proxy scheme. Each session gets a proxy
// URL of its own whose dialer closes the connection when the context ends.
const dialScheme = "zester-dial"

var dials = struct {
	sync.Mutex
	last int
	byID map[string]sessionDialer
}{byID: map[string]sessionDialer{}}

// sessionDialer opens the connection of one session.
type sessionDialer func(ctx context.Context, network, addr string) (net.Conn, error)

func init() { proxy.RegisterDialerType(dialScheme, dialerOf) }

// dialerOf finds the dialer of a session by the proxy URL that it was given.
func dialerOf(u *url.URL, _ proxy.Dialer) (proxy.Dialer, error) {
	dials.Lock()
	defer dials.Unlock()
	d, ok := dials.byID[u.Host]
	if !ok {
		return nil, fmt.Errorf("cannot dial for session %q: it has ended", u.Host)
	}
	return d, nil
}

// bindDial returns a proxy URL whose connections live no longer than ctx and
// end with release, which may be called more than once. They are made by the
// proxy via, nil for that of the environment.
func bindDial(ctx context.Context, via *url.URL) (proxyURL string, release func()) {
	ctx, cancel := context.WithCancel(ctx)
	dials.Lock()
	defer dials.Unlock()
	dials.last++
	id := strconv.Itoa(dials.last)
	dials.byID[id] = func(inner context.Context, network, addr string) (net.Conn, error) {
		inner, stop := context.WithCancel(inner)
		defer stop()
		defer context.AfterFunc(ctx, stop)()
		conn, err := dialVia(inner, via, network, addr)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { _ = conn.Close() })
		return conn, nil
	}
	return dialScheme + "://" + id, func() {
		cancel()
		dials.Lock()
		defer dials.Unlock()
		delete(dials.byID, id)
	}
}

func dialVia(ctx context.Context, via *url.URL, network, addr string) (net.Conn, error) {
	if via == nil {
		return proxy.Dial(ctx, network, addr)
	}
	d, err := proxy.FromURL(via, proxy.Direct)
	if err != nil {
		return nil, err
	}
	return d.(proxy.ContextDialer).DialContext(ctx, network, addr)
}

// DialContext is what go-git calls.
func (d sessionDialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return d(ctx, network, addr)
}

// Dial makes a sessionDialer a [proxy.Dialer], which has no other use here.
func (d sessionDialer) Dial(network, addr string) (net.Conn, error) {
	return d(context.Background(), network, addr)
}
