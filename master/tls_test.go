package master_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/api"
)

// run starts a master with the embedded server on a real socket and returns how to reach it.
func run(t *testing.T, o master.Options) api.RunInfo {
	t.Helper()
	ready := make(chan struct{})
	o.ID, o.DataDir, o.Ready = "m1", t.TempDir(), func(master.Info) { close(ready) }
	m, err := master.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Fatal("never ready")
	}
	info, err := api.ReadRunInfo(o.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestTheBusSpeaksTLSAlone(t *testing.T) {
	for name, o := range map[string]master.Options{
		"loopback":      {},
		"every address": {Host: "0.0.0.0", Names: []string{"bus.example.com"}},
	} {
		t.Run(name, func(t *testing.T) {
			info := run(t, o)
			c, err := api.Connect(api.ClientOptions{URL: info.URL, Creds: []byte(info.Creds), CA: info.CA})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Peels(t.Context(), ""); err != nil {
				t.Error(err)
			}
			if !filepath.IsAbs(info.CA) {
				t.Errorf("run.json names %s, which is found from one directory alone", info.CA)
			}
			if nc, err := nats.Connect(info.URL, nats.UserCredentialBytes([]byte(info.Creds))); err == nil {
				nc.Close()
				t.Error("it accepts a client that does not know its authority")
			}
			greeting := greetInTheClear(t, info.URL)
			if !strings.Contains(greeting, `"tls_required":true`) || strings.Contains(greeting, "PONG") {
				t.Errorf("without TLS the server says %q", greeting)
			}
		})
	}
}

// greetInTheClear returns all that the server says to a client that does not begin TLS.
func greetInTheClear(t *testing.T, server string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", u.Port()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("CONNECT {\"verbose\":true}\r\nPING\r\n")); err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(c) // the server ends it by a reset
	return string(said)
}
