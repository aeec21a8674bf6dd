package dial_test

import (
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

// A host that is cut off, or a frozen server, closes no connection.
func TestAServerThatIsSilentIsLeft(t *testing.T) {
	for what, every := range map[string]time.Duration{"a master or person": dial.ServicePing, "a peel": dial.PeelPing} {
		natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
			bus := &freezable{InProcessConnProvider: b}
			back := make(chan time.Time, 1)
			opts := append(b.Options(grants.RoleMaster, "m1"), nats.InProcessServer(bus), nats.ReconnectWait(time.Millisecond), dial.Pinged(every),
				nats.ReconnectHandler(func(*nats.Conn) { back <- time.Now() }))
			nc, err := nats.Connect(b.URL(), opts...)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			time.Sleep(time.Hour)
			if len(back) > 0 {
				t.Fatalf("%s left a server that answers", what)
			}
			bus.frozen.Store(true)
			began := time.Now()
			select {
			case at := <-back:
				if took := at.Sub(began); took > 3*every+time.Second {
					t.Errorf("%s left after %v", what, took)
				}
			case <-time.After(3*every + time.Second):
				t.Errorf("%s is still connected after %v", what, time.Since(began))
			}
		})
	}
}
