package auth_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/enroll"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A host is one that would be a peel: it has a key.
type host struct {
	id     target.PeelID
	key    nkeys.KeyPair
	public string
}

func newHost(t *testing.T, id target.PeelID) *host {
	t.Helper()
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return &host{id, key, public}
}

func (h *host) request(token string) enroll.Request {
	proof, err := h.key.Sign(enroll.Proof(h.id, h.public))
	if err != nil {
		panic(err)
	}
	return enroll.Request{ID: h.id, Public: h.public, Proof: base64.RawURLEncoding.EncodeToString(proof), Token: token, From: "192.0.2.7"}
}

// ask wants an answer, nil for a credential, and returns the credential.
func (h *host) ask(t *testing.T, a *auth.Authority, token string, want error) string {
	t.Helper()
	text, _, err := a.Hosts.Enroll(t.Context(), h.request(token))
	if !errors.Is(err, want) || (text == "") != (want != nil) {
		t.Fatalf("%s got %.10q, %v; want %v", h.id, text, err, want)
	}
	return text
}

func (h *host) connect(t *testing.T, b *natstest.Bus, jwt string) (nc *nats.Conn, lost <-chan struct{}, err error) {
	t.Helper()
	ended := make(chan struct{})
	nc, err = nats.Connect(b.URL(), nats.InProcessServer(b), nats.UserJWT(func() (string, error) { return jwt, nil }, h.key.Sign),
		nats.NoReconnect(), nats.CustomInboxPrefix(grants.RolePeel.Inbox(h.id.Wire())),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), nats.ClosedHandler(func(*nats.Conn) { close(ended) }))
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, ended, err
}

func joinToken(t *testing.T, a *auth.Authority, q credential.JoinRequest) string {
	t.Helper()
	text, hash := credential.NewSecret(q.Name)
	q.Hash = hash
	if _, _, err := a.Hosts.AddJoinToken(t.Context(), q, "ann"); err != nil {
		t.Fatal(err)
	}
	return text
}

func enrolled(t *testing.T, a *auth.Authority, id target.PeelID) credential.Enrolled {
	t.Helper()
	all, err := a.Hosts.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.ID == id {
			return e
		}
	}
	t.Fatalf("%s is none of %v", id, all)
	return credential.Enrolled{}
}

func TestAJoinTokenLetsInAsManyOfItsPeelsAsItSaysUntilItEnds(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		token := joinToken(t, a, credential.JoinRequest{Name: "web", Peel: "web-*", Uses: 2, TTL: time.Hour})
		first, second, third := newHost(t, "web-01"), newHost(t, "web.02"), newHost(t, "web-03")
		newHost(t, "db-01").ask(t, a, token, enroll.ErrJoinPeel)
		newHost(t, "web-09").ask(t, a, token+"x", enroll.ErrJoinUnknown)
		newHost(t, "web-09").ask(t, a, strings.Replace(token, ".web.", ".bew.", 1), enroll.ErrJoinUnknown)
		jwt := first.ask(t, a, token, nil)
		if _, _, err := first.connect(t, b, jwt); err != nil {
			t.Error(err)
		}
		again := first.ask(t, a, token, nil) // it is accepted, and asks for nothing but a renewal
		if _, _, err := first.connect(t, b, again); err != nil {
			t.Error(err)
		}
		newHost(t, "web-02").ask(t, a, token, nil)
		third.ask(t, a, token, enroll.ErrJoinEnded)
		_, _, err := a.Hosts.Enroll(t.Context(), third.request(token))
		if want := "none of its uses is left, 2 were taken; zester auth join-token create makes another"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a token that is used up: %v, want %s", err, want)
		}
		second.ask(t, a, "", enroll.ErrPending)
		tokens, err := a.Hosts.JoinTokens(t.Context())
		if err != nil || len(tokens) != 1 || tokens[0].Uses != 0 || tokens[0].Used != 2 || tokens[0].CreatedBy != "ann" {
			t.Error(tokens, err)
		}
		if e := enrolled(t, a, "web-01"); e.State != credential.Accepted || e.History[1].By != "token:web" || e.From != "192.0.2.7" {
			t.Errorf("%+v", e)
		}
		short := joinToken(t, a, credential.JoinRequest{Name: "short", Peel: "*", Uses: 9, TTL: time.Minute})
		ended := joinToken(t, a, credential.JoinRequest{Name: "ended", Peel: "*", Uses: 9, TTL: time.Hour})
		if _, err := a.Hosts.EndJoinToken(t.Context(), "ended"); err != nil {
			t.Error(err)
		}
		newHost(t, "x").ask(t, a, ended, enroll.ErrJoinEnded)
		time.Sleep(time.Minute)
		newHost(t, "x").ask(t, a, short, enroll.ErrJoinEnded)
	})
}

