package console_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// beside starts a second master on the bus of a fleet, and returns the fleet as browsers of that master see it.
func (f *fleet) beside(t *testing.T) *fleet {
	t.Helper()
	creds, err := f.keys.Creds(grants.RoleMaster, "m2", 0)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(f.dir, "m2.creds")
	if err := os.WriteFile(file, creds, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other := *f
	other.address = l.Addr().String()
	_ = l.Close() // the master listens there
	data := filepath.Join(f.dir, "master2")
	ready := make(chan struct{})
	m, err := master.New(master.Options{
		ID: "m2", DataDir: data, NATS: f.bus, CA: f.ca(), Creds: file, REST: master.REST{Listen: other.address},
		Ready: func(master.Info) { close(ready) },
	})
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
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	case <-ready:
	}
	other.authority = filepath.Join(data, "tls", "ca.crt")
	return &other
}

// TestASessionEndsOnAllMasters holds that a logout everywhere, and the end of a person, close the pages and streams of a
// session on the master that was told and on the other, within a second.
func TestASessionEndsOnAllMasters(t *testing.T) {
	f := theFleet(t)
	other := f.beside(t)
	for name, end := range map[string]func(t *testing.T, user string, here *browser){
		"logout everywhere": func(t *testing.T, _ string, here *browser) {
			if got := here.post("/logout-all", nil); got.status != http.StatusSeeOther {
				t.Fatalf("%d\n%s", got.status, got.body)
			}
		},
		"revoked": func(t *testing.T, user string, _ *browser) {
			if _, err := api.UserRevoke.Ask(t.Context(), f.local, api.RevokeRequest{Name: user}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			user := strings.Fields(name)[0]
			creds, _, err := f.local.UserAdd(t.Context(), credential.UserRequest{Name: user, Role: grants.RoleAuditor})
			if err != nil {
				t.Fatal(err)
			}
			f.people[user] = f.connect(t, creds)
			here, there := f.login(t, user), other.login(t, user)
			var streams []<-chan time.Time
			for _, b := range []*browser{here, there} {
				if got := b.get("/jobs"); got.status != http.StatusOK {
					t.Fatalf("before: %d", got.status)
				}
				streams = append(streams, b.endOfStream())
			}
			began := time.Now()
			end(t, user, here)
			for i, b := range []*browser{here, there} {
				select {
				case at := <-streams[i]:
					t.Logf("master %d: the stream ended after %v", i+1, at.Sub(began))
					if at.Sub(began) > time.Second {
						t.Errorf("master %d: the stream ended after %v", i+1, at.Sub(began))
					}
				case <-time.After(patience):
					t.Fatalf("master %d: the stream goes on", i+1)
				}
				if got := b.get("/jobs"); got.status != http.StatusSeeOther || !strings.HasPrefix(got.header.Get("Location"), "/login") {
					t.Errorf("master %d: a page: %d", i+1, got.status)
				}
			}
		})
	}
}

// endOfStream opens a stream, waits for its first event, and returns when the stream ends.
func (b *browser) endOfStream() <-chan time.Time {
	b.t.Helper()
	lines := bufio.NewScanner(b.listen().Body)
	if !lines.Scan() {
		b.t.Fatalf("the stream has no event: %v", lines.Err())
	}
	ended := make(chan time.Time, 1)
	go func() {
		for lines.Scan() {
		}
		ended <- time.Now()
	}()
	return ended
}
