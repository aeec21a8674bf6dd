package enroll

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/auth/enroll"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
)

// A site is a master's HTTP and the keys and authority behind it.
type site struct {
	keys  *keystore.Keys
	ca    *pki.CA
	life  time.Duration
	asked atomic.Int32
	token string // of the last request
	down  atomic.Bool
}

func newSite(t *testing.T) *site {
	t.Helper()
	keys, err := keystore.Open(filepath.Join(t.TempDir(), "auth"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.Open(filepath.Join(t.TempDir(), "tls"))
	if err != nil {
		t.Fatal(err)
	}
	return &site{keys: keys, ca: ca, life: enroll.PeelLife}
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	var q enroll.Request
	err := json.NewDecoder(r.Body).Decode(&q)
	if err != nil || s.down.Load() || r.URL.Path != "/api/v1/enroll" {
		http.Error(w, `{"detail": "not now"}`, http.StatusServiceUnavailable)
		return
	}
	s.token = q.Token
	token, err := s.keys.Issue(grants.RolePeel, q.ID.Wire(), q.Public, s.life)
	if err == nil {
		err = json.NewEncoder(w).Encode(map[string]string{"jwt": token, "ca": string(s.ca.Bundle())})
	}
	if err != nil {
		http.Error(w, `{"detail": "no"}`, http.StatusInternalServerError)
	}
}

// serve listens with TLS and returns the address.
func (s *site) serve(t *testing.T) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", s.ca.Config())
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: s, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go func() { _ = web.Serve(l) }()
	t.Cleanup(func() { _ = web.Close() })
	return l.Addr().String()
}

func joiner(t *testing.T, dir, join string) *Joiner {
	t.Helper()
	j, err := New(Options{ID: "web.01", DataDir: dir, Join: join, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestAHostJoinsTheMasterOfItsTokenAndNoOther(t *testing.T) {
	s, dir := newSite(t), filepath.Join(t.TempDir(), "peel")
	address := s.serve(t)
	j := joiner(t, dir, "zester.web.secret."+s.ca.Pin()+"@"+address)
	if err := j.request(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.token != "zester.web.secret" {
		t.Errorf("the token was %q", s.token)
	}
	for name, want := range map[string]os.FileMode{"": 0o700, keyFile: 0o600, CredsFile: 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%q: %v, %v", name, info.Mode(), err)
		}
	}
	creds, err := os.ReadFile(filepath.Join(dir, CredsFile))
	if err != nil {
		t.Fatal(err)
	}
	key, err := nkeys.ParseDecoratedUserNKey(creds)
	if err != nil {
		t.Fatal(err)
	}
	if public, err := key.PublicKey(); err != nil || public != joiner(t, dir, address).public {
		t.Errorf("the key was not kept: %s, %v", public, err)
	}

	other := newSite(t)
	impostor := joiner(t, t.TempDir()+"/peel", "zester.web.secret."+s.ca.Pin()+"@"+other.serve(t))
	if err := impostor.request(t.Context()); err == nil || other.asked.Load() != 0 {
		t.Errorf("another master was told the token: %v", err)
	}
	if j := joiner(t, t.TempDir()+"/peel", "zester.web.secret.@"+address); j.client.Transport.(*http.Transport).TLSClientConfig.InsecureSkipVerify {
		t.Error("an empty pin is anybody's")
	}
}

func TestAPinnedMasterStaysKnownWhenItsAuthorityIsRotated(t *testing.T) {
	s, dir := newSite(t), filepath.Join(t.TempDir(), "peel")
	address := s.serve(t)
	old := "zester.web.secret." + s.ca.Pin() + "@" + address
	member, away := joiner(t, dir, old), joiner(t, t.TempDir()+"/peel", old)
	for _, j := range []*Joiner{member, away} {
		if err := j.request(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.ca.Rotate(); err != nil {
		t.Fatal(err)
	}
	if err := member.request(t.Context()); err != nil {
		t.Errorf("who knows the former alone: %v", err)
	}
	if err := joiner(t, t.TempDir()+"/peel", old).request(t.Context()); err != nil {
		t.Errorf("who has an old join token: %v", err)
	}
	fresh := "zester.web.secret." + s.ca.Pin() + "@" + address
	if err := joiner(t, t.TempDir()+"/peel", fresh).request(t.Context()); err != nil {
		t.Errorf("who has a new one: %v", err)
	}
	if err := s.ca.Retire(); err != nil {
		t.Fatal(err)
	}
	if err := member.request(t.Context()); err != nil {
		t.Errorf("who was renewed in between: %v", err)
	}
	if err := away.request(t.Context()); err == nil {
		t.Error("who knows the former alone goes on after its end")
	}
	if err := joiner(t, t.TempDir()+"/peel", old).request(t.Context()); err == nil {
		t.Error("an old join token opens what is retired")
	}
}

func TestFilesThatOthersMayUseAreRefused(t *testing.T) {
	s := newSite(t)
	join := "zester.web.secret." + s.ca.Pin() + "@" + s.serve(t)
	for _, name := range []string{"", keyFile, CredsFile} {
		dir := filepath.Join(t.TempDir(), "peel")
		if err := joiner(t, dir, join).request(t.Context()); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, info.Mode().Perm()|0o040); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Options{ID: "web.01", DataDir: dir, Join: join}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestACredentialForSomebodyElseIsNotKept(t *testing.T) {
	s, dir := newSite(t), filepath.Join(t.TempDir(), "peel")
	j := joiner(t, dir, "zester.web.secret."+s.ca.Pin()+"@"+s.serve(t))
	for _, a := range []reply{
		{},
		{JWT: "a.b.c", CA: string(s.ca.Bundle())},
		{JWT: issue(t, s, "web_02", j.public), CA: string(s.ca.Bundle())},
		{JWT: issue(t, s, "web_01", joiner(t, t.TempDir()+"/peel", "127.0.0.1:1").public), CA: string(s.ca.Bundle())},
		{JWT: issue(t, s, "web_01", j.public)},
	} {
		if err := j.store(a); err == nil {
			t.Errorf("%.20s was kept", a.JWT)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, CredsFile)); !os.IsNotExist(err) {
		t.Error(err)
	}
}

func issue(t *testing.T, s *site, name, public string) string {
	t.Helper()
	token, err := s.keys.Issue(grants.RolePeel, name, public, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestWhatIsNoAddressOrPinIsRefused(t *testing.T) {
	for _, join := range []string{"", "master", "token@master", "zester.web.secret.short@master:443", "zester.web.secret." + strings.Repeat("!", 43) + "@master:443"} {
		if _, err := New(Options{ID: "web.01", DataDir: t.TempDir(), Join: join}); err == nil || !strings.HasPrefix(err.Error(), "cannot join") {
			t.Errorf("%q: %v", join, err)
		}
	}
}

// TestATokenWithoutAnAddressIsNotPrinted: the error is in the journal, and the token is a secret.
func TestATokenWithoutAnAddressIsNotPrinted(t *testing.T) {
	for _, join := range []string{"zester.web.secret", "zester.web.secret." + strings.Repeat("a", 43), "zester.web.secret@master"} {
		_, err := New(Options{ID: "web.01", DataDir: t.TempDir(), Join: join})
		if err == nil || !strings.Contains(err.Error(), "HOST:PORT") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", join, err)
		}
	}
}

func TestATokenThatWasNotFilledInIsNamed(t *testing.T) {
	_, err := New(Options{ID: "web.01", DataDir: t.TempDir(), Join: "TOKEN@master:8440"})
	if err == nil || !strings.Contains(err.Error(), "zester auth join-token create prints one") {
		t.Errorf("the placeholder of the guide: %v", err)
	}
}

// TestACredentialIsRenewedEveryDay asks over pipes, in fake time.
func TestACredentialIsRenewedEveryDay(t *testing.T) {
	for name, want := range map[string]struct {
		life time.Duration
		day  int32 // asked in one day
	}{
		"a month": {enroll.PeelLife, 1},
		"3 hours": {3 * time.Hour, 12},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newSite(t), filepath.Join(t.TempDir(), "peel")
			s.life = want.life
			synctest.Test(t, func(t *testing.T) {
				j := joiner(t, dir, "127.0.0.1:1")
				j.client.Transport = &http.Transport{DisableKeepAlives: true, DialTLSContext: s.pipe}
				s.down.Store(true)
				ctx, cancel := context.WithCancel(t.Context())
				fresh := 0
				ended := make(chan error, 1)
				go func() { ended <- j.Run(ctx, func() { fresh++ }) }()
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if n := s.asked.Load(); n < 54 || n > 67 || fresh != 0 {
					t.Errorf("asked %d times in ten minutes, got %d", n, fresh)
				}
				s.down.Store(false)
				time.Sleep(time.Minute)
				s.asked.Store(0)
				time.Sleep(24 * time.Hour)
				synctest.Wait()
				if n := s.asked.Load(); n != want.day {
					t.Errorf("asked %d times in a day, want %d", n, want.day)
				}
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// pipe is in place of a connection with TLS, which no test in fake time needs.
func (s *site) pipe(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go func() { _ = (&http.Server{Handler: s}).Serve(&once{conn: server}) }()
	return client, nil
}

// once is a listener with one connection.
type once struct{ conn net.Conn }

func (l *once) Accept() (net.Conn, error) {
	if l.conn == nil {
		return nil, net.ErrClosed
	}
	conn := l.conn
	l.conn = nil
	return conn, nil
}
func (l *once) Close() error   { return nil }
func (l *once) Addr() net.Addr { return &net.UnixAddr{} }

func TestADirectoryThatOthersMayReadIsTakenOverWhileItIsEmpty(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "peel")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	o := Options{ID: "web-01", DataDir: dir, Join: "127.0.0.1:1", Log: slog.New(slog.DiscardHandler)}
	if _, err := New(o); err != nil {
		t.Fatalf("an empty one: %v", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "run chmod go= "+dir) {
		t.Errorf("one with a key: %v", err)
	}
}