// Hosts of one image start at once, with one token.
func TestHostsThatJoinAtOnceUseATokenUpExactly(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		token := joinToken(t, a, credential.JoinRequest{Name: "image", Peel: "web-*", Uses: 5, TTL: time.Hour})
		let, refused := 0, 0
		var mu sync.Mutex
		var hosts sync.WaitGroup
		for i := range 8 {
			h := newHost(t, target.PeelID(fmt.Sprintf("web-%d", i)))
			hosts.Go(func() {
				_, _, err := a.Hosts.Enroll(t.Context(), h.request(token))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					let++
				case errors.Is(err, enroll.ErrJoinEnded):
					refused++
				default:
					t.Error(err)
				}
			})
		}
		hosts.Wait()
		if let != 5 || refused != 3 {
			t.Errorf("%d were let in and %d refused", let, refused)
		}
	})
}

func TestWithoutATokenAPeelWaitsForAPerson(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		good, bad := newHost(t, "web-01"), newHost(t, "web-02")
		good.ask(t, a, "", enroll.ErrPending)
		good.ask(t, a, "", enroll.ErrPending)
		bad.ask(t, a, "", enroll.ErrPending)
		if _, err := a.Hosts.Approve(t.Context(), "web-01", bad.public, "ann"); !errors.Is(err, enroll.ErrConflict) {
			t.Errorf("approved with a key that does not wait: %v", err)
		}
		good.ask(t, a, "", enroll.ErrPending)
		if _, err := a.Hosts.Approve(t.Context(), "web-01", good.public, "ann"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := good.connect(t, b, good.ask(t, a, "", nil)); err != nil {
			t.Error(err)
		}
		if _, err := a.Hosts.Reject(t.Context(), "web-02", "ann"); err != nil {
			t.Fatal(err)
		}
		bad.ask(t, a, "", enroll.ErrRejected)
		if _, err := a.Hosts.Approve(t.Context(), "web-02", "", "ann"); !errors.Is(err, enroll.ErrConflict) {
			t.Errorf("who was rejected is approved: %v", err)
		}
		for _, id := range []target.PeelID{"web-03", "*", "web 1", ""} {
			if _, err := a.Hosts.Approve(t.Context(), id, "", "ann"); !errors.Is(err, enroll.ErrNotFound) {
				t.Errorf("%q: %v", id, err)
			}
		}
		if _, err := a.Hosts.Reject(t.Context(), "web-01", "ann"); !errors.Is(err, enroll.ErrConflict) {
			t.Errorf("who is accepted is rejected: %v", err)
		}
		if e := enrolled(t, a, "web-01"); len(e.History) != 2 || e.History[1].By != "ann" || !e.Expires.Equal(time.Now().Add(enroll.PeelLife)) {
			t.Errorf("%+v", e)
		}
	})
}

