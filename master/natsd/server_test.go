package natsd_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/dial"
)

func options(t *testing.T) natsd.Options {
	t.Helper()
	keys, err := keystore.Open(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.Open(filepath.Join(t.TempDir(), "tls"))
	if err != nil {
		t.Fatal(err)
	}
	return natsd.Options{Dir: t.TempDir(), Trust: natsd.Trust(keys.Trust()), TLS: ca.Config(), Log: slog.New(slog.DiscardHandler)}
}

// anyCertificate has a client take whatever certificate the server shows.
func anyCertificate() nats.Option { return nats.Secure(&tls.Config{InsecureSkipVerify: true}) }

func run(t *testing.T, o natsd.Options) *natsd.Server {
	t.Helper()
	s, err := natsd.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

func TestItListensOnLoopbackUnlessTold(t *testing.T) {
	if url := run(t, options(t)).URL(); !strings.HasPrefix(url, "tls://127.0.0.1:") {
		t.Errorf("listens on %s", url)
	}
}

func TestWithoutSocketsItHasNoURL(t *testing.T) {
	o := options(t)
	o.DontListen = true
	if url := run(t, o).URL(); url != "" {
		t.Errorf("listens on %s", url)
	}
}

func TestAPortInUseIsAnErrorThatNamesIt(t *testing.T) {
	u, err := url.Parse(run(t, options(t)).URL())
	if err != nil {
		t.Fatal(err)
	}
	o := options(t)
	if o.Port, err = strconv.Atoi(u.Port()); err != nil {
		t.Fatal(err)
	}
	s, err := natsd.New(o)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Start()
	if e, ok := errors.AsType[*dial.BusError](err); !ok || !strings.Contains(err.Error(), u.Port()) || !strings.Contains(e.Hint, "--nats URL") {
		t.Errorf("got %v", err)
	}
	o.Port = 0
	run(t, o)
}

func TestASecondServerOnAStoreIsRefused(t *testing.T) {
	o := options(t)
	run(t, o)
	s, err := natsd.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err == nil || !strings.Contains(err.Error(), o.Dir) || !strings.Contains(err.Error(), "another server") {
		t.Errorf("got %v", err)
	}
}

func TestAStoreThatCannotBeMadeIsAnError(t *testing.T) {
	o := options(t)
	o.Dir = filepath.Join(o.Dir, "file")
	if err := os.WriteFile(o.Dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := natsd.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err == nil || !strings.Contains(err.Error(), o.Dir) {
		t.Errorf("got %v", err)
	}
}

func TestNewRefusesWhatItCannotTrust(t *testing.T) {
	good, other := options(t), options(t)
	for name, tc := range map[string]struct {
		spoil func(o *natsd.Options)
		want  string
	}{
		"no certificate":     {func(o *natsd.Options) { o.TLS = nil }, "no certificate"},
		"no directory":       {func(o *natsd.Options) { o.Dir = "" }, "no directory"},
		"no trust":           {func(o *natsd.Options) { o.Trust = natsd.Trust{} }, "operator's JWT"},
		"no system account":  {func(o *natsd.Options) { o.Trust.SystemAccount = "" }, "system account"},
		"another's accounts": {func(o *natsd.Options) { o.Trust.Operator = other.Trust.Operator }, "signed by"},
		"no JWT":             {func(o *natsd.Options) { o.Trust.Accounts = map[string]string{o.Trust.SystemAccount: "x"} }, "JWT of account"},
	} {
		o := good
		tc.spoil(&o)
		if _, err := natsd.New(o); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestARefusedConnectionIsLogged(t *testing.T) {
	var log bytes.Buffer
	o := options(t)
	o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s, err := natsd.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if nc, err := nats.Connect(s.URL(), anyCertificate()); err == nil {
			nc.Close()
			t.Error("connected without a credential")
		}
	}
	s.Shutdown()
	if n := strings.Count(log.String(), "authentication error"); n != 1 {
		t.Errorf("logged %d times: %q", n, log.String())
	}
}

// Whoever reaches the port can open connections and break them off, without a credential.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	var log bytes.Buffer
	o := options(t)
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	s, err := natsd.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "tls://"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = conn.Write([]byte("\x16\x03\x01\x00\x05hello")) // a TLS record that holds no handshake
		_, _ = io.Copy(io.Discard, conn)                         // until the server ends the connection
		if err := errors.Join(err, conn.Close()); err != nil {
			t.Fatal(err)
		}
	}
	s.Shutdown()
	if n := strings.Count(log.String(), "TLS handshake error"); n != 1 {
		t.Errorf("logged %d times: %q", n, log.String())
	}
}

func TestARefusedMessageIsLoggedAndKnownAsSuch(t *testing.T) {
	keys, err := keystore.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var log told
	o := options(t)
	o.Trust, o.Log = natsd.Trust(keys.Trust()), slog.New(&log)
	s := run(t, o)
	creds, err := keys.Creds(grants.RoleAuditor, "eve", 0)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(s.URL(), nats.UserCredentialBytes(creds), anyCertificate(), nats.Timeout(time.Minute), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = nc.SubscribeSync("zester.>")
	if err := errors.Join(err, nc.Publish("zester.dispatch.eve", nil), nc.Publish("zester.api.job.list.eve", nil), nc.Flush()); err != nil {
		t.Error(err)
	}
	nc.Close()
	log.mu.Lock()
	defer log.mu.Unlock()
	refused := slices.DeleteFunc(slices.Clone(log.records), func(r slog.Record) bool { return !natsd.Refused(r) })
	if len(refused) != 2 || !strings.Contains(refused[0].Message, "zester.>") || !strings.Contains(refused[1].Message, "zester.dispatch.eve") {
		t.Errorf("refused: %v", refused)
	}
}

func TestAnOpenServerLetsEverybodyInOnLoopbackAlone(t *testing.T) {
	s := natsd.NewOpen(t.TempDir(), slog.New(slog.DiscardHandler))
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	nc, err := nats.Connect(s.URL(), nats.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if !strings.HasPrefix(s.URL(), "nats://127.0.0.1:") || nc.TLSRequired() {
		t.Errorf("it listens on %s, encrypted %v", s.URL(), nc.TLSRequired())
	}
}

// told keeps what is logged.
type told struct {
	slog.Handler
	mu      sync.Mutex
	records []slog.Record
}

func (l *told) Enabled(context.Context, slog.Level) bool { return true }

func (l *told) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r)
	return nil
}

func TestAMessageAboveTheLimitIsRefusedByTheServer(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		if got := b.Conn(t, grants.RoleMaster, "m1").MaxPayload(); got != 1<<20 {
			t.Errorf("the limit is %d bytes", got)
		}
	})
}
