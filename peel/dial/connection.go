// File connection.go connects a peel to the bus and keeps it connected. Call [Open].
//
// A peel that starts before the bus waits for it. A peel whose credential is refused tries again, because credentials
// are renewed on the disk. After all servers were tried it pauses for 1 to 3 s; while they refuse the credential the
// pause doubles, up to 30 s. The reason is logged once, and a refusal of the credential once a minute.
//
// A message that is published while the bus is away fails: the client keeps nothing in memory to send it later.

package dial

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	dialTimeout = 2 * time.Second // for a TCP connection to one address

	// handshakeTimeout is how long a server may take for its first messages. A server to which thousands of peels come
	// back at once answers in order, late. A peel that left after two seconds would cost it another TLS handshake for
	// nothing.
	handshakeTimeout = 30 * time.Second

	// documentQueue is how many received documents of settings may wait to be read. If there are more, the peel asks
	// for the newest. The client's default is 65,536, which takes half a megabyte on every host.
	documentQueue = 16
)

// Options configure a connection. Peel, URL and Log are required.
type Options struct {
	Peel  target.PeelID
	URL   string        // of the servers, separated by commas
	CA    string        // file with the certificates that the servers are checked by, see [dial.CheckedBy]
	Extra []nats.Option // the credential and further options of the client
	Log   *slog.Logger
}

// Open returns a connection after the first attempt to connect, whether or not that succeeded. If ctx ends, attempts
// end; an established connection stays until it is closed. The error is a [dial.BusError] where the client's error is
// known.
func Open(ctx context.Context, o Options) (*nats.Conn, error) {
	d := &dialer{}
	context.AfterFunc(ctx, d.abort)
	s := newState(o.CA, o.Log)
	onConnected := func(message string) nats.ConnHandler {
		return func(nc *nats.Conn) {
			d.setEstablished(true)
			s.onConnected()
			o.Log.Info(message, "url", nc.ConnectedUrlRedacted())
		}
	}
	opts := append([]nats.Option{
		nats.Name(string(o.Peel)),
		nats.CustomInboxPrefix(wire.Inbox(o.Peel.Wire())),
		nats.RetryOnFailedConnect(true),
		nats.SetCustomDialer(dialFunc(func(network, address string) (net.Conn, error) {
			return d.dial(ctx, network, address)
		})),
		nats.Timeout(handshakeTimeout),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		PingedAsPeel(o.URL),
		nats.ReconnectBufSize(-1),
		nats.SyncQueueLen(documentQueue),
		nats.CustomReconnectDelay(s.pause),
		nats.ConnectHandler(onConnected("bus is reached")),
		nats.ReconnectHandler(onConnected("bus is back")),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { s.onUnreachable(err) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			d.setEstablished(false)
			if err != nil { // nil: the peel itself closed the connection
				o.Log.Warn("bus is away", LogError(err, o.CA)...)
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { s.onError(err) }),
		CheckedBy(o.CA),
	}, o.Extra...)
	nc, err := nats.Connect(o.URL, append(opts, Encrypted())...)
	if err != nil {
		return nil, Explain(fmt.Errorf("cannot use the bus at %s: %w", o.URL, err), o.CA)
	}
	s.conn.Store(nc)
	return nc, nil
}
