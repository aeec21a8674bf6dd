package master

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/enroll"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
	fleetpkg "github.com/seed-c01c3da5/zester/master/fleet"
)

const (
	systemTTL       = 24 * time.Hour  // life of the credential for the server's own account; then a new one is made
	connectionsPage = 256             // connections in one page of the server's list
	connectionsWait = 5 * time.Second // for a page
	followAgain     = time.Second     // between two tries to follow the connections
)

// maxConnections bounds the connections of one peel to the embedded server. A peel has one, and for some minutes a
// second where the server has not noticed the end of the first.
const maxConnections = 4

// A peelConnection describes a connection in the server's events and in its list.
type peelConnection struct {
	ID  uint64 `json:"id"`  // in an event
	CID uint64 `json:"cid"` // in the list
	JWT string `json:"jwt"`
}

// presence holds the connections of each peel to the embedded server.
type presence struct {
	nc          *nats.Conn // in the server's own account
	account     string     // of the peels
	fleet       *fleetpkg.Fleet
	peels       map[uint64]string   // wire IDs, by the server's number of the connection
	connections map[string][]uint64 // by wire ID, oldest first
}

// fleet returns the view of all peels, and the register of the credentials that masters issued. The view checks the
// identities of peels by it.
func (m *Master) fleet(ctx context.Context, nc *nats.Conn, js jetstream.JetStream,
	trust issuer,
) (*fleetpkg.Fleet, *enroll.Register, error) {
	dir := ""
	if trust.keys != nil {
		dir = trust.keys.Dir()
	}
	register, err := enroll.OpenRegister(ctx, js, dir)
	if err != nil {
		return nil, nil, err
	}
	fleet := fleetpkg.New(nc, m.log)
	if m.bus != nil {
		fleet.FollowsConnections()
	}
	fleet.UseRegister(func(ctx context.Context, wireID string) (fleetpkg.Registration, error) {
		r, err := register.Lookup(ctx, wireID)
		if errors.Is(err, bucket.ErrUnreadable) {
			err = fmt.Errorf("%w: %w", fleetpkg.ErrRefused, err)
		}
		return fleetpkg.Registration(r), err
	})
	return fleet, register, nil
}

// followConnections reports to the feed which peels are connected to the embedded server, until ctx ends.
func (m *Master) followConnections(ctx context.Context, fleet *fleetpkg.Fleet) {
	var connected map[string][]uint64 // as it was when the events ended
	for ctx.Err() == nil {
		var err error
		if connected, err = m.followOnce(ctx, fleet, connected); err != nil && ctx.Err() == nil {
			m.log.Warn("connections of peels are not followed, trying again", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(followAgain):
		}
	}
}

// followOnce follows the connections of one run of the server, until ctx ends, the connection to the server ends or
// events come faster than they are handled. Peels that were connected before and are no longer have left meanwhile. It
// returns the connections that it knew last.
func (m *Master) followOnce(ctx context.Context, fleet *fleetpkg.Fleet,
	before map[string][]uint64,
) (map[string][]uint64, error) {
	creds, err := m.bus.keys.SystemCreds(systemTTL)
	if err != nil {
		return before, err
	}
	closed := make(chan struct{})
	nc, err := nats.Connect(embedded, nats.UserCredentialBytes(creds), nats.InProcessServer(m.bus), nats.NoReconnect(),
		nats.Name("master "+m.o.ID+" presence"), nats.CustomInboxPrefix(nats.InboxPrefix[:len(nats.InboxPrefix)-1]),
		nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if err != nil {
		return before, fmt.Errorf("cannot connect to the server's own account: %w", err)
	}
	defer func() { nc.Close(); <-closed }()
	p := presence{
		nc:          nc,
		account:     m.bus.keys.PeelAccount(),
		fleet:       fleet,
		peels:       map[uint64]string{},
		connections: map[string][]uint64{},
	}
	// before the list, so that no connection is missed
	events, err := nc.SubscribeSync("$SYS.ACCOUNT." + p.account + ".*")
	if err != nil {
		return before, err
	}
	if err := p.readAll(); err != nil {
		return before, err
	}
	for peel := range before {
		if _, still := p.connections[peel]; !still {
			fleet.Disconnected(peel)
		}
	}
	return p.connections, p.follow(ctx, events)
}

// follow handles events until ctx ends. It returns nil if the connection ends, with its credential or with the server.
func (p *presence) follow(ctx context.Context, events *nats.Subscription) error {
	for {
		msg, err := events.NextMsgWithContext(ctx)
		if errors.Is(err, nats.ErrConnectionClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := p.onEvent(strings.TrimPrefix(msg.Subject, "$SYS.ACCOUNT."+p.account+"."), msg.Data); err != nil {
			return err
		}
	}
}

// onEvent handles an event of the server. An event that cannot be decoded is left out: heartbeats show the peel all the
// same.
func (p *presence) onEvent(kind string, data []byte) error {
	var event struct {
		Client peelConnection `json:"client"`
	}
	if json.Unmarshal(data, &event) != nil {
		return nil
	}
	switch kind {
	case "CONNECT":
		return p.add(event.Client.ID, event.Client.JWT)
	case "DISCONNECT":
		p.remove(event.Client.ID)
	}
	return nil
}

// readAll adds the connections that exist already.
func (p *presence) readAll() error {
	for offset := 0; ; offset += connectionsPage {
		q := fmt.Appendf(nil, `{"auth":true,"offset":%d,"limit":%d}`, offset, connectionsPage)
		msg, err := p.nc.Request("$SYS.REQ.ACCOUNT."+p.account+".CONNZ", q, connectionsWait)
		if err != nil {
			return fmt.Errorf("cannot list the connections of peels: %w", err)
		}
		if n, err := p.onPage(msg.Data); err != nil || n < connectionsPage {
			return err
		}
	}
}

// onPage adds the connections in a page of the server's list and returns how many these are.
func (p *presence) onPage(data []byte) (connections int, err error) {
	var answer struct {
		Data struct {
			Connections []peelConnection `json:"connections"`
		} `json:"data"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return 0, fmt.Errorf("cannot list the connections of peels: %w", err)
	}
	for _, c := range answer.Data.Connections {
		if err := p.add(c.CID, c.JWT); err != nil {
			return 0, err
		}
	}
	return len(answer.Data.Connections), nil
}

// add records a connection. If its peel has more than maxConnections, the server is asked to close the oldest.
func (p *presence) add(connection uint64, token string) error {
	peel, ok := grants.PeelOf(token)
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
	// The server ignores this request unless it has a reply subject.
	return p.nc.PublishRequest("$SYS.REQ.SERVER."+p.nc.ConnectedServerId()+".KICK", p.nc.NewInbox(),
		fmt.Appendf(nil, `{"cid":%d}`, oldest))
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
