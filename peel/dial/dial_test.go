package dial_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/dial"
)

// plainServer greets as a server without TLS does, and answers PING. It returns its address and what clients have sent.
func plainServer(t *testing.T) (address string, heard func() string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var sent strings.Builder
	var open sync.WaitGroup
	ended := make(chan struct{})
	open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("INFO {\"server_id\":\"x\",\"max_payload\":1024,\"connect_urls\":[\"192.0.2.9:4222\"]}\r\n"))
			open.Go(func() {
				defer c.Close()
				go func() { <-ended; _ = c.Close() }() // the client leaves a server that it refuses without a word
				buf := make([]byte, 4096)
				for {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					mu.Lock()
					sent.Write(buf[:n])
					mu.Unlock()
					if strings.Contains(string(buf[:n]), "PING") {
						_, _ = c.Write([]byte("PONG\r\n"))
					}
				}
			})
		}
	})
	t.Cleanup(func() { close(ended); _ = l.Close(); open.Wait() })
	return l.Addr().String(), func() string {
		mu.Lock()
		defer mu.Unlock()
		return sent.String()
	}
}

// A server that offers no encryption, by whatever name it is called, is told nothing.
func TestABusHasToEncrypt(t *testing.T) {
	address, heard := plainServer(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	here := nats.SetCustomDialer(dialer(func(network, _ string) (net.Conn, error) { return net.Dial(network, address) }))
	for _, host := range []string{"127.0.0.1", "localhost", "::1", "bus.example.com", "192.0.2.1", "2001:db8::1"} {
		for _, scheme := range []string{"nats://", "tls://", ""} {
			nc, err := nats.Connect(scheme+net.JoinHostPort(host, port), here, dial.Encrypted(), nats.Timeout(time.Minute))
			if nc != nil {
				nc.Close()
			}
			if !errors.Is(err, nats.ErrSecureConnWanted) {
				t.Errorf("%s%s: %v", scheme, host, err)
			}
		}
	}
	for _, url := range []string{"ws://" + address, "http://" + address, "tls://" + address + ",ws://" + address} {
		if nc, err := nats.Connect(url, dial.Encrypted()); err == nil || !strings.Contains(err.Error(), "want tls://") {
			nc.Close()
			t.Errorf("%s: %v", url, err)
		}
	}
	if said := heard(); said != "" {
		t.Errorf("the server was sent %q", said)
	}
}

type dialer func(network, address string) (net.Conn, error)

func (d dialer) Dial(network, address string) (net.Conn, error) { return d(network, address) }

// What a server says before TLS leads nobody elsewhere.
func TestAServerThatIsRefusedNamesNoOthers(t *testing.T) {
	address, _ := plainServer(t)
	refused := make(chan struct{}, 1)
	nc, err := nats.Connect("tls://"+address, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), dial.Encrypted(), nats.Timeout(time.Minute),
		nats.CustomReconnectDelay(func(int) time.Duration {
			select {
			case refused <- struct{}{}:
			default:
			}
			return time.Millisecond
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for range 3 {
		<-refused
	}
	if known := nc.Servers(); len(known) != 1 {
		t.Errorf("it would go to %v", known)
	}
}

func TestTLSIsNeverOlderThan13(t *testing.T) {
	o := nats.Options{TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if err := dial.Encrypted()(&o); err != nil || o.TLSConfig.MinVersion != tls.VersionTLS13 || !o.Secure {
		t.Errorf("%v, %+v", err, o.TLSConfig)
	}
}

func TestTheBusIsCheckedByTheAuthorityOfItsFileAlone(t *testing.T) {
	bus := natstest.Listen(t)
	own, err := os.ReadFile(bus.CA())
	if err != nil {
		t.Fatal(err)
	}
	other, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	creds, err := bus.Keys.Creds(grants.RolePeel, "web-01", 0)
	if err != nil {
		t.Fatal(err)
	}
	both := slices.Concat(creds, own)
	if token, err := nkeys.ParseDecoratedJWT(both); err != nil || !strings.Contains(string(creds), token) {
		t.Errorf("the JWT is not found beside certificates: %v", err)
	}
	if key, err := nkeys.ParseDecoratedUserNKey(both); err != nil || key == nil {
		t.Errorf("the key is not found beside certificates: %v", err)
	}
	for name, tc := range map[string]struct {
		text []byte
		want string // of the error; empty: there is none
	}{
		"the authority":              {own, ""},
		"one of several":             {slices.Concat(other.Bundle(), own), ""},
		"a credential that has it":   {both, ""},
		"another authority":          {other.Bundle(), "unknown authority"},
		"a credential with another":  {slices.Concat(creds, other.Bundle()), "unknown authority"},
		"a credential alone":         {creds, "unknown authority"}, // by the certificates of the system
		"a file without certificate": {[]byte("nothing"), "holds no certificate"},
		"a certificate cut short":    {slices.Concat(creds, own[:60]), "holds no certificate"},
		"no file":                    {nil, "no such file"},
	} {
		file := filepath.Join(t.TempDir(), "ca.crt")
		if tc.text != nil {
			if err := os.WriteFile(file, tc.text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		nc, err := nats.Connect(bus.URL(), nats.UserCredentialBytes(creds), dial.CheckedBy(file), dial.Encrypted(), nats.Timeout(time.Minute))
		if err == nil {
			nc.Close()
		}
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		// The file of a peel with a join token comes with the first reply of a master.
		hint := fmt.Sprint(dial.LogError(err, file)...)
		if absent := tc.text == nil; strings.Contains(hint, "the file to check it by is not there") != absent || strings.Contains(hint, "a peel with a join token gets it") != absent {
			t.Errorf("%s: %s", name, hint)
		}
	}
}

// FuzzRoots holds that a text without a certificate is refused unless it is a credential.
func FuzzRoots(f *testing.F) {
	ca, err := pki.Open(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(ca.Bundle())
	f.Add([]byte("-----BEGIN NATS USER JWT-----\nx\n------END NATS USER JWT------\n"))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		pool, err := dial.Roots(text)
		if err == nil && pool == nil && (!bytes.Contains(text, []byte("NATS USER JWT")) || bytes.Contains(text, []byte("BEGIN CERTIFICATE-----"))) {
			t.Errorf("%q would be checked by the certificates of the system", text)
		}
		if pool != nil && (err != nil || pool.Equal(x509.NewCertPool())) {
			t.Errorf("%q: an authority without certificates, %v", text, err)
		}
	})
}
