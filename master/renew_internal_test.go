package master

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/enroll"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/bus"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// life is how long the credentials of these tests last: a test of 200 days takes minutes. No credential ends when another is asked for, at
// a whole hour: a request that waits for a connection that is being made stops the bubble.
const life = 3*time.Hour + 50*time.Minute

// issueMaster writes the credential that zester auth issue makes for a master.
func issueMaster(t *testing.T, b *natstest.Bus, name string) (file string) {
	t.Helper()
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	entry := keystore.Entry{Role: grants.RoleMaster, ID: name, Keys: []credential.Key{{Public: key.Public(), Issued: now, Expires: now.Add(life)}}}
	if _, err := keystore.Register(b.Keys.Dir(), entry, false); err != nil {
		t.Fatal(err)
	}
	token, err := b.Keys.Issue(grants.RoleMaster, name, key.Public(), life)
	if err != nil {
		t.Fatal(err)
	}
	creds, err := key.Creds(token)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), name+".creds")
	if err := os.WriteFile(file, append(creds, "-----BEGIN CERTIFICATE-----\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// keyless connects a master by its file and keeps its credential, as a whole master does.
func keyless(t *testing.T, b *natstest.Bus, name string) (file string, nc *nats.Conn, stop func()) {
	t.Helper()
	file = issueMaster(t, b, name)
	nc, err := nats.Connect(b.URL(), nats.InProcessServer(b), nats.UserCredentials(file), nats.MaxReconnects(-1),
		nats.CustomInboxPrefix(grants.RoleMaster.Inbox(name)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = newRenewal(file, nc, slog.New(slog.DiscardHandler)).run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(func() { stop(); nc.Close() })
	return file, nc, stop
}

// issuerOn serves renewals as a master with the keys does.
func issuerOn(t *testing.T, b *natstest.Bus) *auth.Authority {
	t.Helper()
	a, err := auth.NewAuthority(t.Context(), auth.AuthorityOptions{
		Keys: b.Keys, JetStream: b.JetStream(t), Update: b.Update,
	})
	if err != nil {
		t.Fatal(err)
	}
	nc := b.Conn(t, grants.RoleMaster, "issuer", nats.MaxReconnects(-1))
	s := bus.NewService(t.Context(), nc)
	t.Cleanup(s.Stop)
	err = s.Handle(wire.API("master", "renew", "*"), func(r *bus.Request) {
		var q credential.Renewal
		err := canon.Unmarshal(r.Data(), &q)
		var data []byte
		if err == nil {
			var renewed *credential.Renewed
			if renewed, err = a.Hosts.RenewMaster(t.Context(), q); err == nil {
				data, err = canon.Marshal(renewed)
			}
		}
		_ = bus.SendReply(nc, r, data, string(api.CodeConflict), err)
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func ends(t *testing.T, file string) time.Time {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	own, err := credential.ReadOwn(text)
	if err != nil || !strings.HasSuffix(string(text), "-----BEGIN CERTIFICATE-----\n") {
		t.Fatalf("%v\n%s", err, text)
	}
	return own.Expires
}

// Two masters without the keys have credentials that would have ended twice when one of them is revoked.
func TestAMasterKeepsItsBusUnlessItIsRevoked(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := issuerOn(t, b)
		file, m1, _ := keyless(t, b, "m1")
		lost, m2, stop := keyless(t, b, "m2")
		time.Sleep(5 * life / 2)
		for name, nc := range map[string]*nats.Conn{"m1": m1, "m2": m2} {
			if err := nc.FlushTimeout(time.Second); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		held, err := a.Held(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		listed := 0
		for _, h := range held {
			if h.Role == grants.RoleMaster && time.Until(h.Expires) > 0 {
				listed++
			}
		}
		if listed != 2 {
			t.Errorf("the list: %+v", held)
		}

		if _, err := a.Hosts.RevokeMaster(t.Context(), "m2", "ann"); err != nil {
			t.Fatal(err)
		}
		ended, err := a.Hosts.EndedMasters(t.Context())
		if err != nil || len(ended) != 1 {
			t.Fatalf("%v, %v", ended, err)
		}
		for public, end := range ended {
			if end.Expires.Before(ends(t, lost)) {
				t.Errorf("the end of %s is forgotten at %v, its credential ends at %v", public, end.Expires, ends(t, lost))
			}
		}
		last := ends(t, lost)
		time.Sleep(155 * time.Minute) // it asks, and is refused
		stop()
		m2.Close()
		time.Sleep(3 * life / 2)
		if err := m1.FlushTimeout(time.Second); err != nil || time.Until(ends(t, file)) < 0 {
			t.Errorf("m1: %v, its credential ends at %v", err, ends(t, file))
		}
		if !ends(t, lost).Equal(last) || time.Now().Before(last) {
			t.Errorf("the revoked master has a credential until %v, and had one until %v", ends(t, lost), last)
		}
	})
}

// Whoever has seen a credential without its key, or has a key without a credential of the masters, gets nothing.
func TestACredentialIsRenewedForItsKeyAlone(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := issuerOn(t, b)
		read := func(file string) *credential.Own {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			own, err := credential.ReadOwn(text)
			if err != nil {
				t.Fatal(err)
			}
			return own
		}
		request := func(own *credential.Own) credential.Renewal {
			q, err := own.Renewal()
			if err != nil {
				t.Fatal(err)
			}
			return q
		}
		good, other := request(read(issueMaster(t, b, "m1"))), request(read(issueMaster(t, b, "m2")))
		mixed := credential.Renewal{Token: good.Token, Proof: other.Proof}
		creds, err := b.Keys.Creds(grants.RoleOperator, "eve", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		eve, err := credential.ReadOwn(creds)
		if err != nil {
			t.Fatal(err)
		}
		if creds, err = b.Keys.Creds(grants.RoleMaster, "m3", 0); err != nil {
			t.Fatal(err)
		}
		endless, err := credential.ReadOwn(creds)
		if err != nil {
			t.Fatal(err)
		}
		elsewhere, err := keystore.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if creds, err = elsewhere.Creds(grants.RoleMaster, "m1", time.Hour); err != nil {
			t.Fatal(err)
		}
		stranger, err := credential.ReadOwn(creds)
		if err != nil {
			t.Fatal(err)
		}
		for name, q := range map[string]credential.Renewal{
			"another key": mixed, "no proof": {Token: good.Token}, "an operator": request(eve), "no end": request(endless),
			"other keys": request(stranger), "nothing": {},
		} {
			if r, err := a.Hosts.RenewMaster(t.Context(), q); err == nil {
				t.Errorf("%s: renewed: %+v", name, r)
			}
		}
		if _, err := a.Hosts.RenewMaster(t.Context(), good); err != nil {
			t.Errorf("the key itself: %v", err)
		}
		time.Sleep(life + time.Second)
		if _, err := a.Hosts.RenewMaster(t.Context(), good); err == nil {
			t.Error("a credential that has ended is renewed")
		}
	})
}

// A credential that was made before its master was revoked gets no other, also if no register names its key. One that was
// made since does.
func TestACredentialOfARevokedMasterIsRenewedIfItIsNewer(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := issuerOn(t, b)
		issueMaster(t, b, "m1")
		request := func() credential.Renewal {
			creds, err := b.Keys.Creds(grants.RoleMaster, "m1", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			own, err := credential.ReadOwn(creds)
			if err != nil {
				t.Fatal(err)
			}
			q, err := own.Renewal()
			if err != nil {
				t.Fatal(err)
			}
			return q
		}

		older := request()
		time.Sleep(time.Minute)
		if _, err := a.Hosts.RevokeMaster(t.Context(), "m1", "ann"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		newer := request()

		if r, err := a.Hosts.RenewMaster(t.Context(), older); !errors.Is(err, enroll.ErrRevokedMaster) {
			t.Errorf("a credential of before: %+v, %v", r, err)
		}
		if _, err := a.Hosts.RenewMaster(t.Context(), newer); err != nil {
			t.Errorf("a credential of after: %v", err)
		}
	})
}
