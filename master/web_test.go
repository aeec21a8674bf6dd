package master_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

// listening passes on where REST is served, from the log.
type listening struct {
	slog.Handler
	at chan string
}

func (l listening) Enabled(context.Context, slog.Level) bool { return true }
func (l listening) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l listening) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "REST is served" {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "listen" {
				l.at <- a.Value.String()
			}
			return true
		})
	}
	return nil
}

// TestOtherHostsReachRESTByTheMastersOwnAuthority also holds that a master that waits for its bus says that it lives.
// It uses real sockets.
func TestOtherHostsReachRESTByTheMastersOwnAuthority(t *testing.T) {
	b, dir := natstest.Listen(t), t.TempDir()
	options := b.Options(grants.RoleMaster, "m1")
	b.Stop(t)
	at, ready := make(chan string, 1), make(chan struct{})
	m, err := master.New(master.Options{
		ID: "m1", DataDir: dir, NATS: b.URL(), Connect: options, Names: []string{"master.example.com"},
		REST: master.REST{Listen: "0.0.0.0:0"}, Log: slog.New(listening{slog.DiscardHandler, at}), Ready: func(master.Info) { close(ready) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	_, port, err := net.SplitHostPort(<-at)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(dir, "tls", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "master.example.com"}}}
	defer client.CloseIdleConnections()
	gives := func(path string, want int) {
		t.Helper()
		resp, err := client.Get("https://127.0.0.1:" + port + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
	gives("/healthz", 200)
	gives("/readyz", 503)
	b.Start(t)
	<-ready
	gives("/readyz", 200)
	gives("/api/v1/jobs", 401)
	if resp, err := http.Get("http://127.0.0.1:" + port + "/healthz"); err == nil && resp.StatusCode == 200 {
		t.Error("it is served without encryption, too")
	}
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
