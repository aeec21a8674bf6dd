package worker

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/peel/dial"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

const (
	reconnectJitter = 2 * time.Second // as peels have it
	dialsAtOnce     = 16              // bare connections that one process makes at a time
)

// A bare connection receives commands and settings on the subjects of a peel, and publishes as a peel
// does. A command begins with a JID; the byte after it says where the answer goes. A document that begins with
// WithContent continues with the key of a content and a space; the connection reads the content before it reports.
const (
	jidLength   = 27  // of a [wire.JID]
	ToNobody    = 'n' // as an acknowledgement, which no stream stores
	ToStream    = 's' // as a return, which the bucket job-returns stores and acknowledges
	WithContent = 'c'
)

// answer is about as long as the return of test.ping.
var answer = bytes.Repeat([]byte("x"), 160)

// connections holds bare connections until ctx ends. They send heartbeats.
func (o Orders) connections(ctx context.Context) error {
	var keys *keystore.Keys
	if o.Role != "" {
		var err error
		if keys, err = keystore.Open(o.Keys); err != nil {
			return err
		}
	}
	g, refused := new(errgroup.Group), &RefusalCounter{}
	g.SetLimit(dialsAtOnce)
	conns := make([]*nats.Conn, o.To-o.From)
	for i := range conns {
		g.Go(func() (err error) {
			conns[i], err = o.dial(ctx, keys, string(PeelID(o.From+i)), refused)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	o.sendHeartbeats(ctx, conns)
	for _, nc := range conns {
		nc.Close()
	}
	return refused.Err()
}

// sendHeartbeats sends a heartbeat of each connection in each interval until ctx ends.
func (o Orders) sendHeartbeats(ctx context.Context, conns []*nats.Conn) {
	next := time.NewTicker(o.Heartbeats / time.Duration(len(conns)))
	defer next.Stop()
	for i := 0; ; i = (i + 1) % len(conns) {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			_ = conns[i].Publish(wire.Heartbeat(string(PeelID(o.From+i))), nil)
		}
	}
}

// dial makes a bare connection, which pings its server as often as a peel does. It returns when the meter of the bus
// has answered it.
func (o Orders) dial(ctx context.Context, keys *keystore.Keys, name string,
	refused *RefusalCounter,
) (*nats.Conn, error) {
	var opts []nats.Option
	if keys != nil {
		creds, err := keys.Creds(o.Role, name, 0)
		if err != nil {
			return nil, err
		}
		opts = ConnectOptions(creds, o.CA)
	}
	hello := func(nc *nats.Conn) { sayHello(ctx, nc, name) }
	opts = append(opts, nats.CustomInboxPrefix(o.Role.Inbox(name)), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1),
		nats.IgnoreAuthErrorAbort(), dial.PingedAsPeel(o.URL), nats.ReconnectHandler(hello),
		nats.ReconnectWait(time.Second),
		nats.ReconnectJitter(reconnectJitter, reconnectJitter), nats.Timeout(WaitLimit),
		nats.ErrorHandler(refused.OnError))
	nc, err := nats.Connect(o.URL, opts...)
	if err != nil {
		return nil, err
	}
	inbox, contents := nc.NewInbox(), nc.NewInbox()
	report := func() { _ = nc.PublishRequest(wire.SettingsApplied(name), inbox, answer) }
	for subject, f := range map[string]nats.MsgHandler{
		wire.Cmd(name): func(m *nats.Msg) {
			if jid := wire.JID(m.Data[:jidLength]); m.Data[jidLength] == ToStream {
				_ = nc.PublishRequest(wire.ReturnOf(jid, name), inbox, answer)
			} else {
				_ = nc.Publish(wire.AckOf(jid, name), answer)
			}
		},
		wire.Settings(name): func(m *nats.Msg) {
			if key, _, _ := strings.Cut(string(m.Data[1:]), " "); m.Data[0] == WithContent {
				_ = nc.PublishRequest(wire.ContentGet(key), contents, nil)
			} else {
				report()
			}
		},
		contents: func(m *nats.Msg) {
			if len(m.Data) == ContentBytes {
				report()
			}
		},
		inbox: func(*nats.Msg) {},
	} {
		if _, err := nc.Subscribe(subject, f); err != nil {
			return nil, err
		}
	}
	hello(nc)
	return nc, nc.Flush()
}

// sayHello sends heartbeats that ask for an answer until one is answered: after an outage the meter of the bus
// reconnects too.
func sayHello(ctx context.Context, nc *nats.Conn, name string) {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for nc.IsConnected() {
		if _, err := nc.Request(wire.Heartbeat(name), nil, time.Second); err == nil {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// ConnectOptions returns the options of a connection with a credential. ca is a file; if empty, the system's
// certificates are used.
func ConnectOptions(creds []byte, ca string) []nats.Option {
	opts := []nats.Option{nats.UserCredentialBytes(creds)}
	if ca != "" {
		opts = append(opts, nats.RootCAs(ca))
	}
	return opts
}

// Credential returns a new credential, signed by the keys in a folder.
func Credential(keys string, role grants.Role, name string) ([]byte, error) {
	k, err := keystore.Open(keys)
	if err != nil {
		return nil, err
	}
	return k.Creds(role, name, 0)
}

// A Bus is what a connection with a new credential needs.
type Bus struct {
	URL  string
	CA   string // file of the certificates that its own is checked against; empty: those of the system
	Keys string // folder of the keys of its accounts, see [keystore.Dir]
}

// Connect makes a connection with a new credential.
func (b Bus) Connect(role grants.Role, name string, opts ...nats.Option) (*nats.Conn, error) {
	creds, err := Credential(b.Keys, role, name)
	if err != nil {
		return nil, err
	}
	opts = append(ConnectOptions(creds, b.CA),
		append(opts, nats.Timeout(WaitLimit), nats.CustomInboxPrefix(role.Inbox(name)))...)
	nc, err := nats.Connect(b.URL, opts...)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the bus at %s: %w", b.URL, err)
	}
	return nc, nil
}