func TestAKnownPeelIsNeverReplacedByAnotherKey(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		token := joinToken(t, a, credential.JoinRequest{Name: "all", Peel: "*", Uses: 9, TTL: 24 * time.Hour})
		owner, thief, twin := newHost(t, "a.b"), newHost(t, "a.b"), newHost(t, "a_b")
		jwt := owner.ask(t, a, token, nil)
		thief.ask(t, a, token, enroll.ErrConflict)
		twin.ask(t, a, token, enroll.ErrConflict)
		e := enrolled(t, a, "a.b")
		if e.Public != owner.public || e.State != credential.Accepted || e.Conflicting == nil || e.Conflicting.Public != thief.public {
			t.Errorf("%+v", e)
		}
		if _, _, err := owner.connect(t, b, jwt); err != nil {
			t.Error(err)
		}
		if used, err := a.Hosts.JoinTokens(t.Context()); err != nil || used[0].Used != 1 {
			t.Errorf("conflicts use up a token: %+v, %v", used, err)
		}
		if _, err := keystore.Register(b.Keys.Dir(), keystore.Entry{Role: grants.RolePeel, ID: "db-01", Keys: []credential.Key{{Public: owner.public}}}, false); err != nil {
			t.Fatal(err)
		}
		newHost(t, "db-01").ask(t, a, token, enroll.ErrConflict) // it has a credential that was made beside the keys

		// A host that was set up again needs a person twice: to end the old, and to let in the new, token or not.
		if _, err := a.Hosts.Revoke(t.Context(), "a.b", "ann"); err != nil {
			t.Fatal(err)
		}
		owner.ask(t, a, token, enroll.ErrRejected)
		thief.ask(t, a, "", enroll.ErrPending)
		thief.ask(t, a, token, enroll.ErrPending)
		thief.ask(t, a, token, enroll.ErrPending)
		if _, err := a.Hosts.Approve(t.Context(), "a.b", thief.public, "ann"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := thief.connect(t, b, thief.ask(t, a, "", nil)); err != nil {
			t.Error(err)
		}
		if _, _, err := owner.connect(t, b, jwt); err == nil {
			t.Error("the revoked key is let in")
		}
		if _, err := a.Hosts.Revoke(t.Context(), "a.b", "ann"); err != nil {
			t.Fatal(err)
		}
		owner.ask(t, a, "", enroll.ErrRejected) // not even to wait
	})
}

func TestARevokedPeelIsCutOffAtOnceAndForGood(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		token := joinToken(t, a, credential.JoinRequest{Name: "all", Peel: "*", Uses: 9, TTL: time.Hour})
		h, other := newHost(t, "web-01"), newHost(t, "web-02")
		jwt, otherJWT := h.ask(t, a, token, nil), other.ask(t, a, token, nil)
		_, lost, err := h.connect(t, b, jwt)
		if err != nil {
			t.Fatal(err)
		}
		stays, _, err := other.connect(t, b, otherJWT)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if e, err := a.Hosts.Revoke(t.Context(), "web-01", "ann"); err != nil || e.State != credential.Revoked || len(e.History) != 3 {
				t.Fatal(e, err)
			}
		}
		synctest.Wait()
		select {
		case <-lost:
		default:
			t.Error("the connection goes on")
		}
		if !stays.IsConnected() {
			t.Error("another peel's connection was cut, too")
		}
		h.ask(t, a, token, enroll.ErrRejected)
		refused := func(when, jwt string) {
			t.Helper()
			if _, _, err := h.connect(t, b, jwt); err == nil {
				t.Errorf("%s it is let in", when)
			}
		}
		refused("a moment later", jwt)
		time.Sleep(time.Hour)
		late, err := b.Keys.Issue(grants.RolePeel, "web-01", h.public, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		refused("with what a master signs whose word was late", late)
		b.Restart(t)
		refused("by a server that was started again", jwt)
		b.Keys = open(t, b.Keys.Dir())
		b.Restart(t)
		refused("by a server of another process", jwt)
		if _, _, err := other.connect(t, b, otherJWT); err != nil {
			t.Error(err)
		}
	})
}

