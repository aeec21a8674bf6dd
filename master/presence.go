package master

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/settings/target/feed"
)

const (
	systemTTL       = 24 * time.Hour  // of the credential for the server's account, after which it is made again
	connectionsIn   = 256             // one page of the server's answer
	connectionsWait = 5 * time.Second // for a page
	followAgain     = time.Second
)

// A peelConnection is what the server tells of a connection, in events about it and in the list of all.
type peelConnection struct {
	ID  uint64 `json:"id"`  // in an event
	CID uint64 `json:"cid"` // in the list
	JWT string `json:"jwt"`
}

// maxConnections bounds the connections of one peel to the embedded server. A peel has one, and for some minutes a second
// where the server has not noticed the end of the first.
const maxConnections = 4

// presence knows the connections of each peel to the embedded server.
type presence struct {
	fleet       *feed.Feed
	peels       map[uint64]string   // wire IDs by the server's number of the connection
	connections map[string][]uint64 // by wire ID, the oldest first
}

// followConnections tells the feed which peels are connected to the embedded server, until ctx ends. Peels that reach it
// through a server of their own are known by their heartbeats alone.
func (m *Master) followConnections(ctx context.Context, fleet *feed.Feed) {
	for ctx.Err() == nil {
		if err := m.followOnce(ctx, fleet); err != nil && ctx.Err() == nil {
			m.log.Warn("connections of peels are not followed, trying again", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(followAgain):
		}
	}
}

// followOnce follows the connections of one run of the server, until ctx or the connection ends.
func (m *Master) followOnce(ctx context.Context, fleet *feed.Feed) error {
	creds, err := m.bus.keys.SystemCreds(systemTTL)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	nc, err := nats.Connect(embedded, nats.UserCredentialBytes(creds), nats.InProcessServer(m.bus), nats.NoReconnect(),
		nats.Name("master "+m.o.ID+" presence"), nats.CustomInboxPrefix(nats.InboxPrefix[:len(nats.InboxPrefix)-1]),
		nats.ClosedHandler(func(*nats.Conn) { close(ended) }))
	if err != nil {
		return fmt.Errorf("cannot reach the server's account: %w", err)
	}
	defer func() { nc.Close(); <-ended }()
	account := m.bus.keys.PeelAccount()
	connected, gone := "$SYS.ACCOUNT."+account+".CONNECT", "$SYS.ACCOUNT."+account+".DISCONNECT"
	events, err := nc.SubscribeSync("$SYS.ACCOUNT." + account + ".*")
	if err != nil {
		return err
	}
	if err := events.SetPendingLimits(-1, -1); err != nil {
		return err
	}
	p := presence{fleet: fleet, peels: map[uint64]string{}, connections: map[string][]uint64{}}
	if err := p.readAll(nc, account); err != nil {
		return err
	}
	for {
		msg, err := events.NextMsgWithContext(ctx)
		if errors.Is(err, nats.ErrConnectionClosed) {
			return nil // the credential has ended, or the server
		}
		if err != nil {
			return err
		}
		var event struct {
			Client peelConnection `json:"client"`
		}
		if json.Unmarshal(msg.Data, &event) != nil {
			continue
		}
		switch msg.Subject {
		case connected:
			if err := p.add(nc, event.Client.ID, event.Client.JWT); err != nil {
				return err
			}
		case gone:
			p.remove(event.Client.ID)
		}
	}
}

// readAll reads the connections that were there before the events.
func (p *presence) readAll(nc *nats.Conn, account string) error {
	for offset := 0; ; offset += connectionsIn {
		q := fmt.Appendf(nil, `{"auth":true,"offset":%d,"limit":%d}`, offset, connectionsIn)
		msg, err := nc.Request("$SYS.REQ.ACCOUNT."+account+".CONNZ", q, connectionsWait)
		if err != nil {
			return fmt.Errorf("cannot list the connections of peels: %w", err)
		}
		var answer struct {
			Data struct {
				Connections []peelConnection `json:"connections"`
			} `json:"data"`
		}
		if err := json.Unmarshal(msg.Data, &answer); err != nil {
			return fmt.Errorf("cannot list the connections of peels: %w", err)
		}
		for _, c := range answer.Data.Connections {
			if err := p.add(nc, c.CID, c.JWT); err != nil {
				return err
			}
		}
		if len(answer.Data.Connections) < connectionsIn {
			return nil
		}
	}
}

// add records a connection. Where its peel has too many the server is told to end the oldest.
func (p *presence) add(nc *nats.Conn, connection uint64, token string) error {
	peel, ok := auth.PeelOf(token)
	if _, known := p.peels[connection]; !ok || known {
		return nil
	}
	p.peels[connection] = peel
	p.connections[peel] = append(p.connections[peel], connection)
	p.fleet.Connected(peel)
	if len(p.connections[peel]) <= maxConnections {
		return nil
	}
	oldest := p.connections[peel][0]
	p.remove(oldest)
	return nc.PublishRequest("$SYS.REQ.SERVER."+nc.ConnectedServerId()+".KICK", nc.NewInbox(), fmt.Appendf(nil, `{"cid":%d}`, oldest)) // without a reply it is ignored
}

func (p *presence) remove(connection uint64) {
	peel, known := p.peels[connection]
	if !known {
		return
	}
	delete(p.peels, connection)
	left := slices.DeleteFunc(p.connections[peel], func(c uint64) bool { return c == connection })
	if p.connections[peel] = left; len(left) == 0 {
		delete(p.connections, peel)
		p.fleet.Disconnected(peel)
	}
}
