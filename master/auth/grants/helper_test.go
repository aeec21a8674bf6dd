package grants_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

func open(t *testing.T, dir string) *keystore.Keys {
	t.Helper()
	k, err := keystore.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func authority(t *testing.T, b *natstest.Bus) *auth.Authority {
	t.Helper()
	a, err := auth.NewAuthority(t.Context(), auth.AuthorityOptions{Keys: b.Keys, JetStream: b.JetStream(t), Update: b.Update})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// join connects with a credential; lost is closed when the connection has ended for good.
func join(t *testing.T, b *natstest.Bus, name string, creds nats.Option) (nc *nats.Conn, lost <-chan struct{}, err error) {
	t.Helper()
	ended := make(chan struct{})
	nc, err = nats.Connect(b.URL(), nats.InProcessServer(b), creds, nats.CustomInboxPrefix(grants.RoleOperator.Inbox(name)), nats.NoReconnect(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), nats.ClosedHandler(func(*nats.Conn) { close(ended) }))
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, ended, err
}
