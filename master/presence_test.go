package master_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// ownSite is a master with its embedded server, in real time.
type ownSite struct {
	t   *testing.T
	dir string

	keys  *keystore.Keys
	url   string
	ca    string // the file of the authority of the server's certificate
	m     *master.Master
	fleet *fleet.Fleet
	stop  func()
}

// own starts a master with an embedded server.
func own(t *testing.T, dir string, change ...func(*master.Options)) *ownSite {
	t.Helper()
	s := &ownSite{t: t, dir: dir}
	ready, began := make(chan master.Info, 1), make(chan *fleet.Fleet, 1)
	o := master.Options{
		ID: "own", DataDir: dir, Ready: func(i master.Info) { ready <- i },
		Services: []master.Service{func(ctx context.Context, _ *nats.Conn, fleet *fleet.Fleet) error {
			began <- fleet
			<-ctx.Done()
			return nil
		}},
	}
	for _, f := range change {
		f(&o)
	}
	var err error
	if s.m, err = master.New(o); err != nil {
		t.Fatal(err)
	}
	s.stop = s.run(func(ctx context.Context) error {
		return s.m.Run(ctx)
	})
	select {
	case info := <-ready:
		s.url, s.ca = info.URL, filepath.Join(dir, "tls", "ca.crt")
		s.fleet = <-began
	case <-t.Context().Done():
		t.Fatal("the master is not ready")
	}
	if s.keys, err = keystore.Open(keystore.Dir(dir)); err != nil {
		t.Fatal(err)
	}
	return s
}

// run starts something that ends with the test or when stop is called.
func (s *ownSite) run(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			s.t.Errorf("ended with %v", err)
		}
	})
	s.t.Cleanup(stop)
	return stop
}

