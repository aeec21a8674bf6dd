package wire_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A server that offers no encryption, by whatever name it is called, is used on this host alone.
func TestABusElsewhereHasToEncrypt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("INFO {\"server_id\":\"x\",\"max_payload\":1024}\r\n"))
			go func() {
				buf := make([]byte, 4096)
				for {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					if strings.Contains(string(buf[:n]), "PING") {
						_, _ = c.Write([]byte("PONG\r\n"))
					}
				}
			}()
		}
	}()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	here := nats.SetCustomDialer(dialer(func(network, _ string) (net.Conn, error) { return net.Dial(network, l.Addr().String()) }))
	for host, refused := range map[string]bool{"127.0.0.1": false, "localhost": false, "bus.example.com": true, "192.0.2.1": true, "[2001:db8::1]": true} {
		nc, err := nats.Connect("nats://"+net.JoinHostPort(strings.Trim(host, "[]"), port), here, wire.Encrypted(), nats.Timeout(time.Minute))
		if nc != nil {
			nc.Close()
		}
		if refused != errors.Is(err, nats.ErrSecureConnWanted) || !refused && err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

type dialer func(network, address string) (net.Conn, error)

func (d dialer) Dial(network, address string) (net.Conn, error) { return d(network, address) }
