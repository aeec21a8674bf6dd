package dial_test

import (
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/dial"
)

// freezable makes connections to a bus of which the first can be frozen: what is written to it is lost, and nothing comes from it.
type freezable struct {
	nats.InProcessConnProvider
	made   atomic.Int32
	frozen atomic.Bool
}

func (f *freezable) InProcessConn() (net.Conn, error) {
	c, err := f.InProcessConnProvider.InProcessConn()
	if err == nil && f.made.Add(1) == 1 {
		c = &freezableConn{c, f}
	}
	return c, err
}

type freezableConn struct {
	net.Conn
	of *freezable
}

func (c *freezableConn) Write(p []byte) (int, error) {
	if c.of.frozen.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// A host that is cut off, or a frozen server, closes no connection. A peel that knows a second server leaves within 10 s,
// so that a command reaches it within 15 s of the fault.
func TestAServerThatIsSilentIsLeft(t *testing.T) {
	person := func(t *testing.T, b *natstest.Bus, extra ...nats.Option) (*nats.Conn, error) {
		return nats.Connect(b.URL(), append(extra, dial.Pinged(dial.ServicePing))...)
	}
	peel := func(more string) func(*testing.T, *natstest.Bus, ...nats.Option) (*nats.Conn, error) {
		return func(t *testing.T, b *natstest.Bus, extra ...nats.Option) (*nats.Conn, error) {
			return dial.Open(t.Context(), dial.Options{
				Peel: "web-1", URL: b.URL() + more, Extra: extra, Log: slog.New(slog.DiscardHandler),
			})
		}
	}
	for what, c := range map[string]struct {
		connect func(*testing.T, *natstest.Bus, ...nats.Option) (*nats.Conn, error)
		within  time.Duration
	}{
		"a master or person":            {person, 7 * time.Second},
		"a peel that knows two servers": {peel(",nats://192.0.2.1:4222"), 10 * time.Second},
		"a peel that knows one server":  {peel(""), 100 * time.Second},
	} {
		natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
			bus := &freezable{InProcessConnProvider: b}
			left := make(chan time.Time, 1)
			nc, err := c.connect(t, b, append(b.Options(grants.RoleMaster, "m1"), nats.InProcessServer(bus),
				nats.DisconnectErrHandler(func(*nats.Conn, error) { left <- time.Now() }))...)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			time.Sleep(time.Hour)
			if len(left) > 0 {
				t.Fatalf("%s left a server that answers", what)
			}
			bus.frozen.Store(true)
			began := time.Now()
			select {
			case at := <-left:
				if took := at.Sub(began); took > c.within {
					t.Errorf("%s left after %v", what, took)
				}
			case <-time.After(c.within):
				t.Errorf("%s is still connected after %v", what, time.Since(began))
			}
		})
	}
}
