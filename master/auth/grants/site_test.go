package grants_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/enroll"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// siteCreds is a credential for a leaf node with the peels.
func siteCreds(t *testing.T, k *keystore.Keys, peels ...target.PeelID) []byte {
	t.Helper()
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	token, err := k.IssueSite("berlin", key.Public(), peels, 0)
	if err != nil {
		t.Fatal(err)
	}
	creds, err := key.Creds(token)
	if err != nil {
		t.Fatal(err)
	}
	return creds
}

// A server of a site that is in bad hands is the peels of the site, and nobody else.
func TestTheCredentialOfALargeSiteHasNotTooManyPermissions(t *testing.T) {
	const most = 4096 // of each kind, in the server
	g := grants.Permissions(grants.RoleSite)
	for kind, subjects := range map[string][]string{"publish": g.Publish, "subscribe": g.Subscribe} {
		n := 0
		for _, subject := range subjects {
			if n++; strings.Contains(subject, "{{tag(peel)}}") {
				n += grants.MaxSitePeels - 1
			}
		}
		if n > most {
			t.Errorf("%d subjects to %s, the server makes %d", n, kind, most)
		}
	}
}

func TestASiteSpeaksAndHearsForItsPeelsAlone(t *testing.T) {
	grants.LetSitesBeClients(t)
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		creds := siteCreds(t, b.Keys, "peel-a", "Web.01")
		nc, err := nats.Connect("", nats.InProcessServer(b), nats.UserCredentialBytes(creds), nats.ErrorHandler(notViolation(t, "berlin")))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		site := &party{nc}
		allowed := 0
		try := func(subject string, speak, hear bool) {
			t.Helper()
			if got := site.allows(t, func() error { return nc.Publish(subject, nil) }); got != speak {
				t.Errorf("publish %s: %v", subject, got)
			}
			got := site.allows(t, func() error {
				sub, err := nc.SubscribeSync(subject)
				if err == nil {
					err = nc.Flush()
				}
				if err == nil && sub.IsValid() {
					err = sub.Unsubscribe()
				}
				return err
			})
			if got != hear {
				t.Errorf("subscribe %s: %v", subject, got)
			}
			if speak || hear {
				allowed++
			}
		}
		for peel, own := range map[string]bool{"peel-a": true, "Web_01": true, "other": false, "berlin": false, "web_01": false} {
			for _, kinds := range subjects {
				for _, k := range kinds {
					speak := own && slices.Contains(k.speak, grants.RolePeel)
					hear := own && slices.Contains(k.own, grants.RolePeel) || slices.Contains(k.all, grants.RolePeel)
					try(k.of(jid, peel), speak, hear)
				}
			}
			for _, k := range beyond {
				try(k.of(jid, peel), false, false)
			}
		}
		for subject := range publishBeyond {
			try(subject, false, false)
		}
		for subject := range hearBeyond {
			try(subject, false, false)
		}
		if want := 2*15 + 5*3; allowed != want {
			t.Errorf("%d subjects are allowed, want %d", allowed, want)
		}
	})
}