func TestACredentialThatWasMadeBesideTheKeysCanBeRevoked(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		h := newHost(t, "db.01")
		if _, err := a.Hosts.Revoke(t.Context(), "db.01", "ann"); !errors.Is(err, enroll.ErrNotFound) {
			t.Errorf("nobody is revoked: %v", err)
		}
		name, err := keystore.Register(b.Keys.Dir(), keystore.Entry{Role: grants.RolePeel, ID: "db.01", Keys: []credential.Key{{Public: h.public, Issued: time.Now()}}}, false)
		if err != nil {
			t.Fatal(err)
		}
		jwt, err := b.Keys.Issue(grants.RolePeel, name, h.public, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := h.connect(t, b, jwt); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Hosts.Revoke(t.Context(), "db_01", "ann"); !errors.Is(err, enroll.ErrNotFound) {
			t.Errorf("a peel that is another's twin is revoked: %v", err)
		}
		if _, err := a.Hosts.Revoke(t.Context(), "db.01", "ann"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := h.connect(t, b, jwt); err == nil {
			t.Error("it is let in")
		}
	})
}

// TestWhoOnlyAsksKeepsNoPeelFromBeingRevoked has a stranger ask for a peel before its credential is made beside the keys.
func TestWhoOnlyAsksKeepsNoPeelFromBeingRevoked(t *testing.T) {
	for _, c := range []struct {
		name   string
		asked  target.PeelID
		reject bool
	}{
		{"who waits", "db.01", false},
		{"who was rejected", "db.01", true},
		{"who waits under another ID of the same name on the bus", "db_01", false},
	} {
		natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
			a := authority(t, b)
			stranger, owner := newHost(t, c.asked), newHost(t, "db.01")
			stranger.ask(t, a, "", enroll.ErrPending)
			if c.reject {
				if _, err := a.Hosts.Reject(t.Context(), c.asked, "ann"); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := a.Hosts.Revoke(t.Context(), "db.01", "ann"); !errors.Is(err, enroll.ErrConflict) {
				t.Errorf("%s: revoked without a credential: %v", c.name, err)
			}
			name, err := keystore.Register(b.Keys.Dir(), keystore.Entry{Role: grants.RolePeel, ID: "db.01", Keys: []credential.Key{{Public: owner.public, Issued: time.Now()}}}, false)
			if err != nil {
				t.Fatal(err)
			}
			jwt, err := b.Keys.Issue(grants.RolePeel, name, owner.public, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := owner.connect(t, b, jwt); err != nil {
				t.Fatal(err)
			}
			e, err := a.Hosts.Revoke(t.Context(), "db.01", "ann")
			if err != nil || e.ID != "db.01" || e.State != credential.Revoked || e.Conflicting == nil || e.Conflicting.Public != stranger.public {
				t.Fatalf("%s: %+v, %v", c.name, e, err)
			}
			if _, _, err := owner.connect(t, b, jwt); err == nil {
				t.Errorf("%s: the peel is let in", c.name)
			}
		})
	}
}

func TestARenewalMovesTheEndOfACredential(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		h := newHost(t, "web-01")
		token := joinToken(t, a, credential.JoinRequest{Name: "all", Peel: "*", Uses: 1, TTL: time.Hour})
		for range 2 {
			c, err := jwt.DecodeUserClaims(h.ask(t, a, token, nil))
			if err != nil || c.Expires != time.Now().Add(enroll.PeelLife).Unix() || c.Subject != h.public || c.Name != "web-01" {
				t.Error(c, err)
			}
			if e := enrolled(t, a, "web-01"); e.Expires.Unix() != c.Expires {
				t.Errorf("the record says %v", e.Expires)
			}
			time.Sleep(time.Hour)
		}
	})
}

func TestStrangersAreBounded(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		waiting := 0
		for i := range 700 {
			_, _, err := a.Hosts.Enroll(t.Context(), newHost(t, target.PeelID(fmt.Sprintf("x-%d", i))).request(""))
			switch {
			case errors.Is(err, enroll.ErrPending):
				waiting++
			case !errors.Is(err, enroll.ErrFull):
				t.Fatal(err)
			}
		}
		if waiting != 500 {
			t.Errorf("%d strangers were taken down at once", waiting)
		}
		token := joinToken(t, a, credential.JoinRequest{Name: "all", Peel: "*", Uses: 1, TTL: time.Hour})
		newHost(t, "web-01").ask(t, a, token, nil) // who has a token does not stand behind them
	})
}