// peel starts a peel and returns its public key and what ends it.
func (s *ownSite) peel(id target.PeelID) (public string, stop func()) {
	s.t.Helper()
	key, err := credential.MakeKey()
	if err != nil {
		s.t.Fatal(err)
	}
	public = key.Public()
	token, err := s.keys.Issue(grants.RolePeel, id.Wire(), public, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	creds, err := key.Creds(token)
	if err != nil {
		s.t.Fatal(err)
	}
	p, err := peel.New(peel.Options{
		ID: id, DataDir: s.t.TempDir(), URL: s.url, Simulated: true, Zone: time.UTC, Connect: []nats.Option{nats.UserCredentialBytes(creds), nats.RootCAs(s.ca)},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return public, s.run(p.Run)
}

// until waits for something to come about.
func (s *ownSite) until(what string, f func() bool) {
	s.t.Helper()
	limit := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-limit:
			s.t.Fatalf("not %s after a minute", what)
		}
	}
}

func (s *ownSite) online(id target.PeelID) bool {
	_, online := s.fleet.Presence(id)
	return online
}

// heardLately reports whether a peel was heard so recently that its heartbeats alone would make it online.
func (s *ownSite) heardLately(id target.PeelID) bool {
	seen, _ := s.fleet.Presence(id)
	return time.Since(seen) < fleet.OfflineAfter
}

func TestAPeelThatTheServerDisconnectsIsOfflineAtOnce(t *testing.T) {
	s := own(t, t.TempDir())
	_, stop := s.peel("web-01")
	s.peel("web-02")
	s.until("online", func() bool { return s.online("web-01") && s.online("web-02") })
	stop()
	s.until("offline", func() bool { return !s.online("web-01") })
	if !s.heardLately("web-01") || s.fleet.Unknown("web-01") || !s.online("web-02") {
		t.Errorf("offline by its heartbeats %v, unknown %v; the other is online %v", !s.heardLately("web-01"), s.fleet.Unknown("web-01"), s.online("web-02"))
	}
	public, _ := s.peel("web-01")
	s.until("online again", func() bool { return s.online("web-01") })

	// A connection of another role under the name of a peel is none of the peel's.
	creds, err := s.keys.Creds(grants.RoleOperator, "web-01", 0)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(s.url, nats.UserCredentialBytes(creds), nats.RootCAs(s.ca), nats.CustomInboxPrefix(wire.UserInbox("web-01")), nats.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()

	account, _, err := s.keys.Revoke(grants.RolePeel, map[string]credential.End{public: {}})
	if err == nil {
		err = s.m.UpdateAccount(account)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.until("offline after its credential was revoked", func() bool { return !s.online("web-01") })
	if !s.heardLately("web-01") || !s.online("web-02") {
		t.Errorf("offline by its heartbeats %v, the other is online %v", !s.heardLately("web-01"), s.online("web-02"))
	}

	s.stop()
	if again := own(t, s.dir); !again.fleet.Unknown("web-03") {
		t.Error("a master that has just begun knows that a peel is offline")
	}
}

// connect makes a connection with a credential of a peel.
func (s *ownSite) connect(creds []byte) *nats.Conn {
	s.t.Helper()
	nc, err := nats.Connect(s.url, nats.UserCredentialBytes(creds), nats.RootCAs(s.ca), nats.NoReconnect(), nats.Timeout(time.Minute))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	return nc
}

func (s *ownSite) creds(role grants.Role, name string) []byte {
	s.t.Helper()
	creds, err := s.keys.Creds(role, name, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	return creds
}

// settle returns when the master has handled the events of all connections made and ended so far.
func (s *ownSite) settle() {
	s.t.Helper()
	mark := s.connect(s.creds(grants.RolePeel, "mark"))
	s.until("mark online", func() bool { return s.online("mark") })
	mark.Close()
	s.until("mark offline", func() bool { return !s.online("mark") })
}

// A peel that reconnects may have a new connection before the server notices the end of the old one.
func TestAPeelIsOnlineWhileOneOfItsConnectionsStands(t *testing.T) {
	s := own(t, t.TempDir())
	creds := s.creds(grants.RolePeel, "web-01")
	conn := s.connect(creds)
	s.until("online", func() bool { return s.online("web-01") })
	for range 5 {
		next := s.connect(creds)
		conn.Close()
		conn = next
		s.settle()
		if !s.online("web-01") {
			t.Fatal("offline after the end of its old connection")
		}
	}
	conn.Close()
	s.until("offline", func() bool { return !s.online("web-01") })
	s.connect(creds)
	s.until("online again", func() bool { return s.online("web-01") })
}

// endPresence ends the connection by which the master receives the events of connections. It returns when the server has
// closed it, a second before the master makes another one.
func (s *ownSite) endPresence() {
	s.t.Helper()
	creds, err := s.keys.SystemCreds(time.Hour)
	if err != nil {
		s.t.Fatal(err)
	}
	nc, err := nats.Connect(s.url, nats.UserCredentialBytes(creds), nats.RootCAs(s.ca), nats.CustomInboxPrefix("_INBOX"), nats.Timeout(time.Minute))
	if err != nil {
		s.t.Fatal(err)
	}
	defer nc.Close()
	find := func() (cid uint64) {
		msg, err := nc.Request("$SYS.REQ.SERVER."+nc.ConnectedServerId()+".CONNZ", []byte(`{"auth":true,"limit":100}`), time.Minute)
		if err != nil {
			s.t.Fatal(err)
		}
		var answer struct {
			Data struct {
				Connections []struct {
					CID  uint64 `json:"cid"`
					Name string `json:"name"`
				} `json:"connections"`
			} `json:"data"`
		}
		if err := json.Unmarshal(msg.Data, &answer); err != nil {
			s.t.Fatal(err)
		}
		for _, c := range answer.Data.Connections {
			if c.Name == "master own presence" {
				return c.CID
			}
		}
		return 0
	}
	cid := find()
	if cid == 0 {
		s.t.Fatal("the master does not follow the connections")
	}
	if _, err := nc.Request("$SYS.REQ.SERVER."+nc.ConnectedServerId()+".KICK", fmt.Appendf(nil, `{"cid":%d}`, cid), time.Minute); err != nil {
		s.t.Fatal(err)
	}
	s.until("closed", func() bool { return find() != cid })
}

func TestAPeelThatLeavesWhileNobodyFollowsTheConnectionsIsOffline(t *testing.T) {
	s := own(t, t.TempDir())
	gone, stays := s.connect(s.creds(grants.RolePeel, "web-01")), s.connect(s.creds(grants.RolePeel, "web-02"))
	s.until("online", func() bool { return s.online("web-01") && s.online("web-02") })
	s.endPresence()
	gone.Close()
	s.until("offline", func() bool { return !s.online("web-01") })
	s.settle()
	if !s.online("web-02") || !stays.IsConnected() || !s.heardLately("web-01") {
		t.Errorf("the other is online %v; offline by its heartbeats %v", s.online("web-02"), !s.heardLately("web-01"))
	}
}

// Else one peel's credential takes all connections of the server.
func TestAPeelHasFewConnections(t *testing.T) {
	s := own(t, t.TempDir())
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	token, err := s.keys.Issue(grants.RolePeel, "greedy", key.Public(), 0)
	if err != nil {
		t.Fatal(err)
	}
	creds, err := key.Creds(token)
	if err != nil {
		t.Fatal(err)
	}
	_, stop := s.peel("web-01")
	defer stop()
	var all []*nats.Conn
	for range 40 {
		nc, err := nats.Connect(s.url, nats.UserCredentialBytes(creds), nats.RootCAs(s.ca), nats.NoReconnect(), nats.Timeout(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		all = append(all, nc)
	}
	open := func() (n int) {
		for _, nc := range all {
			if !nc.IsClosed() {
				n++
			}
		}
		return n
	}
	s.until("4 connections left", func() bool { return open() == 4 })
	if !all[39].IsConnected() || !all[36].IsConnected() {
		t.Error("the newest connections were ended")
	}
	s.until("online", func() bool { _, online := s.fleet.Presence("web-01"); return online })
}