// makeSite makes a credential as zester auth issue does, and returns it with its public key.
func makeSite(t *testing.T, k *keystore.Keys, name string) (creds []byte, public string) {
	t.Helper()
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	public = key.Public()
	issue := keystore.Entry{Role: grants.RoleSite, ID: name, Keys: []credential.Key{{Public: public, Issued: time.Now()}}}
	if _, err := keystore.Register(k.Dir(), issue, true); err != nil {
		t.Fatal(err)
	}
	token, err := k.IssueSite(name, public, []target.PeelID{"peel-a"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	creds, err = key.Creds(token)
	if err != nil {
		t.Fatal(err)
	}
	return creds, public
}

func TestARevokedSiteIsCutOffAtOnceAndForGood(t *testing.T) {
	grants.LetSitesBeClients(t)
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		for _, name := range []string{"berlin", "../berlin", ""} {
			if _, err := a.Hosts.RevokeSite(t.Context(), name, "ann"); !errors.Is(err, enroll.ErrNoSite) {
				t.Errorf("%q: %v", name, err)
			}
		}
		creds, public := makeSite(t, b.Keys, "berlin")
		other, _ := makeSite(t, b.Keys, "bonn")
		_, lost, err := join(t, b, "berlin", nats.UserCredentialBytes(creds))
		if err != nil {
			t.Fatal(err)
		}
		stays, _, err := join(t, b, "bonn", nats.UserCredentialBytes(other))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			s, err := a.Hosts.RevokeSite(t.Context(), "berlin", "ann")
			if err != nil || s.RevokedBy != "ann" || len(s.Keys) != 1 || s.Keys[0].Public != public {
				t.Fatal(s, err)
			}
		}
		synctest.Wait()
		select {
		case <-lost:
		default:
			t.Error("the connection goes on")
		}
		if !stays.IsConnected() {
			t.Error("another site's connection was cut, too")
		}
		in := func(when string, creds []byte, want bool) {
			t.Helper()
			nc, _, err := join(t, b, "berlin", nats.UserCredentialBytes(creds))
			if (err == nil) != want {
				t.Errorf("%s: %v", when, err)
			}
			if err == nil {
				nc.Close()
			}
		}
		in("a moment later", creds, false)
		b.Keys = open(t, b.Keys.Dir())
		b.Restart(t)
		in("by a server of another process", creds, false)
		in("the other", other, true)
		b.Conn(t, grants.RolePeel, "peel-a") // of that site, by itself
		again, _ := makeSite(t, b.Keys, "berlin")
		in("with another credential", again, true)
		if _, err := authority(t, b).Hosts.RevokeSite(t.Context(), "berlin", "ann"); err != nil {
			t.Fatal(err)
		}
		in("that was revoked, too", again, false)
		in("the first one still", creds, false)
	})
}

// What is signed for sites ends as what is signed for everybody.
func TestACredentialOfASiteEndsWithTheKeysThatSignedIt(t *testing.T) {
	grants.LetSitesBeClients(t)
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		creds := siteCreds(t, b.Keys, "peel-a")
		in := func() bool {
			nc, err := nats.Connect("", nats.InProcessServer(b), nats.UserCredentialBytes(creds))
			if err == nil {
				nc.Close()
			}
			return err == nil
		}
		for _, step := range []struct {
			change func() error
			in     bool
		}{{b.Keys.Rotate, true}, {b.Keys.Retire, false}} {
			if err := step.change(); err != nil {
				t.Fatal(err)
			}
			b.Restart(t)
			if in() != step.in {
				t.Errorf("let in: %v, want %v", !step.in, step.in)
			}
		}
	})
}

func TestASiteHasPeelsAndNotTooMany(t *testing.T) {
	k := open(t, t.TempDir()+"/auth")
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	many := make([]target.PeelID, grants.MaxSitePeels+1)
	for i := range many {
		many[i] = target.PeelID(fmt.Sprintf("peel-%d", i))
	}
	long := make([]target.PeelID, grants.MaxSitePeels)
	for i := range long {
		long[i] = target.PeelID(fmt.Sprintf("%0128d", i))
	}
	for _, peels := range [][]target.PeelID{nil, many, long, {"*"}, {"a b"}, {"web-01", ""}} {
		if _, err := k.IssueSite("berlin", key.Public(), peels, 0); err == nil {
			t.Errorf("a credential for %d peels: %.20q", len(peels), peels)
		}
	}
}

func TestTheCredentialOfASiteIsNoClients(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		creds, _ := makeSite(t, b.Keys, "berlin")
		if _, _, err := join(t, b, "berlin", nats.UserCredentialBytes(creds)); err == nil {
			t.Error("a client with it is let in")
		}
		b.Conn(t, grants.RolePeel, "peel-a") // of the same account
	})
}