func TestARequestIsOfWhoHasTheKey(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		for name, spoil := range map[string]func(*enroll.Request){
			"another ID":         func(q *enroll.Request) { q.ID = "web-02" },
			"another key":        func(q *enroll.Request) { q.Public = newHost(t, "x").public },
			"no key":             func(q *enroll.Request) { q.Public = "" },
			"an account's key":   func(q *enroll.Request) { q.Public = "A" + q.Public[1:] },
			"no proof":           func(q *enroll.Request) { q.Proof = "" },
			"a proof of nothing": func(q *enroll.Request) { q.Proof = strings.Repeat("A", 86) },
			"everybody":          func(q *enroll.Request) { q.ID = "*" },
			"no ID":              func(q *enroll.Request) { q.ID = "" },
		} {
			q := newHost(t, "web-01").request("")
			spoil(&q)
			if _, _, err := a.Hosts.Enroll(t.Context(), q); !errors.Is(err, enroll.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if all, err := a.Hosts.List(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("something was stored: %v, %v", all, err)
		}
	})
}

// A bucket that cannot be read lets nobody in, and is no sign that a peel is new.
func TestWithoutTheBucketNobodyIsLetIn(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		token := joinToken(t, a, credential.JoinRequest{Name: "all", Peel: "*", Uses: 2, TTL: time.Hour})
		known, fresh := newHost(t, "web-01"), newHost(t, "web-02")
		known.ask(t, a, token, nil)
		b.Stop(t)
		for _, h := range []*host{known, fresh} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			jwt, _, err := a.Hosts.Enroll(ctx, h.request(token))
			if err == nil || jwt != "" || errors.Is(err, enroll.ErrConflict) || errors.Is(err, enroll.ErrJoinUnknown) {
				t.Errorf("%s: %v", h.id, err)
			}
		}
		b.Start(t)
		fresh.ask(t, a, token, nil)
	})
}

