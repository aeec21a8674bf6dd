package natsd

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/pki"
)

// A mute is a connection of who says hello and hears nothing, until it is closed.
type mute struct {
	net.Conn
	closed chan struct{}
}

func (m mute) Read([]byte) (int, error) { <-m.closed; return 0, net.ErrClosed }

func TestAFewHandshakesAtATime(t *testing.T) {
	ca, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		const atOnce = 2
		c := ca.Config()
		var begun atomic.Int64
		certificate := c.GetCertificate
		c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			begun.Add(1)
			return certificate(hello)
		}
		c = gate(c, atOnce)
		closed := make(chan struct{})
		var open sync.WaitGroup
		defer open.Wait()
		defer close(closed)
		connect := func(wrap func(net.Conn) net.Conn) (result chan error) {
			theirs, ours := net.Pipe()
			result = make(chan error, 1)
			open.Go(func() { result <- tls.Server(ours, c).Handshake() })
			open.Go(func() {
				_ = tls.Client(wrap(theirs), &tls.Config{InsecureSkipVerify: true}).Handshake()
				_ = theirs.Close()
			})
			return result
		}
		silent := func(n int) {
			for range n {
				connect(func(c net.Conn) net.Conn { return mute{c, closed} })
			}
			synctest.Wait()
		}
		whole := func() (took time.Duration, err error) {
			began := time.Now()
			err = <-connect(func(c net.Conn) net.Conn { return c })
			return time.Since(began), err
		}

		if took, err := whole(); err != nil || took != 0 || begun.Load() != 1 {
			t.Errorf("alone: %v after %v", err, took)
		}
		silent(4 * atOnce)
		if begun.Load() != 1+atOnce {
			t.Errorf("%d have begun", begun.Load())
		}
		if took, err := whole(); err != nil || took != 4*handshakeTime {
			t.Errorf("behind %d: %v after %v", 4*atOnce, err, took)
		}
		if took, err := whole(); err != nil || took != 0 {
			t.Errorf("when those have had their time: %v after %v", err, took)
		}
		silent(atOnce * int(gateTime/handshakeTime+2))
		before := begun.Load()
		if took, err := whole(); !errors.Is(err, errCrowded) || took <= gateTime || took > gateTime+2*handshakeTime {
			t.Errorf("behind too many: %v after %v", err, took)
		}
		if took, err := whole(); err != nil || took != 0 || begun.Load()-before > atOnce*int64(gateTime/handshakeTime)+1 {
			t.Errorf("after those: %v after %v, %d have begun", err, took, begun.Load()-before)
		}
	})
}