func FuzzEnrollRequest(f *testing.F) {
	key, err := nkeys.CreateUser()
	if err != nil {
		f.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		f.Fatal(err)
	}
	good, err := json.Marshal((&host{"web-01", key, public}).request("zester.web.x"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(append(good, good...))
	f.Add(bytes.Replace(good, []byte("web-01"), []byte("web-*"), 1))
	f.Add([]byte(`{"id":1}`))
	f.Add([]byte(`{"id":"web-01","from":"x"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		q, err := enroll.ParseRequest(text)
		if err != nil {
			if !errors.Is(err, enroll.ErrInvalid) {
				t.Error(err)
			}
			return
		}
		if q.From != "" {
			t.Errorf("a host says where it is: %q", q.From)
		}
		if q.Check() != nil {
			return
		}
		proof, _ := base64.RawURLEncoding.DecodeString(q.Proof)
		other, err := nkeys.FromPublicKey(q.Public)
		if err != nil || other.Verify(enroll.Proof(q.ID, q.Public), proof) != nil || strings.ContainsAny(q.ID.Wire(), "*> .") {
			t.Errorf("accepted: %+v", q)
		}
	})
}

func TestATokenTakesThePlaceOfARequestWithoutOne(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		token := joinToken(t, a, credential.JoinRequest{Name: "web", Peel: "web-*", Uses: 3, TTL: 24 * time.Hour})
		other := joinToken(t, a, credential.JoinRequest{Name: "db", Peel: "db-*", Uses: 3, TTL: 24 * time.Hour})
		stranger, host, thief := newHost(t, "web-07"), newHost(t, "web-07"), newHost(t, "web-07")
		stranger.ask(t, a, "", enroll.ErrPending)
		host.ask(t, a, "", enroll.ErrConflict)
		host.ask(t, a, other, enroll.ErrConflict)
		host.ask(t, a, "zr_web_0123456789", enroll.ErrConflict)
		jwt := host.ask(t, a, token, nil)
		if _, _, err := host.connect(t, b, jwt); err != nil {
			t.Error(err)
		}
		if e := enrolled(t, a, "web-07"); e.Public != host.public || e.State != credential.Accepted || e.Conflicting == nil || e.Conflicting.Public != stranger.public {
			t.Errorf("%+v", e)
		}
		stranger.ask(t, a, "", enroll.ErrConflict)
		thief.ask(t, a, token, enroll.ErrConflict)
		if used, err := a.Hosts.JoinTokens(t.Context()); err != nil || used[1].Used != 1 || used[0].Used != 0 {
			t.Errorf("%+v, %v", used, err)
		}

		// A token of somebody who was revoked with all that they made lets in nobody, also no host that waits already.
		enlist(t, b, a, credential.UserRequest{Name: "mallory", Role: grants.RoleOperator, TTL: time.Hour})
		text, hash := credential.NewSecret("door")
		q := credential.JoinRequest{Name: "door", Peel: "web-*", Uses: 1, TTL: time.Hour, Hash: hash}
		if _, _, err := a.Hosts.AddJoinToken(t.Context(), q, "mallory"); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Users.RevokeAll(t.Context(), "mallory", "boss"); err != nil {
			t.Fatal(err)
		}
		waiting := newHost(t, "web-09")
		waiting.ask(t, a, "", enroll.ErrPending)
		waiting.ask(t, a, text, enroll.ErrJoinEnded)

		// After a request was rejected the token lets in another key, not the rejected one.
		stranger, host = newHost(t, "web-08"), newHost(t, "web-08")
		stranger.ask(t, a, "", enroll.ErrPending)
		if _, err := a.Hosts.Reject(t.Context(), "web-08", "ann"); err != nil {
			t.Fatal(err)
		}
		stranger.ask(t, a, token, enroll.ErrRejected)
		host.ask(t, a, token, nil)

		// A peel that was revoked waits for a person, whatever it has.
		if _, err := a.Hosts.Revoke(t.Context(), "web-08", "ann"); err != nil {
			t.Fatal(err)
		}
		again := newHost(t, "web-08")
		again.ask(t, a, token, enroll.ErrPending)
		thief = newHost(t, "web-08")
		thief.ask(t, a, token, enroll.ErrConflict)
	})
}

func TestARequestDoesNotTakeAnID(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		token := joinToken(t, a, credential.JoinRequest{Name: "all", Peel: "*", Uses: 3, TTL: 24 * time.Hour})
		newHost(t, "db-01").ask(t, a, "", enroll.ErrPending)
		owner := newHost(t, "db-01")
		if _, err := keystore.Register(b.Keys.Dir(), keystore.Entry{Role: grants.RolePeel, ID: "db-01", Keys: []credential.Key{{Public: owner.public}}}, false); err != nil {
			t.Errorf("no credential can be made beside the keys: %v", err)
		}
		newHost(t, "db-01").ask(t, a, token, enroll.ErrConflict) // it has one now
	})
}

// Of the other keys that ask for a known ID, people see one an hour.
func TestTheKeyThatContradictsIsReplacedAfterAnHour(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		token := joinToken(t, a, credential.JoinRequest{Name: "all", Peel: "*", Uses: 9, TTL: 24 * time.Hour})
		newHost(t, "web-01").ask(t, a, token, nil)
		first, later := newHost(t, "web-01"), newHost(t, "web-01")
		for _, c := range []struct {
			asks, seen *host
			after      time.Duration
		}{{first, first, 0}, {later, first, 50 * time.Minute}, {later, later, 20 * time.Minute}} {
			time.Sleep(c.after)
			c.asks.ask(t, a, token, enroll.ErrConflict)
			if e := enrolled(t, a, "web-01"); e.Conflicting == nil || e.Conflicting.Public != c.seen.public {
				t.Errorf("after %s: %+v", c.after, e.Conflicting)
			}
		}
	})
}
